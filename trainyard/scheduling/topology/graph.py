"""Graph of HyperNodes: members, and checks of the edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from trainyard.checks.finding import Finding
from trainyard.scheduling.topology.hypernode_manifests import HyperNode, Member
from trainyard.scheduling.topology.rules import RULES


class Graph:
    """The HyperNodes with their edges; possibly invalid.

    Parameters
    ----------
    hyper_nodes
        The HyperNodes; of several with the same name the last one counts, as when they are applied.
    """

    def __init__(self, hyper_nodes: Sequence[HyperNode]) -> None:
        self.by_name = {each.name: each for each in hyper_nodes}
        self.parents: dict[str, list[tuple[HyperNode, Member]]] = {}
        """Parents of each listed HyperNode, each parent once."""
        self._below: dict[str, list[str]] = {}
        for each in self.by_name.values():
            listed: dict[str, Member] = {}
            for member in each.members:
                if member.type == "HyperNode" and member.selector == "exact":
                    listed.setdefault(member.value, member)
            self._below[each.name] = [name for name in listed if name in self.by_name]
            for name, member in listed.items():
                self.parents.setdefault(name, []).append((each, member))

    @property
    def is_forest(self) -> bool:
        """Whether every HyperNode has at most one parent and there is no cycle."""
        return all(len(parents) == 1 for parents in self.parents.values()) and not self.cycles

    def above(self, name: str) -> list[HyperNode]:
        """Return a HyperNode of a forest and its ancestors, upward."""
        chain = [self.by_name[name]]
        while parents := self.parents.get(chain[-1].name):
            chain.append(parents[0][0])
        return chain

    def findings(self) -> Iterator[Finding]:
        """Yield the findings of the edges."""
        for name, parents in self.parents.items():
            for parent, member in parents:
                if parent.name == name:
                    message = f"HyperNode {name!r} lists itself"
                    yield _finding(parent, member, message, "remove it from its own members", "hypernode-self")
                elif name not in self.by_name:
                    message = f"HyperNode {parent.name!r} lists HyperNode {name!r}, which is not declared"
                    fix = "declare it, or remove it from the members"
                    yield _finding(parent, member, message, fix, "hypernode-member-missing")
                elif self.by_name[name].tier >= parent.tier:
                    message = (
                        f"HyperNode {parent.name!r} of tier {parent.tier} lists {name!r} of tier "
                        f"{self.by_name[name].tier}"
                    )
                    fix = f"give {parent.name!r} a higher tier than its members"
                    yield _finding(parent, member, message, fix, "hypernode-tier-order")
            others = [parent for parent in parents if parent[0].name != name]
            for parent, member in others[1:]:
                message = f"HyperNode {name!r} is listed by {others[0][0].name!r} and by {parent.name!r}"
                yield _finding(parent, member, message, "remove it from one of them", "hypernode-two-parents")
        for cycle in self.cycles:
            if len(cycle) > 1:
                first = self.by_name[cycle[0]]
                shown = [*cycle[:10], *(["…"] if len(cycle) > 10 else []), cycle[0]]
                message = f"HyperNodes form a cycle: {' → '.join(shown)}"
                fix = "remove one of these members"
                yield RULES.finding(first.path(), message, fix, "hypernode-cycle", object=first.name, file=first.file)

    @cached_property
    def cycles(self) -> list[tuple[str, ...]]:
        """One cycle per strongly connected component, from its first name downward."""
        return [self._cycle(knot) for knot in self._knots()]

    def _knots(self) -> Iterator[set[str]]:
        """Yield the strongly connected components that have a cycle (Tarjan's algorithm, without recursion)."""
        index: dict[str, int] = {}
        low: dict[str, int] = {}
        stack: list[str] = []
        on_stack: set[str] = set()
        for root in self.by_name:
            if root in index:
                continue
            work: list[tuple[str, Iterator[str]]] = [(root, iter(self._below[root]))]
            index[root] = low[root] = len(index)
            stack.append(root)
            on_stack.add(root)
            while work:
                name, below = work[-1]
                for child in below:
                    if child not in index:
                        index[child] = low[child] = len(index)
                        stack.append(child)
                        on_stack.add(child)
                        work.append((child, iter(self._below[child])))
                        break
                    if child in on_stack:
                        low[name] = min(low[name], index[child])
                else:
                    work.pop()
                    if work:
                        low[work[-1][0]] = min(low[work[-1][0]], low[name])
                    if low[name] == index[name]:
                        knot: set[str] = set()
                        while name not in knot:
                            knot.add(stack.pop())
                        on_stack -= knot
                        if len(knot) > 1 or name in self._below[name]:
                            yield knot

    def _cycle(self, knot: set[str]) -> tuple[str, ...]:
        start = min(knot)
        came: dict[str, str] = {}
        level = [start]
        while level:
            following: list[str] = []
            for name in level:
                for child in self._below[name]:
                    if child == start:
                        path = [name]
                        while path[-1] != start:
                            path.append(came[path[-1]])
                        return tuple(reversed(path))
                    if child in knot and child not in came:
                        came[child] = name
                        following.append(child)
            level = following
        return (start,)


def _finding(parent: HyperNode, member: Member, message: str, fix: str, rule: str) -> Finding:
    return RULES.finding(parent.path(member), message, fix, rule, object=parent.name, file=parent.file)
