"""Hook for HyperNode changes: remove members before they are added elsewhere, because Volcano schedules meanwhile.

Pulumi creates members before the HyperNodes that list them, and deletes last, parents first. Two cases remain: a member
must never be in two HyperNodes at once, and tiers are raised from the top. The hook handles both, once, before the
first HyperNode is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainyard.api.constants import STACK_LABEL
from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.kube.client import Client
from trainyard.kube.resource import Object
from trainyard.kube.training_kinds import HYPER_NODES
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.scheduling.topology.order import listed, preparation

from ..common.objects import FIELD_MANAGER
from .base import with_spec
from .migration import MigrationHook, PlannedWrite, changed_fields
from .webhooks import wait_for_webhook

_REPLACEMENT_SECONDS = 90.0
"""Seconds within which pods of a webhook that serve another authority's certificate are replaced."""


class HyperNodeMigration(MigrationHook):
    """Migrates live HyperNodes so that Pulumi can update each in any order.

    Parameters
    ----------
    access
        The cluster.
    manifests
        The desired HyperNodes.
    stack
        Value of this stack's label; HyperNodes without it are not changed.
    """

    kind = "HyperNode"

    def __init__(self, access: ClusterAccess, manifests: Sequence[Mapping[str, Any]], stack: str) -> None:
        super().__init__(access, "hypernode-rewiring")
        self._manifests = manifests
        self._stack = stack

    async def prepare(self, client: Client) -> None:
        """Wait for Volcano's webhook, then make the writes.

        During a takeover, the API server trusts the platform's authority before the pods of the former webhook are
        replaced.
        """
        if self._manifests:
            await wait_for_webhook(client, HYPER_NODES, self._manifests[0], patience=_REPLACEMENT_SECONDS)
        await super().prepare(client)

    async def plan(self, client: Client) -> Sequence[PlannedWrite]:
        """Return the writes that remove members that move, and raise tiers.

        Raises
        ------
        TrainyardError
            A HyperNode of another owner lists a member that this stack declares.
        """
        live = {body["metadata"]["name"]: body for body in await client.list(HYPER_NODES)}
        wanted = {manifest["metadata"]["name"] for manifest in self._manifests}
        ours = {name for name, body in live.items() if self._is_ours(body) or name in wanted}
        foreign = [
            Finding(f"HyperNode/{name}", f"lists {', '.join(sorted(common))}, which would then have two parents")
            for name, body in sorted(live.items())
            if name not in ours and (common := listed(body) & wanted)
        ]
        if foreign:
            raise TrainyardError(
                "HyperNodes of another owner list HyperNodes of this stack's fabric: "
                "no gang with a network topology request would be scheduled",
                findings=foreign,
                fix="remove these members or HyperNodes, or disable the discovery that creates them",
            )
        return [
            PlannedWrite(
                step.name,
                with_spec(HYPER_NODES, live[step.name], step.spec),
                changed_fields(live[step.name].get("spec") or {}, step.spec),
            )
            for step in preparation([live[name] for name in sorted(ours)], self._manifests)
        ]

    async def execute(self, client: Client, write: PlannedWrite) -> None:
        """Apply one HyperNode."""
        await client.apply(HYPER_NODES, write.body, field_manager=FIELD_MANAGER)

    def _is_ours(self, body: Object) -> bool:
        return bool(body["metadata"].get("labels", {}).get(STACK_LABEL) == self._stack)
