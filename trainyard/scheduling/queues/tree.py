"""Structure of a queue tree: parents and children."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property

from trainyard.scheduling.queues.queue import ROOT, Queue


class QueueTree:
    """The declared queues with their edges; possibly invalid.

    Parameters
    ----------
    queues
        Queues by name; ``default`` only if it is declared, never ``root``.
    root
        ``root``, if it is declared.
    """

    def __init__(self, queues: Mapping[str, Queue], root: Queue | None = None) -> None:
        self.queues = dict(queues)
        self.root = root or Queue()
        children: defaultdict[str, list[str]] = defaultdict(list)
        for name in sorted(self.queues):
            children[self.queues[name].parent].append(name)
        self._children = dict(children)

    def children(self, name: str) -> list[str]:
        """Return the declared child queues of a queue, sorted."""
        return self._children.get(name, [])

    def with_queue(self, name: str, queue: Queue | None) -> QueueTree:
        """Return the tree with one queue set; None removes it."""
        others = {other: self.queues[other] for other in self.queues if other != name}
        return QueueTree(others if queue is None else {**others, name: queue}, self.root)

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
        """Declared queues without child queues, sorted."""
        return tuple(name for name in sorted(self.queues) if not self.children(name))

    def ancestors(self, name: str) -> Iterator[str]:
        """Yield the declared queues above one, the nearest first; each once, even in a cycle."""
        seen = {name}
        above = self.queues[name].parent
        while above in self.queues and above not in seen:
            yield above
            seen.add(above)
            above = self.queues[above].parent

    def cycles(self) -> Iterator[tuple[str, ...]]:
        """Yield each cycle once, starting at its first queue by name."""
        done: set[str] = set()
        for start in sorted(self.queues):
            path: dict[str, None] = {}
            name = start
            while name in self.queues and name not in done and name not in path:
                path[name] = None
                name = self.queues[name].parent
            if name in path:
                steps = list(path)
                cycle = steps[steps.index(name) :]
                first = cycle.index(min(cycle))
                yield (*cycle[first:], *cycle[:first])
            done.update(path)
