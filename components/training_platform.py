"""The training platform as one component resource of any Pulumi program.

The kubeconfig may be an output of a cluster that the same program creates. In a preview it is then unknown: the
settings are validated, every object is declared, and the check of owners waits until `up` knows the kubeconfig.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes
from pulumi.runtime.resource import collapse_alias_to_urn, inherited_child_alias

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.local.cluster.environment import NO_CLUSTER_VARIABLE
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.platform.pulumi_sdk.dependencies import await_dependencies
from trainyard.platform.pulumi_sdk.engine import PulumiEngine
from trainyard.settings.sections import SECTIONS
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import parse_stack

from .cluster_comparison import compare_with_cluster
from .common.declaration import installation_outputs
from .common.deferred_ownership import DeferredOwnership
from .common.given_kubeconfig import GivenKubeconfig, inputs_in
from .common.objects import Component
from .common.owner import owner_of
from .common.ownership import list_live_objects
from .common.target import Target
from .registry import cluster_kinds, declarations, image_repositories, namespaced_kinds
from .stack import (
    PROVIDER_OPTIONS,
    install_components,
    prepared,
    reported_errors,
    validate_stack,
)

__all__ = ["TrainingPlatform", "TrainingPlatformArgs"]


@dataclass(frozen=True)
class TrainingPlatformArgs:
    """Arguments of the training platform.

    Parameters
    ----------
    kubeconfig
        Path, list of paths, content or parsed document of the kubeconfig; the content, or values in the document, may
        be outputs.
    settings
        Settings of a stack (docs/reference/settings.md) by key, without ``cluster`` and ``adopt``; plain values.
    context
        Context of the kubeconfig, which may be an output; None: its current context.
    components
        Names of the components to declare; None: all. What the others would install must exist.
    images
        Whole image references by image name, which may be outputs; they precede ``settings["images"]``.
    """

    kubeconfig: pulumi.Input[Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    context: pulumi.Input[str] | None = None
    components: Sequence[str] | None = None
    images: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)


class TrainingPlatform(Component):
    """Components of the platform on one cluster; one in a Pulumi stack.

    Parameters
    ----------
    name
        Name of the resource.
    args
        Arguments.
    opts
        Options. Every object is created after ``depends_on``, because the platform's provider is.

    Attributes
    ----------
    components
        The declared components by name.
    namespace_names, service_names, queue_names
        Names of what they declare; a Service as ``namespace/name``.
    kubeconfig_context
        Context of the kubeconfig.

    Raises
    ------
    pulumi.RunError
        The arguments are invalid, the cluster is unreachable, or it contains objects of other owners.
    """

    def __init__(self, name: str, args: TrainingPlatformArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("index", name, opts)
        with reported_errors() as engine:
            self._install(name, args, opts or pulumi.ResourceOptions(), engine)

    def _install(
        self, name: str, args: TrainingPlatformArgs, opts: pulumi.ResourceOptions, engine: PulumiEngine
    ) -> None:
        owner, settings = owner_of(pulumi.get_project(), pulumi.get_stack()), _settings(args)
        queues = validate_stack(settings)
        chosen: pulumi.Input[str] | None = args.context
        if args.context is not None and not isinstance(args.context, str):
            chosen = pulumi.Output.from_input(args.context)  # an awaitable is awaited once
        kubeconfig = GivenKubeconfig(args.kubeconfig, chosen)
        access = ClusterAccess(name, kubeconfig.path, kubeconfig.chosen)
        target = Target.of(settings, access, image_repositories(), args.images)
        deferred = None if kubeconfig.known else DeferredOwnership(owner)
        offline = os.environ.get(NO_CLUSTER_VARIABLE, "") not in ("", "false")
        readable = kubeconfig.known and not offline
        if offline and not pulumi.runtime.is_dry_run():
            raise TrainyardError(
                f"{NO_CLUSTER_VARIABLE} is set, but only a preview works without a cluster", fix="unset it"
            )
        if offline:
            pulumi.log.info("The cluster is not read: every object is planned as a creation", self)
        elif deferred is not None:
            pulumi.log.info(
                "The kubeconfig or its context is an output: the cluster is compared when it is known, before the "
                "first object is written; a retired queue is deleted when its entry is removed",
                self,
            )

        removed: list[str] = []

        def check() -> None:
            # The provider's registration follows; an error inside an output would reach each object as an exception.
            if deferred is None or offline:
                return
            namespaces = {*settings.platform_namespaces, *settings.tenants}
            try:
                live = list_live_objects(access, owner, namespaces, cluster_kinds(), namespaced_kinds())
                deferred.check(live)
                found = compare_with_cluster(owner, settings, queues, target, live, may_be_new=True)
                removed.extend(found.removed_queues)
                for tenant, effect in found.tenants.items():
                    pulumi.log.warn(f"Tenant {tenant!r} is retired: {effect}", self)
            except TrainyardError as error:
                pulumi.log.error(str(error), self)
                engine.fail_registrations(pulumi.RunError(str(error)))

        content = kubeconfig.provider_input(check, lambda: await_dependencies(opts, self))
        later = deferred is not None and not offline
        removed_queues = pulumi.Output.unsecret(pulumi.Output.from_input(content).apply(lambda _: removed))

        def options() -> pulumi.ResourceOptions:
            # The identifier stays the same under another name of the platform: a new one would replace every object.
            provider = pulumi_kubernetes.Provider(
                f"{name}-kubernetes",
                kubeconfig=content,
                context=chosen,
                cluster_identifier=owner,
                opts=pulumi.ResourceOptions(
                    parent=self, depends_on=opts.depends_on, aliases=_provider_aliases(name, opts)
                ),
                **PROVIDER_OPTIONS,
            )
            return pulumi.ResourceOptions(parent=self, provider=provider)

        with prepared(
            owner,
            settings,
            queues,
            target,
            options,
            readable=readable,
            deferred=deferred,
            removed=removed_queues if later else (),
        ) as context:
            self.components = install_components(context, args.components)
        self.kubeconfig_context = kubeconfig.context()
        outputs = installation_outputs(self.components.values(), self.kubeconfig_context)
        self.namespace_names, self.service_names, self.queue_names = (
            outputs[kind] for kind in ("namespaces", "services", "queues")
        )
        self.register_outputs(outputs)


def _provider_aliases(name: str, opts: pulumi.ResourceOptions) -> list[pulumi.Input[str | pulumi.Alias]]:
    """Return the former URNs of the provider: one for each alias of the platform, whose name it contains."""
    own = "trainyard:index:TrainingPlatform"
    former = [collapse_alias_to_urn(alias, name, own, opts.parent) for alias in opts.aliases or ()]
    return [inherited_child_alias(f"{name}-kubernetes", name, urn, "pulumi:providers:kubernetes") for urn in former]


def _settings(args: TrainingPlatformArgs) -> StackSettings:
    """Return the settings; sections of components that are not declared exist already.

    Raises
    ------
    TrainyardError
        The settings are invalid, outputs, or not supported here, or a component does not exist.
    """
    if outputs := list(inputs_in(args.settings, "settings")):
        raise TrainyardError(
            "The program validates the settings before it declares anything, so their values must be known",
            findings=[Finding(path, "an output is not supported", "pass a plain value") for path in outputs],
            fix="read it from pulumi.Config or a constant; for whole images, use the argument images",
        )
    if "cluster" in args.settings:
        raise TrainyardError("settings.cluster is not supported here", fix="pass kubeconfig and context instead")
    if unknown := sorted(set(args.components or ()) - declarations().keys()):
        known = ", ".join(declarations())
        raise TrainyardError(
            "components names components that do not exist",
            findings=[Finding(f"components.{each}", "unknown component", f"use one of {known}") for each in unknown],
        )
    others = SECTIONS.keys() - set(args.components) if args.components is not None else ()
    existing = {name: {"install": "existing"} for name in sorted(others) if SECTIONS[name].required}
    cluster = {"provider": "existing", "context": args.context if isinstance(args.context, str) else "current"}
    settings = parse_stack({**existing, **args.settings, "cluster": cluster}, source="settings")
    if settings.adopt:
        raise TrainyardError(
            "settings.adopt is not supported here: only `trainyard destroy` gives back what is taken",
            fix="take the installation over with the program of stacks/, or remove it first",
        )
    return settings
