"""Model of action allocate: gangs that start on free resources, in the scheduler's order.

Upstream source: action ``allocate`` and plug-ins ``capacity``, ``priority`` and ``gang`` of Volcano 1.14.1. The queue
with the smallest used part of its share is served next; where two queues part in the tree, the shares of their
ancestors at that level decide, as they were at the start of the session. A gang starts with ``minMember`` pods; further
pods follow one by one.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trainyard.scheduling.queues.amounts import Amounts, text, total
from trainyard.scheduling.queues.effective_limits import flattened, limits
from trainyard.scheduling.queues.queue import ROOT
from trainyard.scheduling.queues.queued_gangs import GangPod, QueuedJob
from trainyard.scheduling.queues.scheduling import Scheduling
from trainyard.scheduling.queues.tree import QueueTree
from trainyard.settings.tenancy import QueueState

Order = tuple[int, tuple[tuple[float, bool, str], ...]]
"""Priority of a queue, and for each level the used part of the share, whether there is no share, and the name."""

_FRAGMENTED = "totals are compared, not nodes"
_TIED = "queues with equal shares are served in any order"


@dataclass
class GangAllocation:
    """State of one job in the model.

    Parameters
    ----------
    job
        The job.
    placed, waiting
        Its pods.
    evicted
        Pods that are evicted and not yet replaced.
    lost
        Number of pods that it lost.
    restarted
        Whether it restarted as a whole.
    reclaimers
        Jobs that took its pods.
    """

    job: QueuedJob
    placed: list[GangPod]
    waiting: list[GangPod]
    evicted: list[GangPod] = field(default_factory=list)
    lost: int = 0
    restarted: bool = False
    reclaimers: dict[str, None] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        """Whether it runs."""
        return len(self.placed) >= self.job.needed

    @property
    def order(self) -> tuple[int, bool, str, str]:
        """Position in its queue."""
        return -self.job.priority, self.ready, self.job.created, self.job.name


class Allocation:
    """State of the queues while gangs start.

    Parameters
    ----------
    tree
        The queues; ``default`` is one of them.
    jobs
        Running and waiting jobs.
    capacity
        Capacity of all nodes, in units; None if unknown.
    node
        Capacity of each node, in units; None if unknown or different.
    scheduling
        The scheduler.
    """

    def __init__(
        self,
        tree: QueueTree,
        jobs: Iterable[QueuedJob],
        capacity: Mapping[str, int] | None,
        node: Mapping[str, int] | None,
        scheduling: Scheduling,
    ) -> None:
        self.tree, self.capacity, self.scheduling = tree, capacity, scheduling
        self.limits = limits(tree if scheduling.tree else flattened(tree), capacity)
        self.used: defaultdict[str, Amounts] = defaultdict(dict)
        self.gangs: defaultdict[str, dict[str, GangAllocation]] = defaultdict(dict)
        self.reasons: dict[str, str] = {}
        self.doubts: dict[str, str] = {}
        self.doubt = ""
        self.touched = set(tree.queues)
        """Queues whose use changed since reclaim last read them."""
        self._chains = {
            name: (*reversed([*tree.ancestors(name)]), name) if scheduling.tree else (name,) for name in tree.queues
        }
        self._leaves = frozenset(tree.leaves if scheduling.tree else tree.queues)
        self._node = node
        self._shares: dict[str, Amounts] = {}
        self._parts: dict[str, tuple[float, bool, str]] = {}
        self._above: dict[str, tuple[tuple[float, bool, str], ...]] = {}
        for job in jobs:
            placed = [pod for pod in job.members if pod.placed]
            gang = GangAllocation(job, placed, [pod for pod in job.members if not pod.placed])
            self.gangs[job.queue][job.name] = gang
            for pod in placed:
                self.count(job.queue, pod.request, 1)
        self._split = any(
            gang.placed and not self.whole_nodes(gang) for each in self.gangs.values() for gang in each.values()
        )

    def schedule(self) -> None:
        """Start every gang that fits, queue by queue."""
        self._above = {name: tuple(self._part(each) for each in self._chains[name][:-1]) for name in self.tree.queues}
        lines: defaultdict[str, list[tuple[tuple[int, bool, str, str], GangAllocation]]] = defaultdict(list)
        for queue, gangs in self.gangs.items():
            for gang in gangs.values():
                if not gang.waiting:
                    continue
                if reason := self._unserved(gang):
                    self.reasons[gang.job.name] = reason
                else:
                    heapq.heappush(lines[queue], (gang.order, gang))
        tie, started, refused = False, list[GangAllocation](), list[GangAllocation]()
        queues = [(self.order(name), name) for name in lines]
        heapq.heapify(queues)
        while queues:
            order, name = heapq.heappop(queues)
            tie = tie or (bool(queues) and _tied(order, queues[0][0]))
            _, gang = heapq.heappop(lines[name])
            starts = self._start(gang)
            if tie:
                (started if starts else refused).append(gang)
            if starts and gang.waiting:
                heapq.heappush(lines[name], (gang.order, gang))
            if lines[name]:
                heapq.heappush(queues, (self.order(name), name))
        if started and refused:
            for gang in (*started, *refused):
                self.decide(gang, _TIED)

    def order(self, name: str) -> Order:
        """Return the position of a queue among the others."""
        return -self.tree.queues[name].priority, (*self._above[name], self._part(name))

    def deserved(self, name: str) -> Amounts:
        """Return the share of a queue; only without the tree, limit and guarantee bound it."""
        if name not in self._shares:
            queue = self.tree.queues[name]
            deserved = dict(queue.amounts("deserved"))
            if not self.scheduling.tree:
                limit = self.limits.get(name, {})
                deserved = {each: min(amount, limit.get(each, amount)) for each, amount in deserved.items()}
                for resource, amount in queue.amounts("guarantee").items():
                    deserved[resource] = max(amount, deserved.get(resource, 0))
            self._shares[name] = {resource: amount for resource, amount in deserved.items() if amount}
        return self._shares[name]

    def common_levels(self, one: str, other: str) -> int:
        """Return how many queues are above both of two queues, below root."""
        pairs = zip(self._chains[one][:-1], self._chains[other][:-1], strict=False)
        return sum(left == right for left, right in pairs)

    def count(self, queue: str, request: Amounts, sign: int) -> None:
        """Add a pod to what its queue and the queues above use, or remove it."""
        for name in (ROOT, *self._chains.get(queue, ())):
            used = self.used[name]
            for resource, amount in request.items():
                used[resource] = used.get(resource, 0) + sign * amount
            self._parts.pop(name, None)
        self.touched.add(queue)

    def decide(self, gang: GangAllocation, doubt: str = "") -> None:
        """Record that a job is decided; its forecast is an estimate from the first doubt on."""
        self.doubt = self.doubt or doubt
        # That a job lost pods is decided when they are evicted, whatever comes after.
        if self.doubt and not (gang.lost and not gang.evicted):
            self.doubts.setdefault(gang.job.name, self.doubt)

    def whole_nodes(self, gang: GangAllocation) -> bool:
        """Return whether each pod of a gang fills a node of its own."""
        node = self._node
        return node is not None and all(
            any(self.fills(name, amount) for name, amount in pod.request.items())
            and all(amount <= node.get(name, 0) for name, amount in pod.request.items())
            for pod in gang.job.members
        )

    def fills(self, resource: str, amount: int) -> bool:
        """Return whether an amount is all that a node has of a device."""
        return "/" in resource and amount > 0 and self._node is not None and self._node.get(resource) == amount

    def exact(self, gang: GangAllocation) -> bool:
        """Return whether totals decide where a gang runs: its pods and all others fill a node each."""
        return not self._split and self.whole_nodes(gang)

    def is_open(self, name: str) -> bool:
        """Return whether a queue schedules its jobs."""
        return self.tree.queues[name].state is QueueState.OPEN

    def beyond_limit(self, queue: str, request: Amounts) -> str:
        """Return which limit a request exceeds, if any."""
        for name in self._chains[queue]:
            limit, used = self.limits.get(name, {}), self.used[name]
            for resource, amount in request.items():
                bound = limit.get(resource)
                if bound is not None and amount and used.get(resource, 0) + amount > bound:
                    free = text(resource, max(0, bound - used.get(resource, 0)))
                    return f"the limit of {name} is {text(resource, bound)} {resource}, of which {free} are free"
        return ""

    def missing(self, request: Amounts) -> Amounts:
        """Return what the nodes lack for a request."""
        if self.capacity is None:
            return {}
        used = self.used[ROOT]
        short = {
            resource: used.get(resource, 0) + amount - self.capacity.get(resource, 0)
            for resource, amount in request.items()
            if amount
        }
        return {resource: amount for resource, amount in short.items() if amount > 0}

    def _start(self, gang: GangAllocation) -> bool:
        """Start the next pods of a gang: as many as it needs to run, then one by one."""
        pods = gang.waiting[: 1 if gang.ready else gang.job.needed - len(gang.placed)]
        request = pods[0].request if len(pods) == 1 else total(pod.request for pod in pods)
        reason = self.beyond_limit(gang.job.queue, request)
        if not reason and (missing := self.missing(request)):
            reason = f"the cluster is full: {_some(missing)} short"
        if reason:
            self.reasons[gang.job.name] = reason
            self.decide(gang)
            return False
        self.place(gang, pods)
        self.reasons.pop(gang.job.name, None)
        self.decide(gang, "" if self.exact(gang) and not gang.job.topology else _FRAGMENTED)
        return True

    def place(self, gang: GangAllocation, pods: list[GangPod]) -> None:
        """Place the first waiting pods of a gang."""
        del gang.waiting[: len(pods)]
        gang.placed += pods
        for pod in pods:
            self.count(gang.job.queue, pod.request, 1)

    def _unserved(self, gang: GangAllocation) -> str:
        name = gang.job.queue
        queue = self.tree.queues.get(name)
        if queue is None:
            return f"queue {name} does not exist"
        if name not in self._leaves:
            return f"queue {name} has child queues: this stops scheduling for every tenant"
        if not self.is_open(name):
            return f"queue {name} is {queue.state.value}"
        have = len(gang.placed) + len(gang.waiting)
        if have < gang.job.needed:
            return f"it has {have} of the {gang.job.needed} pods that must run together"
        return ""

    def _part(self, name: str) -> tuple[float, bool, str]:
        """Return the used part of a queue's share, and whether it has no share, which counts as fully used."""
        if name not in self._parts:
            deserved, used = self.deserved(name), self.used[name]
            parts = (used.get(each, 0) / amount for each, amount in deserved.items())
            self._parts[name] = (max(parts), False, name) if deserved else (1.0, True, name)
        return self._parts[name]


def _tied(one: Order, other: Order) -> bool:
    """Return whether the scheduler orders two queues by age, then by name."""
    if one[0] != other[0]:
        return False
    for left, right in zip(one[1], other[1], strict=False):
        if left != right:
            return left[:2] == right[:2]
    return False


def _some(amounts: Amounts) -> str:
    return ", ".join(f"{text(resource, amount)} {resource}" for resource, amount in sorted(amounts.items()))
