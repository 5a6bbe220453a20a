"""The shape of a queue tree: who is above whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property

from trainyard.settings.tenancy import QueueSettings

__all__ = ["DEFAULT", "ROOT", "QueueTree"]

ROOT = "root"
"""The queue above all others, made by Volcano."""

DEFAULT = "default"
"""The queue of jobs that name none, made by Volcano."""


class QueueTree:
    """The declared queues with their edges; it may be faulty.

    Parameters
    ----------
    queues
        Queues by name, ``root`` and ``default`` excluded.
    """

    def __init__(self, queues: Mapping[str, QueueSettings]) -> None:
        self.queues = dict(queues)
        children: defaultdict[str, list[str]] = defaultdict(list)
        for name in sorted(self.queues):
            children[self.queues[name].parent].append(name)
        self._children = dict(children)

    def children(self, name: str) -> list[str]:
        """Return the declared queues directly below one, sorted."""
        return self._children.get(name, [])

    @cached_property
    def reachable(self) -> tuple[str, ...]:
        """Queues connected with root, parents before children, siblings by name."""
        found, level = [], self.children(ROOT)
        while level:
            found.extend(level)
            level = [child for name in level for child in self.children(name)]
        return tuple(found)

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """Declared queues with nothing below them, sorted."""
        return tuple(name for name in sorted(self.queues) if not self.children(name))

    def cycles(self) -> Iterator[tuple[str, ...]]:
        """Yield each cycle once, starting at its first queue by name."""
        done: set[str] = set()
        for start in sorted(self.queues):
            path: list[str] = []
            name = start
            while name in self.queues and name not in done and name not in path:
                path.append(name)
                name = self.queues[name].parent
            if name in path:
                cycle = path[path.index(name) :]
                first = cycle.index(min(cycle))
                yield (*cycle[first:], *cycle[:first])
            done.update(path)
