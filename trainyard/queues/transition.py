"""Ordered writes from the live queue tree to another one, each of which Volcano accepts.

The webhook judges every single change against the tree as it is at that moment. Going straight from one valid tree to
another can therefore be refused half-way: a parent cannot shrink before its children did, a queue cannot move below a
parent that has still to grow, and two queues that swap places would be above each other for a moment, of which the
scheduler dies. So a change is made in two halves:

1. here, before anything grows: queues whose parent changes go to ``root``, which is not compared with any queue; then
   every queue is lowered to the minimum of what it has and what it will have, children before parents;
2. by the program's graph: each queue gets its final parent and amounts, parents before children; queues that are not
   wanted any more are deleted last, children before parents.

Every tree in between is one that the webhook of Volcano 1.14.1 accepts, if the first and the last one are. A queue that
does not change is not touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainyard import quantity
from trainyard.queues.tree import ROOT

__all__ = ["Step", "transition"]

Spec = Mapping[str, Any]
"""The spec of a Volcano Queue."""

_AMOUNTS = ("deserved", "guarantee", "capability")


@dataclass(frozen=True)
class Step:
    """One change of one live queue.

    Parameters
    ----------
    queue
        Its name.
    spec
        Its whole spec after the change.
    """

    queue: str
    spec: Spec


def transition(live: Mapping[str, Spec], wanted: Mapping[str, Spec]) -> tuple[Step, ...]:
    """Return what to change in the live tree before the wanted one is applied from its root downward.

    Parameters
    ----------
    live
        Specs of the queues that exist, by name; ``root`` is ignored.
    wanted
        Specs of the queues that there will be. Live queues that are not among them will be deleted.

    Returns
    -------
    tuple of Step
        In the order to make them in; none where nothing shrinks or moves.
    """
    now = {name: dict(spec) for name, spec in live.items() if name != ROOT}
    moves = list(_moves(now, wanted))
    for move in moves:
        now[move.queue] = dict(move.spec)
    return (*moves, *_lowerings(now, wanted))


def _moves(live: Mapping[str, Spec], wanted: Mapping[str, Spec]) -> Iterator[Step]:
    for name in sorted(live):
        parent = live[name].get("parent") or ROOT
        if parent != ROOT and name in wanted and (wanted[name].get("parent") or ROOT) != parent:
            yield Step(name, {**live[name], "parent": ROOT})


def _lowerings(live: Mapping[str, Spec], wanted: Mapping[str, Spec]) -> Iterator[Step]:
    for name in _children_first(live):
        lowered = _lowered(live[name], wanted.get(name, {}))
        if lowered != live[name]:
            yield Step(name, lowered)


def _children_first(live: Mapping[str, Spec]) -> list[str]:
    return sorted(live, key=lambda name: (-_depth(name, live), name))


def _depth(name: str, live: Mapping[str, Spec]) -> int:
    depth = 0
    while depth <= len(live) and (name := live[name].get("parent") or ROOT) in live:
        depth += 1
    return depth


def _lowered(live: Spec, wanted: Spec) -> dict[str, Any]:
    result = dict(live)
    for kind in _AMOUNTS:
        present, target = _amounts(live, kind), _amounts(wanted, kind)
        least = {name: _less(present[name], target[name]) for name in present if name in target}
        if least == present:
            continue
        result.pop(kind)
        if least:
            result[kind] = {"resource": least} if kind == "guarantee" else least
    return result


def _amounts(spec: Spec, kind: str) -> Mapping[str, str]:
    found = spec.get(kind) or {}
    return (found.get("resource") or {}) if kind == "guarantee" else found


def _less(one: str, other: str) -> str:
    return one if quantity.parse(one) <= quantity.parse(other) else other
