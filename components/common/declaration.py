"""Declaration of a component: what the program and the other components know of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pulumi

from components.common.target import Target
from components.common.webhook_certificates import certificate
from trainyard.controller.configuration import Certificate
from trainyard.settings import StackSettings
from trainyard.settings.platform import InstalledSettings

__all__ = ["Declaration", "Installed", "Kinds", "WebhookServer"]

Kinds = Mapping[tuple[str, str], str]
"""Plural by API version and kind."""


class Installed(Protocol):
    """Resources of an installed component that others depend on."""

    @property
    def crds(self) -> Sequence[pulumi.Resource]:
        """CustomResourceDefinitions."""

    @property
    def namespaces(self) -> Mapping[str, pulumi.Resource]:
        """Its namespaces, by name."""

    @property
    def ready(self) -> Sequence[pulumi.Resource]:
        """Resources that are ready when it serves."""


@dataclass(frozen=True, kw_only=True)
class WebhookServer:
    """A webhook server whose certificate the trainer controller's leader issues.

    Parameters
    ----------
    secret
        Secret that the leader writes.
    service
        Service of the server.
    configurations
        Returns its webhook configurations, whose caBundles the leader writes.
    """

    secret: str
    service: str
    configurations: Callable[[Any, Target], Iterable[Mapping[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """A component of the platform.

    Parameters
    ----------
    name
        Name of its module, and of its section of the settings if it has one.
    order
        Position among the components; unique.
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
    install
        Declares its resources, for a component that the program does not name: it depends on no other component. It
        returns None if it is not installed. None: the program instantiates it.
    tenant_objects
        Returns its objects in the namespace of a tenant.
    replaced_fields
        Fields of its kinds that cannot change in a stored object: with a new value, the object is replaced.
    """

    name: str
    order: int
    images: Mapping[str, str] = field(default_factory=dict)
    manifests: tuple[str, ...] = ()
    cluster_kinds: Kinds = field(default_factory=dict)
    namespaced_kinds: Kinds = field(default_factory=dict)
    finalized_kinds: Kinds = field(default_factory=dict)
    webhooks: WebhookServer | None = None
    install: Callable[[StackSettings, Target, pulumi.ResourceOptions], Installed | None] | None = None
    tenant_objects: Callable[[StackSettings, str], Iterable[Mapping[str, Any]]] = lambda _settings, _tenant: ()
    replaced_fields: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)

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
            mutating=names["MutatingWebhookConfiguration"],
            validating=names["ValidatingWebhookConfiguration"],
        )
        return (issued,)
