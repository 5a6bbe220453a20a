"""The network fabric as HyperNodes: created from the racks upward, deleted from the top down.

The order is required: if a HyperNode is deleted while its parent still lists it, the scheduler of Volcano 1.14.1 stops
at the next gang with a network topology request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pulumi

from components.common.declaration import Declaration, Resources
from components.common.installation import Installation
from components.common.objects import Component, KubernetesObject
from components.hooks.hypernodes import HyperNodeMigration
from trainyard.cluster import ClusterAccess
from trainyard.settings import StackSettings
from trainyard.topology import Fabric, compile_fabric
from trainyard.topology.selected_nodes import SELECTED_NODES, Labels, digest, selected_nodes

__all__ = ["COMPONENT", "Topology"]


class Topology(Component):
    """The HyperNodes of a fabric.

    Parameters
    ----------
    access
        The cluster, to migrate its live HyperNodes; None to skip the migration.
    depends_on
        Dependencies: Volcano's Deployments and webhook configurations.
    node_labels
        Labels of the cluster's nodes, by name; None if the cluster was not read.
    """

    def __init__(
        self,
        name: str,
        settings: StackSettings,
        *,
        access: ClusterAccess | None = None,
        node_labels: Labels | None = None,
        depends_on: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("topology", name, opts)
        fabric = compile_fabric(settings.fabric)
        manifests, order = _manifests(fabric, node_labels), fabric.order
        hooks = HyperNodeMigration(access, manifests, pulumi.get_stack()).binding() if access is not None else None
        declared: dict[str, KubernetesObject] = {}
        for manifest in manifests:
            own = manifest["metadata"]["name"]
            members = [declared[member] for member in order[own]]
            declared[own] = self.child(manifest, depends_on=[*depends_on, *members], hooks=hooks)
        self.ready = list(declared.values())
        self.register_outputs({})


def _manifests(fabric: Fabric, node_labels: Labels | None) -> list[Mapping[str, Any]]:
    """Return the HyperNodes, with a digest of the nodes that are chosen by label: a change of these is a write."""
    selected = selected_nodes(fabric, node_labels) if node_labels is not None else {}
    return [
        {**body, "metadata": {**body["metadata"], "annotations": {SELECTED_NODES: digest(selected[name])}}}
        if (name := body["metadata"]["name"]) in selected
        else body
        for body in fabric.hyper_nodes
    ]


def _install(context: Installation, needed: Resources) -> Topology:
    return Topology(
        "topology",
        context.settings,
        access=context.target.access,
        node_labels=context.live.labels("v1", "Node") if context.live is not None else None,
        depends_on=needed.ready,
        opts=context.options,
    )


COMPONENT: Final = Declaration(
    name="topology",
    order=70,
    install=_install,
    needs=("volcano",),
    cluster_kinds={("topology.volcano.sh/v1alpha1", "HyperNode"): "hypernodes"},
)
