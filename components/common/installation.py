"""Inputs of an installation: the settings, the cluster, and the objects that exist in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pulumi

from trainyard.controller.configuration import Certificate
from trainyard.scheduling.queues.queue_bodies import QueueObjects
from trainyard.scheduling.queues.retirement import QueueRetirement
from trainyard.settings.stack import StackSettings

from .ownership import LiveObjects
from .target import Target

if TYPE_CHECKING:
    from .declaration import Declaration


@dataclass(frozen=True)
class Installation:
    """Inputs of the components of one stack.

    Parameters
    ----------
    name
        Value of the stack's label.
    settings
        Its settings.
    target
        Its target cluster.
    options
        Options of every component: the provider.
    declarations
        Declaration of each component, by name.
    live
        The objects that exist already; None if the cluster was not read.
    queues
        Its validated queues.
    retired_queues
        Its retired queues.
    removed_queues
        Retired queues that exist, and that the settings no longer contain.
    retired_tenants
        By retired tenant, what the deletion of its namespace does.
    """

    name: str
    settings: StackSettings
    target: Target
    options: pulumi.ResourceOptions
    declarations: Mapping[str, Declaration]
    live: LiveObjects | None
    queues: QueueObjects
    retired_queues: QueueRetirement = field(default_factory=QueueRetirement)
    removed_queues: pulumi.Input[Sequence[str]] = ()
    retired_tenants: Mapping[str, str] = field(default_factory=dict)

    def options_after(self, *resources: pulumi.Resource) -> pulumi.ResourceOptions:
        """Return the options of a component that depends on resources."""
        return pulumi.ResourceOptions.merge(self.options, pulumi.ResourceOptions(depends_on=resources))

    def owned(self, api_version: str, kind: str) -> set[str]:
        """Return the names of the existing cluster-scoped objects of a kind that belong to the stack."""
        return set() if self.live is None else self.live.owned(self.name, api_version, kind)

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """Certificates that the trainer controller's leader issues for other components."""
        return tuple(
            issued for each in self.declarations.values() for issued in each.certificates(self.settings, self.target)
        )

    @property
    def tenant_objects(self) -> dict[str, list[Mapping[str, Any]]]:
        """Objects of the components in the namespace of each tenant, by tenant."""
        return {
            tenant: [body for each in self.declarations.values() for body in each.tenant_objects(self.settings, tenant)]
            for tenant in self.settings.active_tenants
        }
