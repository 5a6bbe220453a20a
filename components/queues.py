"""The tenant queue tree: parents are created before their children and deleted after them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pulumi

from trainyard.cluster import ClusterAccess
from trainyard.queues import QueueObjects
from trainyard.queues.retirement import QueueRetirement

from .common.declaration import Declaration, Resources
from .common.installation import Installation
from .common.objects import Component, KubernetesObject, waiting_for
from .hooks.queues import QueueMigration, QueuePatchHook

__all__ = ["COMPONENT", "Queues"]

_QUEUE: Final = ("scheduling.volcano.sh/v1beta1", "Queue")


class Queues(Component):
    """The queues below ``root``, without those that are retired and empty, and patches of ``root`` and ``default``.

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
    retirement
        The retired queues.
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
        retirement: QueueRetirement | None = None,
        depends_on: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("queues", name, opts)
        hooks, live = migration.binding(), bool(migration.owned)
        if live:
            migration.announce(self)
        retirement = retirement or QueueRetirement()
        declared: dict[str, KubernetesObject] = {}
        for manifest in queues.own:
            name = manifest["metadata"]["name"]
            if name in retirement.removed:
                self.retire(manifest)
                continue
            if name in retirement.waiting:
                pulumi.log.warn(f"Queue {name!r} is retired and not deleted yet: {retirement.waiting[name]}", self)
            parent = declared.get(manifest["spec"]["parent"])
            queue = waiting_for(manifest, "{.status.state}=Open")
            declared[name] = self.child(
                queue,
                depends_on=[*depends_on, *([parent] if parent else [])],
                hooks=hooks,
                retired=name in retirement.waiting,
            )
        self.ready: list[pulumi.Resource] = list(declared.values())
        for manifest in queues.patches:
            room = QueuePatchHook(access, manifest)
            if live:
                room.announce(self)
            self.ready.append(self.patch(manifest, depends_on=depends_on, hooks=room.binding()))
        self.register_outputs({})


def _install(context: Installation, needed: Resources) -> Queues:
    queues, access, retirement = context.queues, context.target.access, context.retired_queues
    kept = [each for each in queues.own if each["metadata"]["name"] not in retirement.removed]
    migration = QueueMigration(access, kept, context.owned(*_QUEUE))
    return Queues(
        "queues", queues, migration, access, retirement=retirement, depends_on=needed.ready, opts=context.options
    )


COMPONENT: Final = Declaration(
    name="queues",
    order=60,
    install=_install,
    needs=("volcano",),
    cluster_kinds={_QUEUE: "queues"},
)
