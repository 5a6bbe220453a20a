"""Hook for HyperNode changes: remove members before they are added elsewhere, because Volcano schedules meanwhile.

Pulumi makes members before those that list them and deletes last, parents first. What is left is that a member must
not be in two HyperNodes for a moment, and that a rising tier rises from the top: a hook does that, once, before the
first HyperNode is touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from components.hooks.base import Preparation, with_spec
from components.objects import FIELD_MANAGER
from components.ownership import STACK_LABEL
from trainyard.cluster import ClusterAccess
from trainyard.controller.resources import HYPER_NODES
from trainyard.kube import Client, Object
from trainyard.problem import Problem, TrainyardError
from trainyard.topology.order import listed, preparation

__all__ = ["Rewiring"]


class Rewiring(Preparation):
    """Brings live HyperNodes to where Pulumi can change them.

    Parameters
    ----------
    access
        The cluster.
    manifests
        The HyperNodes that there will be.
    stack
        Value of this stack's label; HyperNodes of others are not touched.
    """

    def __init__(self, access: ClusterAccess, manifests: Sequence[Mapping[str, Any]], stack: str) -> None:
        super().__init__(access, "hypernode-rewiring")
        self._manifests = manifests
        self._stack = stack

    async def prepare(self, client: Client) -> None:
        """Take away what moves, and raise what rises.

        Raises
        ------
        TrainyardError
            A HyperNode that this stack did not make lists one that it makes.
        """
        live = {body["metadata"]["name"]: body for body in await client.list(HYPER_NODES)}
        wanted = {manifest["metadata"]["name"] for manifest in self._manifests}
        ours = {name for name, body in live.items() if self._is_ours(body) or name in wanted}
        foreign = [
            Problem(f"HyperNode/{name}", f"lists {', '.join(sorted(common))}, which would have two parents")
            for name, body in sorted(live.items())
            if name not in ours and (common := listed(body) & wanted)
        ]
        if foreign:
            raise TrainyardError(
                "HyperNodes that this stack did not make list HyperNodes of its fabric: "
                "no gang that asks for a topology would be scheduled",
                problems=foreign,
                fix="remove these members or HyperNodes, or switch off the discovery that makes them",
            )
        for step in preparation([live[name] for name in sorted(ours)], self._manifests):
            await client.apply(
                HYPER_NODES, with_spec(HYPER_NODES, live[step.name], step.spec), field_manager=FIELD_MANAGER
            )

    def _is_ours(self, body: Object) -> bool:
        return bool(body["metadata"].get("labels", {}).get(STACK_LABEL) == self._stack)
