"""The network fabric as HyperNodes: created from the racks upward, deleted from the top down.

The order is required: if a HyperNode is deleted while its parent still lists it, the scheduler of Volcano 1.14.1 stops
at the next gang with a network topology request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pulumi

from trainyard.local.cluster.provider import ClusterAccess
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.settings.stack import StackSettings

from .common.declaration import Declaration, Resources
from .common.installation import Installation
from .common.objects import Component, KubernetesObject
from .hooks.hypernodes import HyperNodeMigration

__all__ = ["COMPONENT", "Topology", "TopologyArgs"]

_HYPER_NODE: Final = ("topology.volcano.sh/v1alpha1", "HyperNode")


@dataclass(frozen=True)
class TopologyArgs:
    """Arguments of the Topology component.

    Parameters
    ----------
    settings
        Settings of the stack, with its fabric.
    access
        The cluster, to migrate its live HyperNodes; None to skip the migration.
    migrates
        Whether the cluster is read, so that a preview reports the migration of its HyperNodes.
    owner
        Value of the stack's label; None: the name of the stack.
    """

    settings: StackSettings
    access: ClusterAccess | None = None
    migrates: bool = False
    owner: str | None = None


class Topology(Component):
    """The HyperNodes of a fabric.

    All inherit ``opts.depends_on``: Volcano's Deployments and webhook configurations.
    """

    def __init__(self, name: str, args: TopologyArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("topology", name, opts)
        access, fabric = args.access, compile_fabric(args.settings.fabric)
        manifests, order = fabric.hyper_nodes, fabric.order
        owner = args.owner or pulumi.get_stack()
        migration = HyperNodeMigration(access, manifests, owner) if access is not None else None
        if migration is not None and args.migrates:
            migration.announce(self)
        hooks = migration.binding() if migration is not None else None
        declared: dict[str, KubernetesObject] = {}
        for manifest in manifests:
            own = manifest["metadata"]["name"]
            members = [declared[member] for member in order[own]]
            declared[own] = self.child(manifest, depends_on=members, inherit_depends_on=True, hooks=hooks)
        self.ready = list(declared.values())
        self.register_outputs({})


def _install(context: Installation, needed: Resources) -> Topology:
    migrates = context.live is not None
    args = TopologyArgs(context.settings, context.target.access, migrates=migrates, owner=context.name)
    return Topology("topology", args, context.options_after(*needed.ready))


COMPONENT: Final = Declaration(
    name="topology",
    order=70,
    install=_install,
    needs=("volcano",),
    cluster_kinds={_HYPER_NODE: "hypernodes"},
)
