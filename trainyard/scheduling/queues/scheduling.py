"""Scheduling context of a queue tree: the version of Volcano, its plug-ins and its actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

VOLCANO_VERSIONS = ("1.14.1", "1.15.1")
"""Supported versions; rules of the first were compared with the real webhook, those of the second with the source."""


class SharePlugin(StrEnum):
    """Plug-ins that divide the cluster between queues; several may be on."""

    TREE = "hierarchy"
    CAPACITY = "capacity"
    PROPORTION = "proportion"


@dataclass(frozen=True)
class Scheduling:
    """The scheduler that a tree is checked for.

    Parameters
    ----------
    version
        Version of Volcano, one of `VOLCANO_VERSIONS`.
    plugins
        The plug-ins that are on: capacity with its tree (``hierarchy``), capacity without, proportion, or several.
    enqueue
        Whether action enqueue is on.
    reclaim
        Whether action reclaim is on.
    preempt
        Whether action preempt is on.
    node_groups
        Whether plug-in nodegroup is on.
    topology
        Whether plug-in network-topology-aware is on.
    """

    version: str = VOLCANO_VERSIONS[0]
    plugins: frozenset[SharePlugin] = field(default=frozenset({SharePlugin.TREE}))
    enqueue: bool = False
    reclaim: bool = True
    node_groups: bool = False
    topology: bool = False
    preempt: bool = False

    @property
    def tree(self) -> bool:
        """Whether the scheduler reads the edges of the tree."""
        return SharePlugin.TREE in self.plugins

    @classmethod
    def of(
        cls,
        actions: Iterable[str],
        plugins: Iterable[tuple[str, Mapping[str, Any]]],
        version: str = VOLCANO_VERSIONS[0],
    ) -> Scheduling:
        """Return the scheduling context of a scheduler configuration.

        Parameters
        ----------
        actions
            Names of the actions.
        plugins
            Names of the plug-ins with their switches, in order; of two with the same name the first counts.
        version
            Version of Volcano.
        """
        first: dict[str, Mapping[str, Any]] = {}
        for name, switches in plugins:
            first.setdefault(name, switches)
        on = {SharePlugin.PROPORTION} if "proportion" in first else set()
        if "capacity" in first:
            on.add(SharePlugin.TREE if first["capacity"].get("enableHierarchy") is True else SharePlugin.CAPACITY)
        named = set(actions)
        return cls(
            version,
            frozenset(on),
            enqueue="enqueue" in named,
            reclaim="reclaim" in named,
            node_groups="nodegroup" in first,
            topology="network-topology-aware" in first,
            preempt="preempt" in named,
        )
