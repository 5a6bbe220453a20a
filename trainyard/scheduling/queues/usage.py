"""Current usage of each queue's share, drawn as a tree with bars."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainyard.checks.printable_text import printable
from trainyard.scheduling.queues.amounts import Amounts, text, total
from trainyard.scheduling.queues.effective_limits import limits
from trainyard.scheduling.queues.queue import DEFAULT, ROOT, Queue
from trainyard.scheduling.queues.queued_gangs import QueuedJob
from trainyard.scheduling.queues.snapshot import Snapshot

_WIDTH = 32
_STATUS, _COUNTED, _ESTIMATED = "Queue.status.allocated", "pods", "minResources"
_LEGEND = "█ used of its share  ▓ borrowed  ▒ guaranteed, free  ░ deserved, free  · may be borrowed"


@dataclass(frozen=True)
class QueueUsage:
    """Usage of one queue, including its child queues.

    Parameters
    ----------
    queue
        Its name.
    parent
        Its parent, empty for root.
    depth
        Number of queues above it.
    state
        Open, Closing, Closed, or empty.
    guarantee, deserved, limit, used
        Units by resource.
    bound
        Units that each queue without its own capability inherits; of root only.
    running, waiting
        Gangs in it and in the queues below.
    waiting_for
        Units requested by the waiting gangs.
    reclaimable
        Units above its share that others may reclaim; of leaves only.
    lends
        Whether others may reclaim from it.
    source
        Source of ``used``: ``Queue.status.allocated``, ``pods``, or ``minResources``, which is an estimate.
    """

    queue: str
    parent: str
    depth: int
    state: str
    guarantee: Amounts
    deserved: Amounts
    limit: Amounts
    used: Amounts
    running: int
    waiting: int
    waiting_for: Amounts
    bound: Amounts = field(default_factory=dict)
    reclaimable: Amounts = field(default_factory=dict)
    lends: bool = True
    source: str = _COUNTED

    @property
    def remark(self) -> str:
        """What `used` is if it is not counted from pods, in parentheses after the amount."""
        return {_STATUS: " (last count of the scheduler)", _ESTIMATED: " (estimate)"}.get(self.source, "")

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values; amounts as Kubernetes quantities."""
        kinds = ("guarantee", "deserved", "limit", "used", "waiting_for")
        amounts = {kind: {name: text(name, amount) for name, amount in getattr(self, kind).items()} for kind in kinds}
        amounts["waitingFor"] = amounts.pop("waiting_for")
        own: dict[str, Any] = {"queue": self.queue, "parent": self.parent or None, "state": self.state or None}
        if self.bound:
            own["bound"] = {name: text(name, amount) for name, amount in self.bound.items()}
        counts = {"running": self.running, "waiting": self.waiting}
        reclaimable = {name: text(name, amount) for name, amount in self.reclaimable.items()}
        return {**own, **amounts, **counts, "reclaimable": reclaimable, "usedFrom": self.source}


def queue_usage(
    snapshot: Snapshot,
    jobs: Sequence[QueuedJob],
    states: Mapping[str, str],
    allocated: Mapping[str, Amounts] | None = None,
) -> list[QueueUsage]:
    """Return the usage of each queue, parents before children.

    Parameters
    ----------
    snapshot
        The queues and the capacity of all nodes.
    jobs
        Running and waiting gangs.
    states
        State by queue.
    allocated
        Used units by queue as the scheduler counted them last; a queue that is missing has those of its gangs.
    """
    known = allocated or {}
    tree = snapshot.tree if DEFAULT in snapshot.tree.queues else snapshot.tree.with_queue(DEFAULT, Queue())
    real = limits(tree, snapshot.capacity)
    inside: defaultdict[str, list[QueuedJob]] = defaultdict(list)
    for job in jobs:
        above = tree.ancestors(job.queue) if job.queue in tree.queues else ()
        for name in (ROOT, *above, *([job.queue] if job.queue != ROOT else [])):
            inside[name].append(job)

    def of(name: str, depth: int) -> Iterator[QueueUsage]:
        queue = tree.queues.get(name, tree.root)
        running = [job for job in inside[name] if job.running]
        waiting = [job for job in inside[name] if not job.running]
        used, source = _used(inside[name]) if name not in known else (known[name], _STATUS)
        lends = queue.reclaimable or name == ROOT
        yield QueueUsage(
            queue=name,
            parent="" if name == ROOT else queue.parent,
            depth=depth,
            state=states.get(name, ""),
            guarantee=queue.amounts("guarantee") if name != ROOT else {},
            deserved=queue.amounts("deserved") if name != ROOT else dict(snapshot.capacity or {}),
            limit=real.get(name, {}),
            used=used,
            running=len(running),
            waiting=len(waiting),
            waiting_for=total(pod.request for job in waiting for pod in job.members if not pod.placed),
            bound=tree.root.amounts("capability") if name == ROOT else {},
            reclaimable=_above_share(used, queue, inside[name])
            if lends and name != ROOT and not tree.children(name)
            else {},
            lends=lends,
            source=source,
        )
        for child in tree.children(name):
            yield from of(child, depth + 1)

    return list(of(ROOT, 0))


