"""Declaration of a component: what the program and the other components know of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pulumi

from trainyard.checks.finding import Finding
from trainyard.controller.configuration import Certificate
from trainyard.platform.takeover.installations import LiveInstallation
from trainyard.settings.platform import InstalledSettings
from trainyard.settings.sections import SECTIONS
from trainyard.settings.stack import StackSettings

from .installation import Installation
from .objects import Component
from .target import Target

Kinds = Mapping[tuple[str, str], str]
"""Plural by API version and kind."""


class Group(Enum):
    """Components that another one needs for what they are, not by their names."""

    WEBHOOK_SERVERS = "the components with a webhook server"
    CONTROLLERS = "the components with a section of the settings"
    OTHERS = "all other components"


@dataclass(frozen=True)
class Resources:
    """Resources of installed components, for one that needs them.

    Parameters
    ----------
    crds
        CustomResourceDefinitions.
    namespaces
        Namespaces of the components, by name.
    ready
        Resources that are ready when the components serve.
    """

    crds: Sequence[pulumi.Resource] = ()
    namespaces: Mapping[str, pulumi.Resource] = field(default_factory=dict)
    ready: Sequence[pulumi.Resource] = ()

    @classmethod
    def of(cls, components: Iterable[Component]) -> Resources:
        """Return the resources of several components, in their order."""
        found = list(components)
        return cls(
            [crd for each in found for crd in each.crds],
            {name: namespace for each in found for name, namespace in each.namespaces.items()},
            [resource for each in found for resource in each.ready],
        )


@dataclass(frozen=True, kw_only=True)
class WebhookServer:
    """A server, usually of webhooks, whose certificate the trainer controller's leader issues.

    Parameters
    ----------
    secret
        Secret that the leader writes.
    service
        Service of the server.
    configurations
        Returns its webhook configurations, whose caBundles the leader writes.
    deployment
        Its Deployment, if its pods read the certificate only when they start: the leader replaces them after a renewal.
    names
        Returns further DNS names of the certificate, from its section of the settings.
    """

    secret: str
    service: str
    configurations: Callable[[Any, Target], Iterable[Mapping[str, Any]]]
    deployment: str = ""
    names: Callable[[Any], Iterable[str]] = lambda _settings: ()


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """A component of the platform.

    Parameters
    ----------
    name
        Name of its module, and of its section of the settings if it has one.
    order
        Position among the components; unique. It counts where no component needs the other.
    install
        Declares its resources, from the context and the resources of the components that it needs; returns None if it
        is not installed.
    needs
        Names of the components that are installed before it.
    needs_all
        Further components that are installed before it.
    images
        Repository by image name.
    manifests
        Upstream files that it reads, of each tested version of the section.
    cluster_kinds, namespaced_kinds
        Custom kinds of its objects, to detect objects of other owners.
    finalized_kinds
        Kinds of objects of users with a finalizer of its controller: without it, they could not be deleted.
    webhooks
        Its webhook server, if it has one.
    tenant_objects
        Returns its objects in the namespace of a tenant.
    inspect
        Returns findings about what others installed instead of it (``install: existing``), beside its programs' images.
    replaced_fields
        Fields of its kinds that cannot change in a stored object: with a new value, the object is replaced.
    """

    name: str
    order: int
    install: Callable[[Installation, Resources], Component | None]
    needs: tuple[str, ...] = ()
    needs_all: Group | None = None
    images: Mapping[str, str] = field(default_factory=dict)
    manifests: tuple[str, ...] = ()
    cluster_kinds: Kinds = field(default_factory=dict)
    namespaced_kinds: Kinds = field(default_factory=dict)
    finalized_kinds: Kinds = field(default_factory=dict)
    webhooks: WebhookServer | None = None
    tenant_objects: Callable[[StackSettings, str], Iterable[Mapping[str, Any]]] = lambda _settings, _tenant: ()
    inspect: Callable[[StackSettings, LiveInstallation], Iterable[Finding]] = lambda _settings, _live: ()
    replaced_fields: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)

    @property
    def has_settings(self) -> bool:
        """Whether it has a section of the settings."""
        return self.name in SECTIONS

    def settings(self, settings: StackSettings) -> InstalledSettings:
        """Return its section of the settings of a stack."""
        section: InstalledSettings = getattr(settings, self.name)
        return section

    def certificates(self, settings: StackSettings, target: Target) -> tuple[Certificate, ...]:
        """Return the certificates that the leader issues for it; none if it is not installed by the program."""
        section = self.settings(settings) if self.webhooks else None
        if self.webhooks is None or section is None or section.install is not True:
            return ()
        names: dict[str, list[str]] = {"MutatingWebhookConfiguration": [], "ValidatingWebhookConfiguration": []}
        for each in self.webhooks.configurations(section, target):
            names[each["kind"]].append(each["metadata"]["name"])
        issued = certificate(
            self.webhooks.secret,
            section.namespace,
            self.webhooks.service,
            target,
            deployment=self.webhooks.deployment,
            names=self.webhooks.names(section),
            mutating=names["MutatingWebhookConfiguration"],
            validating=names["ValidatingWebhookConfiguration"],
        )
        return (issued,)


def certificate(
    secret: str,
    namespace_name: str,
    service_name: str,
    target: Target,
    *,
    deployment: str = "",
    names: Iterable[str] = (),
    mutating: Iterable[str] = (),
    validating: Iterable[str] = (),
) -> Certificate:
    """Return the certificate of one webhook server.

    Parameters
    ----------
    secret, namespace_name
        Secret that the leader writes.
    service_name
        Service of the server; its DNS names are in the certificate.
    target
        The cluster; if webhooks are called by URL, its address is in the certificate too.
    deployment
        Deployment whose pods read the certificate only when they start; the leader replaces them after a renewal.
    names
        Further DNS names.
    mutating, validating
        Webhook configurations whose caBundle the leader writes.
    """
    host = f"{service_name}.{namespace_name}.svc"
    return Certificate(
        secret=secret,
        namespace=namespace_name,
        dns_names=(host, f"{host}.cluster.local", *names),
        ip_addresses=() if target.access.webhook_ports is None else (target.access.webhook_address,),
        deployment=deployment,
        mutating_webhook_configurations=tuple(sorted(mutating)),
        validating_webhook_configurations=tuple(sorted(validating)),
    )


def installation_outputs(components: Iterable[Component], context: pulumi.Input[str]) -> dict[str, Any]:
    """Return the outputs of a stack or a platform; a Service is ``namespace/name``. A kubeconfig is none of them."""
    names = [each.names for each in components]

    def of(kind: str) -> list[str]:
        return [name for each in names for name in each.get(kind, ())]

    return {
        "namespaces": of("namespaces"),
        "services": of("services"),
        "queues": of("queues"),
        "kubeconfigContext": context,
    }
