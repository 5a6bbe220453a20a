"""The tenant queue tree: parents are created before their children and deleted after them."""

from __future__ import annotations

from collections.abc import Iterable

import pulumi

from components.hooks.queues import Convergence, PatchedQueue
from components.objects import Component, KubernetesObject, waiting_for
from trainyard.cluster import ClusterAccess
from trainyard.queues import QueueObjects

__all__ = ["Queues"]


class Queues(Component):
    """The queues below ``root``, and what is set on ``root`` and ``default``.

    Volcano creates these two and rejects their deletion. So they are patched: what the settings say about them is given
    back when they say it no more, and the queues stay.

    Parameters
    ----------
    queues
        The proved queues.
    convergence
        What makes the live tree fit to be changed.
    access
        The cluster.
    after
        Volcano's Deployments and webhook configurations.

    Attributes
    ----------
    ready
        Queues, each Open: until then Volcano refuses the PodGroups of jobs.
    """

    def __init__(
        self,
        name: str,
        queues: QueueObjects,
        convergence: Convergence,
        access: ClusterAccess,
        *,
        after: Iterable[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("queues", name, opts)
        edges, hooks = list(after), convergence.binding()
        made: dict[str, KubernetesObject] = {}
        for manifest in queues.own:
            parent = made.get(manifest["spec"]["parent"])
            queue = waiting_for(manifest, "{.status.state}=Open")
            made[manifest["metadata"]["name"]] = self.child(
                queue, after=[*edges, *([parent] if parent else [])], hooks=hooks
            )
        self.ready: list[pulumi.Resource] = list(made.values())
        for manifest in queues.patches:
            self.ready.append(self.patch(manifest, after=edges, hooks=PatchedQueue(access, manifest).binding()))
        self.register_outputs({})
