"""The tenant queue tree: parents are created before their children and deleted after them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pulumi

from components.common.declaration import Declaration, Resources
from components.common.installation import Installation
from components.common.objects import Component, KubernetesObject, waiting_for
from components.hooks.queues import QueueMigration, QueuePatchHook
from trainyard.cluster import ClusterAccess
from trainyard.queues import QueueObjects

__all__ = ["COMPONENT", "Queues"]

_QUEUE: Final = ("scheduling.volcano.sh/v1beta1", "Queue")


class Queues(Component):
    """The queues below ``root``, and patches of ``root`` and ``default``.

    Volcano creates these two and rejects their deletion, so they are patched. Fields that are no longer in the settings
    are restored, and the queues remain.

    Parameters
    ----------
    queues
        The validated queues.
    migration
        Hook that migrates the live queue tree.
    access
        The cluster.
    depends_on
        Dependencies: Volcano's Deployments and webhook configurations.

    Attributes
    ----------
    ready
        Queues, each Open, because Volcano rejects PodGroups in queues of another state.
    """

    def __init__(
        self,
        name: str,
        queues: QueueObjects,
        migration: QueueMigration,
        access: ClusterAccess,
        *,
        depends_on: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("queues", name, opts)
        hooks = migration.binding()
        declared: dict[str, KubernetesObject] = {}
        for manifest in queues.own:
            parent = declared.get(manifest["spec"]["parent"])
            queue = waiting_for(manifest, "{.status.state}=Open")
            declared[manifest["metadata"]["name"]] = self.child(
                queue, depends_on=[*depends_on, *([parent] if parent else [])], hooks=hooks
            )
        self.ready: list[pulumi.Resource] = list(declared.values())
        for manifest in queues.patches:
            self.ready.append(
                self.patch(manifest, depends_on=depends_on, hooks=QueuePatchHook(access, manifest).binding())
            )
        self.register_outputs({})


def _install(context: Installation, needed: Resources) -> Queues:
    queues, access = context.queues, context.target.access
    migration = QueueMigration(access, queues.own, context.owned(*_QUEUE))
    return Queues("queues", queues, migration, access, depends_on=needed.ready, opts=context.options)


COMPONENT: Final = Declaration(
    name="queues",
    order=60,
    install=_install,
    needs=("volcano",),
    cluster_kinds={_QUEUE: "queues"},
)
