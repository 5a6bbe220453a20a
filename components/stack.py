"""Installation of one stack: settings, cluster, provider, conventions, and the components in order.

Each component is installed after those that its declaration needs, and is deleted before them. Its arguments are its
section of the settings, the target cluster, and the resources of the components before it (`Resources`):

- volcano, jobset, kueue, console
- trainer: volcano, jobset, kueue, console
- platform: trainer
- policies: volcano, jobset, kueue, console, trainer, platform
- queues: volcano
- topology: volcano
- runtimes: trainer, platform
- tenants: all others
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, Final

import pulumi
import pulumi_kubernetes
import yaml

from trainyard import upstream
from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.local.cluster import cluster_name, provider
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.platform.pulumi_sdk.engine import PulumiEngine
from trainyard.scheduling.queues.queue_bodies import QueueObjects
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.settings.sections.trainer import TrainerSettings
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import parse_stack, reject_secrets
from trainyard.stack_checks import check_node_labels, stack_queues, unenforced_shares

from .cluster_comparison import Comparison, compare_with_cluster
from .common.declaration import Resources, installation_outputs
from .common.installation import Installation
from .common.objects import Component
from .common.offline import OFFLINE_KUBECONFIG, access_or_offline
from .common.pod_settings import check_programs
from .common.target import Target
from .preparation import prepared
from .registry import (
    declarations,
    image_repositories,
    installation_order,
    needed_by,
)

__all__ = [
    "PROVIDER_OPTIONS",
    "Comparison",
    "compare_with_cluster",
    "export_outputs",
    "install_components",
    "open_stack",
    "prepared",
    "reported_errors",
    "validate_stack",
]

PROVIDER_OPTIONS: Final[Mapping[str, Any]] = {
    "enable_config_map_mutable": True,
    "enable_server_side_apply": True,
    "suppress_deprecation_warnings": True,
}
"""Options of the Kubernetes provider on which the components rely."""


@contextmanager
def open_stack() -> Iterator[Installation]:
    """Open the stack of the current run; at the end, fail if declared objects have another owner.

    Raises
    ------
    pulumi.RunError
        The settings are invalid, the cluster is unreachable, or it contains objects of other owners with the same
        names that may not or cannot be adopted. Or the run only plans their takeover (`PLAN_VARIABLE`). Pulumi prints
        the message without a traceback. After this or any other error nothing is created.
    """
    with reported_errors(), _opened() as stack:
        yield stack


@contextmanager
def reported_errors() -> Iterator[PulumiEngine]:
    """Declare nothing after an error, and let Pulumi print the user's errors without a traceback.

    Yields the engine, for errors that occur after the program has run.

    Raises
    ------
    pulumi.RunError
        Something inside raised a TrainyardError.
    """
    engine = PulumiEngine()
    try:
        with upstream.without_downloads() if pulumi.runtime.is_dry_run() else nullcontext():
            yield engine
    except TrainyardError as error:
        failure = pulumi.RunError(str(error))
        engine.fail_registrations(failure)
        raise failure from error
    except Exception as error:
        engine.fail_registrations(error)
        raise


@contextmanager
def _opened() -> Iterator[Installation]:
    name = pulumi.get_stack()
    settings = _settings(name)
    queues = validate_stack(settings)
    for finding in unenforced_shares(settings):
        pulumi.log.warn(str(finding))
    cluster = cluster_name(settings, name)
    access = access_or_offline(provider(settings.cluster, cluster), cluster, settings)
    target = Target.of(settings, access, image_repositories())

    def options() -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(
            provider=pulumi_kubernetes.Provider(
                "kubernetes",
                kubeconfig=str(access.kubeconfig),
                context=access.context,
                cluster_identifier=access.name,
                **PROVIDER_OPTIONS,
            )
        )

    with prepared(name, settings, queues, target, options, readable=access.kubeconfig != OFFLINE_KUBECONFIG) as stack:
        yield stack


def install_components(context: Installation, names: Collection[str] | None = None) -> dict[str, Component]:
    """Declare the resources of components, each after those that it needs, and return the components by name.

    Parameters
    ----------
    names
        Components to declare; None: all.
    """
    declared, installed = context.declarations, dict[str, Component]()
    for name in installation_order(declared):
        if names is not None and name not in names:
            continue
        needed = (installed[each] for each in needed_by(declared[name], declared) if each in installed)
        if (component := declared[name].install(context, Resources.of(needed))) is not None:
            installed[name] = component
    return installed


def export_outputs(context: Installation, components: Mapping[str, Component]) -> None:
    """Export the names of what the components declare, and the kubeconfig's context, as outputs of the stack."""
    for name, value in installation_outputs(components.values(), _context_of(context.target.access)).items():
        pulumi.export(name, value)


def validate_stack(settings: StackSettings) -> QueueObjects:
    """Validate the settings before anything is declared, and return the queues.

    Raises
    ------
    TrainyardError
        The queue tree or the fabric is invalid, the pod settings name a program that is not installed, a policy rejects
        the node labels or tolerations of Kueue's flavors, or the stack installs a component with webhooks, such as
        Volcano, but not the trainer, whose controller issues its certificate.
    """
    queues = stack_queues(settings)
    compile_fabric(settings.fabric)
    if findings := check_node_labels(settings):
        raise TrainyardError("A policy rejects the pods of Kueue's flavors", findings=findings)
    programs = {
        program: not each.has_settings or each.settings(settings).install is True
        for each in declarations().values()
        for program in each.images
    }
    if findings := check_programs(settings.pods, programs):
        raise TrainyardError("The pod settings name programs that are not installed", findings=findings)
    served = [each for each in declarations().values() if each.webhooks is not None]
    installed = [each.name for each in served if each.settings(settings).install is True]
    if TrainerSettings.of(settings).install is not True and installed:
        raise TrainyardError(
            "trainyard:trainer is existing, but this program installs other components",
            findings=[
                Finding(f"trainyard:{name}.install", "its certificate is issued by this program's trainer controller")
                for name in installed
            ],
            fix="set install: existing for these too, or install: true for the trainer",
        )
    return queues


def _settings(stack: str) -> StackSettings:
    config = pulumi.Config("trainyard")
    present = {**pulumi.runtime.config.get_config_env(), **pulumi.runtime.config.CONFIG.get()}
    keys = [key.removeprefix("trainyard:") for key in present if key.startswith("trainyard:")]
    source = f"Pulumi.{stack}.yaml"
    reject_secrets((key for key in keys if pulumi.runtime.is_config_secret(f"trainyard:{key}")), source=source)
    return parse_stack({key: config.get_object(key) for key in keys}, source=source)


def _context_of(access: ClusterAccess) -> str:
    """Return the name of the context: the selected one, or the current one of the kubeconfig; empty without a file."""
    if access.context or not access.kubeconfig.is_file():
        return access.context or ""
    return str((yaml.safe_load(access.kubeconfig.read_text()) or {}).get("current-context", ""))
