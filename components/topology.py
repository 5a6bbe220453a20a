"""The network fabric as HyperNodes: created from the racks upward, deleted from the top down.

The order is not a matter of taste: deleting a HyperNode that its parent still lists stops the scheduler of
Volcano 1.14.1 at the next gang that asks for a topology.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pulumi

from components.hooks.hypernodes import Rewiring
from components.objects import Component, KubernetesObject
from trainyard.cluster import ClusterAccess
from trainyard.problem import Problem, TrainyardError
from trainyard.settings import StackSettings
from trainyard.topology import Fabric, compile_fabric

__all__ = ["Topology", "differences"]


class Topology(Component):
    """The HyperNodes of a fabric.

    Parameters
    ----------
    live_nodes
        Names of the cluster's nodes; None when the cluster was not looked at.
    access
        The cluster, whose HyperNodes are made fit to be changed; None where there is none to change.
    after
        Volcano's Deployments and webhook configurations.

    Raises
    ------
    TrainyardError
        The fabric names nodes that the cluster does not have.
    """

    def __init__(
        self,
        name: str,
        settings: StackSettings,
        *,
        live_nodes: Collection[str] | None = None,
        access: ClusterAccess | None = None,
        after: Iterable[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("topology", name, opts)
        fabric = compile_fabric(settings.fabric)
        missing = differences(fabric, live_nodes) if live_nodes is not None else []
        if missing:
            error = TrainyardError(
                "The fabric in the settings and the nodes of the cluster differ",
                problems=missing,
                fix="run `trainyard cluster up` (simulated nodes), or correct trainyard:fabric",
            )
            if not pulumi.runtime.is_dry_run():
                raise error
            pulumi.log.warn(str(error), resource=self)
        edges, manifests, order = list(after), fabric.hyper_nodes, fabric.order
        hooks = Rewiring(access, manifests, pulumi.get_stack()).binding() if access is not None else None
        made: dict[str, KubernetesObject] = {}
        for manifest in manifests:
            own = manifest["metadata"]["name"]
            members = [made[member] for member in order[own]]
            made[own] = self.child(manifest, after=[*edges, *members], hooks=hooks)
        self.ready = list(made.values())
        self.register_outputs({})


def differences(fabric: Fabric, live_nodes: Collection[str]) -> list[Problem]:
    """Return the nodes of a fabric that a cluster does not have."""
    missing = [node for node in fabric.nodes if node.name not in live_nodes]
    return [Problem(f"trainyard:fabric.{node.path[0]}", f"the cluster has no node {node.name}") for node in missing]
