"""The tenant queue tree: parents are created before their children and deleted after them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

import pulumi

from trainyard.local.cluster.provider import ClusterAccess
from trainyard.scheduling.queues.queue_bodies import QueueObjects
from trainyard.scheduling.queues.retirement import QueueRetirement

from .common.declaration import Declaration, Resources
from .common.installation import Installation
from .common.objects import Component, KubernetesObject, waiting_for
from .hooks.queue_drain import announced_writes
from .hooks.queues import QueueMigration, QueuePatchHook

__all__ = ["COMPONENT", "Queues", "QueuesArgs"]

_QUEUE: Final = ("scheduling.volcano.sh/v1beta1", "Queue")


@dataclass(frozen=True)
class QueuesArgs:
    """Arguments of the Queues component.

    Parameters
    ----------
    queues
        The validated queues.
    access
        The cluster.
    owned
        Names of the live queues of this stack; other queues are not changed before Pulumi does.
    retirement
        The retired queues.
    readable
        Whether the cluster is read, so that a preview reports the writes that precede those of Pulumi.
    """

    queues: QueueObjects
    access: ClusterAccess
    owned: Collection[str] = ()
    retirement: QueueRetirement = field(default_factory=QueueRetirement)
    readable: bool = False


class Queues(Component):
    """The queues below ``root``, without those that are retired and empty, and patches of ``root`` and ``default``.

    Volcano creates these two and rejects their deletion, so they are patched. Fields that are no longer in the settings
    are restored, and the queues remain. All inherit ``opts.depends_on``: Volcano's Deployments and webhook
    configurations.

    Attributes
    ----------
    ready
        Queues, each Open, because Volcano rejects PodGroups in queues of another state.
    """

    def __init__(self, name: str, args: QueuesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("queues", name, opts)
        queues, access, retirement = args.queues, args.access, args.retirement
        kept = [each for each in queues.own if each["metadata"]["name"] not in retirement.removed]
        migration = QueueMigration(access, kept, args.owned)
        hooks = migration.binding()
        if args.readable:
            migration.announce(self)
        if pulumi.runtime.is_dry_run():
            for write in announced_writes(retirement):
                pulumi.log.warn(write, self)
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
                depends_on=[parent] if parent else [],
                inherit_depends_on=True,
                hooks=hooks,
                retired=name in retirement.waiting,
            )
        self.ready = list(declared.values())
        for manifest in queues.patches:
            room = QueuePatchHook(access, manifest)
            if args.readable:
                room.announce(self)
            self.ready.append(self.patch(manifest, inherit_depends_on=True, hooks=room.binding()))
        self.register_outputs({})


def _install(context: Installation, needed: Resources) -> Queues:
    args = QueuesArgs(
        context.queues,
        context.target.access,
        context.owned(*_QUEUE),
        context.retired_queues,
        readable=context.live is not None,
    )
    return Queues("queues", args, context.options_after(*needed.ready))


COMPONENT: Final = Declaration(
    name="queues",
    order=60,
    install=_install,
    needs=("volcano",),
    cluster_kinds={_QUEUE: "queues"},
)
