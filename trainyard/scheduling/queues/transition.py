"""Ordered writes from the live queue tree to the desired one, each of which Volcano accepts.

The webhook validates every single write against the current tree. A direct path from one valid tree to another can
therefore be rejected halfway: a parent cannot shrink before its children, a queue cannot move below a parent that has
yet to grow, and two queues that swap places would form a cycle, which crashes the scheduler. A change therefore has two
phases:

1. here, before anything grows: queues whose parent changes move to ``root``, which is not compared with any queue; then
   every queue is lowered to the minimum of its live and desired amounts, children before parents;
2. in the program's dependency graph: each queue gets its final parent and amounts, parents before children; queues that
   are no longer desired are deleted last, children before parents.

The webhook of Volcano 1.14.1 accepts every tree in between if it accepts the first and the last one. Unchanged queues
are not written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainyard import quantity
from trainyard.scheduling.queues.queue import ROOT

Spec = Mapping[str, Any]
"""The spec of a Volcano Queue."""

_AMOUNTS = ("deserved", "guarantee", "capability")


@dataclass(frozen=True)
class QueueWrite:
    """One write of one live queue.

    Parameters
    ----------
    queue
        Its name.
    spec
        Its complete spec after the write.
    """

    queue: str
    spec: Spec


def transition(live: Mapping[str, Spec], desired: Mapping[str, Spec]) -> tuple[QueueWrite, ...]:
    """Return the writes of the live tree that precede the desired one, which is then applied from its root downward.

    Parameters
    ----------
    live
        Specs of the live queues, by name; ``root`` is ignored.
    desired
        Specs of the desired queues. Other live queues are deleted later.

    Returns
    -------
    tuple of Step
        In order of application; empty if nothing shrinks or moves.
    """
    now = {name: dict(spec) for name, spec in live.items() if name != ROOT}
    moves = list(_moves(now, desired))
    for move in moves:
        now[move.queue] = dict(move.spec)
    return (*moves, *_lowerings(now, desired))


def _moves(live: Mapping[str, Spec], desired: Mapping[str, Spec]) -> Iterator[QueueWrite]:
    for name in sorted(live):
        parent = live[name].get("parent") or ROOT
        if parent != ROOT and name in desired and (desired[name].get("parent") or ROOT) != parent:
            yield QueueWrite(name, {**live[name], "parent": ROOT})


def _lowerings(live: Mapping[str, Spec], desired: Mapping[str, Spec]) -> Iterator[QueueWrite]:
    for name in _children_first(live):
        lowered = _lowered(live[name], desired.get(name, {}))
        if lowered != live[name]:
            yield QueueWrite(name, lowered)


def _children_first(live: Mapping[str, Spec]) -> list[str]:
    return sorted(live, key=lambda name: (-_depth(name, live), name))


def _depth(name: str, live: Mapping[str, Spec]) -> int:
    depth = 0
    while depth <= len(live) and (name := live[name].get("parent") or ROOT) in live:
        depth += 1
    return depth


def _lowered(live: Spec, desired: Spec) -> dict[str, Any]:
    result = dict(live)
    for kind in _AMOUNTS:
        present, target = _amounts(live, kind), _amounts(desired, kind)
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
