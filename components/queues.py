"""The tenant queue tree: each queue after its parent, so that it is made top-down and removed leaf first."""

from __future__ import annotations

from collections.abc import Iterable

import pulumi

from components.convergence import Convergence
from components.objects import Component, KubernetesObject, waiting_for
from trainyard.queues import queue_objects
from trainyard.settings import StackSettings

__all__ = ["Queues"]


class Queues(Component):
    """The queues below ``root``.

    Volcano makes ``root`` and ``default`` and the settings say nothing about them, so nothing of them is declared.

    Parameters
    ----------
    convergence
        What makes the live tree fit to be changed.
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
        settings: StackSettings,
        convergence: Convergence,
        *,
        after: Iterable[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("queues", name, opts)
        edges, hooks = list(after), convergence.binding()
        made: dict[str, KubernetesObject] = {}
        for manifest in queue_objects(settings):
            parent = made.get(manifest["spec"]["parent"])
            queue = waiting_for(manifest, "{.status.state}=Open")
            made[manifest["metadata"]["name"]] = self.child(
                queue, after=[*edges, *([parent] if parent else [])], hooks=hooks
            )
        self.ready = list(made.values())
        self.register_outputs({})
