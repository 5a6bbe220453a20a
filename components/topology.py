"""The network fabric as HyperNodes: created from the racks upward, deleted from the top down.

The order is required: if a HyperNode is deleted while its parent still lists it, the scheduler of Volcano 1.14.1 stops
at the next gang with a network topology request.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import pulumi

from components.common.declaration import Declaration
from components.common.objects import Component, KubernetesObject
from components.hooks.hypernodes import HyperNodeMigration
from trainyard.checks.finding import Finding
from trainyard.cluster import ClusterAccess
from trainyard.errors import TrainyardError
from trainyard.settings import StackSettings
from trainyard.topology import Fabric, compile_fabric

__all__ = ["COMPONENT", "Topology", "differences"]


class Topology(Component):
    """The HyperNodes of a fabric.

    Parameters
    ----------
    live_nodes
        Names of the cluster's nodes; None if the cluster was not read.
    access
        The cluster, to migrate its live HyperNodes; None to skip the migration.
    depends_on
        Dependencies: Volcano's Deployments and webhook configurations.

    Raises
    ------
    TrainyardError
        The fabric names nodes that are missing in the cluster.
    """

    def __init__(
        self,
        name: str,
        settings: StackSettings,
        *,
        live_nodes: Collection[str] | None = None,
        access: ClusterAccess | None = None,
        depends_on: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("topology", name, opts)
        fabric = compile_fabric(settings.fabric)
        missing = differences(fabric, live_nodes) if live_nodes is not None else []
        if missing:
            error = TrainyardError(
                "The fabric of the settings names nodes that are missing in the cluster",
                findings=missing,
                fix="run `trainyard cluster up` (simulated nodes), or correct trainyard:fabric",
            )
            if not pulumi.runtime.is_dry_run():
                raise error
            pulumi.log.warn(str(error), resource=self)
        manifests, order = fabric.hyper_nodes, fabric.order
        hooks = HyperNodeMigration(access, manifests, pulumi.get_stack()).binding() if access is not None else None
        declared: dict[str, KubernetesObject] = {}
        for manifest in manifests:
            own = manifest["metadata"]["name"]
            members = [declared[member] for member in order[own]]
            declared[own] = self.child(manifest, depends_on=[*depends_on, *members], hooks=hooks)
        self.ready = list(declared.values())
        self.register_outputs({})


def differences(fabric: Fabric, live_nodes: Collection[str]) -> list[Finding]:
    """Return a finding for each node of the fabric that is missing in the cluster."""
    missing = [node for node in fabric.nodes if node.name not in live_nodes]
    return [Finding(f"trainyard:fabric.{node.path[0]}", f"the cluster has no node {node.name}") for node in missing]


COMPONENT: Final = Declaration(
    name="topology",
    order=70,
    cluster_kinds={("topology.volcano.sh/v1alpha1", "HyperNode"): "hypernodes"},
)
