"""Comparison of the settings with the cluster, before anything is declared."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from trainyard.checks.finding import Finding
from trainyard.cluster_state.queues import LiveQueues
from trainyard.errors import TrainyardError
from trainyard.kube.training_kinds import QUEUES
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.scheduling.queues.queue_bodies import QueueObjects
from trainyard.settings.stack import StackSettings

from .common.existing_components import check_existing
from .common.fabric_nodes import check_fabric_nodes
from .common.ownership import LiveObjects, list_live_objects
from .common.target import Target
from .common.tenant_retirement import reject_removed_tenants, retired_tenants, terminating_namespaces
from .hooks.queue_drain import removed_queues, retired_queues
from .hooks.queues import live_queues, reject_changes
from .registry import declarations

__all__ = ["QUEUE", "Comparison", "compare_with_cluster"]

QUEUE: Final = (QUEUES.api_version, QUEUES.kind)
"""apiVersion and kind of queues."""


@dataclass(frozen=True)
class Comparison:
    """What is known of the cluster after the comparison with the settings.

    Parameters
    ----------
    owned_queues
        Names of the live queues of the stack.
    queues
        The live queues, if some belong to the stack.
    removed_queues
        Retired queues that exist, and that the settings no longer contain.
    tenants
        By retired tenant, what the deletion of its namespace does.
    terminating
        Namespaces of retired tenants that are deleted.
    """

    owned_queues: Collection[str] = ()
    queues: LiveQueues = field(default_factory=LiveQueues)
    removed_queues: Sequence[str] = ()
    tenants: Mapping[str, str] = field(default_factory=dict)
    terminating: Collection[str] = ()


def compare_with_cluster(
    name: str,
    settings: StackSettings,
    queues: QueueObjects,
    target: Target,
    live: LiveObjects,
    *,
    may_be_new: bool = False,
) -> Comparison:
    """Reject changes that lose what exists, or that the cluster's nodes and existing components contradict.

    Parameters are as for `components.preparation.prepared`, with the objects that exist, and whether the same program
    may have created the cluster.

    Raises
    ------
    TrainyardError
        A component, tenant or queue that is removed is in use, too many nodes of the fabric are missing, or a component
        with ``install: existing`` differs from the settings.
    """
    access = target.access
    _reject_removals(settings, name, access, live)
    check_fabric_nodes(settings, live.labels("v1", "Node"), may_be_new=may_be_new)
    check_existing(settings, declarations(), access, target)
    reject_removed_tenants(settings, name, live)
    tenants = retired_tenants(settings, name, access, live)
    owned = live.owned(name, *QUEUE)
    found = live_queues(access, queues.all, owned, retired_queues(settings.queues)) if owned else LiveQueues()
    reject_changes(found, queues.all, owned)
    terminating = terminating_namespaces(settings, name, live)
    return Comparison(owned, found, removed_queues(found, settings.queues, owned), tenants, terminating)


def _reject_removals(settings: StackSettings, stack: str, access: ClusterAccess, live: LiveObjects) -> None:
    """Reject the removal of a component while objects exist that only its controller can release.

    Raises
    ------
    TrainyardError
        Names these components, each with one of the objects.
    """
    definitions = live.created(stack, "apiextensions.k8s.io/v1", "CustomResourceDefinition")
    findings = []
    for each in declarations().values():
        kinds = {
            kind: plural
            for kind, plural in each.finalized_kinds.items()
            if f"{plural}.{kind[0].partition('/')[0]}" in definitions and each.settings(settings).install is not True
        }
        found = list_live_objects(access, stack, (), kinds, {}).metadata if kinds else {}
        held = [address for address, metadata in found.items() if address[:2] in kinds and metadata.get("finalizers")]
        if held:
            _, kind, namespace, name = min(held)
            count = f"{len(held)} {kind}s" if len(held) > 1 else f"one {kind}"
            findings.append(
                Finding(
                    f"trainyard:{each.name}.install",
                    f"{count} ({namespace}/{name}) cannot be deleted, and their jobs stay suspended, without it",
                    "keep install: true until their jobs have finished or are deleted",
                )
            )
    if findings:
        raise TrainyardError("This program would remove a component that is in use", findings=findings)