def _used(jobs: Sequence[QueuedJob]) -> tuple[Amounts, str]:
    """Return what gangs use, and the source of the amounts."""
    used = total(pod.request for job in jobs for pod in job.members if pod.placed)
    return used, _COUNTED if all(job.counted for job in jobs if job.running) else _ESTIMATED


def _above_share(used: Amounts, queue: Queue, jobs: Sequence[QueuedJob]) -> Amounts:
    """Return what evictable pods use above a queue's share, of the resources that it names; of all, if it has none."""
    evictable = total(pod.request for job in jobs for pod in job.members if pod.placed and pod.evictable)
    above = over_share(used, queue.amounts("deserved"), queue.amounts("guarantee"))
    bounded = {name: min(amount, evictable.get(name, 0)) for name, amount in above.items()}
    return {name: amount for name, amount in bounded.items() if amount > 0}


def over_share(used: Amounts, deserved: Amounts, guarantee: Amounts) -> Amounts:
    """Return what is used above a share, of the resources that it names; of all, if it names none."""
    named = {name for name, amount in deserved.items() if amount} or set(used)
    return {name: used.get(name, 0) - max(deserved.get(name, 0), guarantee.get(name, 0)) for name in sorted(named)}


def drawn_resources(found: Sequence[QueueUsage]) -> list[str]:
    """Return the resources to draw: devices, or cpu if there are none."""
    named = {name for each in found for amounts in (each.deserved, each.limit, each.used) for name in amounts}
    return sorted(name for name in named if "/" in name) or ["cpu"]


def draw_usage(found: Sequence[QueueUsage], resource: str) -> str:
    """Return the tree with a bar for each queue; the full width is the limit of root.

    Parameters
    ----------
    found
        All queues, parents before children.
    resource
        The resource to draw.
    """
    whole = max((each.limit.get(resource, 0) for each in found), default=0) or 1
    width = max(len(_name(each)) for each in found)
    lines = [f"{resource}: {_LEGEND}"]
    for each in found:
        lines.append(f"{_name(each):{width}}  {_bar(each, resource, whole)}  {_words(each, resource)}".rstrip())
    return "\n".join(map(printable, lines))


def _name(each: QueueUsage) -> str:
    return "  " * each.depth + each.queue


def _bar(each: QueueUsage, resource: str, whole: int) -> str:
    deserved, used = each.deserved.get(resource, 0), each.used.get(resource, 0)
    edges = (
        ("█", min(used, deserved)),
        ("▒", max(min(each.guarantee.get(resource, 0), deserved), min(used, deserved))),
        ("░", max(deserved, min(used, deserved))),
        ("▓", max(deserved, used) if used > deserved else deserved),
        ("·", max(each.limit.get(resource, 0), deserved, used)),
    )
    bar = ""
    for letter, edge in edges:
        bar += letter * (min(_WIDTH, round(edge / whole * _WIDTH)) - len(bar))
    return f"{bar:{_WIDTH}}"


def _words(each: QueueUsage, resource: str) -> str:
    def amount(kind: Amounts) -> str:
        return text(resource, kind.get(resource, 0))

    parts = [f"{amount(each.used)} used{each.remark}"]
    if each.depth:
        parts += [f"{amount(each.deserved)} deserved"] if resource in each.deserved else []
        parts += [f"{amount(each.guarantee)} guaranteed"] if each.guarantee.get(resource) else []
        parts += [f"{amount(each.reclaimable)} reclaimable"] if each.reclaimable.get(resource) else []
        parts += [] if each.lends else ["not reclaimable"]
    parts.append(f"at most {amount(each.limit)}" if resource in each.limit else "no limit")
    if resource in each.bound:
        parts.append(f"each queue at most {amount(each.bound)}")
    if each.waiting:
        parts.append(f"{each.waiting} waiting for {amount(each.waiting_for)}")
    if each.state not in ("", "Open"):
        parts.append(each.state.lower())
    return ", ".join(parts)
