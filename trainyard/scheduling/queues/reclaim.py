"""Model of action reclaim: pods of queues above their share that make room for a queue within its share.

Upstream source: action ``reclaim`` and plug-ins ``capacity`` and ``conformance`` of Volcano 1.14.1, as the shipped
presets combine them. Each waiting pod of a gang is considered on its own: its queue must stay within ``deserved`` in a
resource that it requests, and it takes a node with pods of other queues, even while other nodes are free. A pod can be
evicted while its queue is above ``deserved`` in a resource that the pod requests, or while the pod requests nothing of
``deserved``, and its queue keeps its guarantee. Nothing is evicted unless ``minMember`` pods find room. Neither
priority nor age protects a pod: the scheduler takes the node that it looks at first. What is freed is not reserved:
action allocate gives it to the gang that is next by the order of queues and jobs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from trainyard.scheduling.queues.allocation import Allocation, GangAllocation
from trainyard.scheduling.queues.amounts import Amounts, total
from trainyard.scheduling.queues.queue import ROOT
from trainyard.scheduling.queues.queued_gangs import GangPod, QueuedJob

_ANY_NODE = "reclaim evicts on the node that it looks at first"
_ON_NODES = "reclaim frees places on nodes, and totals are compared"
_RESTARTS = "a gang that restarts gives its nodes back one by one"
_IN_VAIN = "reclaim evicts pods for a job that its limit stops, again and again"


class Reclaim:
    """Reclaims for the queues of an allocation.

    Parameters
    ----------
    state
        The allocation, changed by each reclaim.
    """

    def __init__(self, state: Allocation) -> None:
        self._state = state
        self._candidates: dict[str, list[tuple[GangAllocation, GangPod]]] = {}
        self._pool: defaultdict[str, int] = defaultdict(int)
        self._reserved: list[tuple[str, GangPod]] = []
        self._evicted: set[str] = set()
        self.uncertain: dict[str, str] = {}
        """Queues in which any evictable pod may be the one that is evicted, with the reason."""

    def run(self) -> bool:
        """Reclaim for each waiting gang, in the order of the queues; return whether pods were evicted."""
        state, evicted = self._state, set[str]()
        waiting = {
            queue: sorted((gang for gang in gangs.values() if self._may_try(gang)), key=lambda gang: gang.order)
            for queue, gangs in state.gangs.items()
            if queue in state.tree.queues and state.is_open(queue)
        }
        for queue in sorted((name for name, gangs in waiting.items() if gangs), key=state.order):
            for gang in waiting[queue]:
                evicted |= self._reclaim(gang)
        for queue, pod in self._reserved:
            state.count(queue, pod.request, -1)
        self._reserved = []
        self._evicted = evicted
        return bool(evicted)

    def replace(self) -> None:
        """Replace the evicted pods, as JobSet does: a gang that has fewer than ``minMember`` restarts as a whole."""
        state = self._state
        for queue in self._evicted:
            for gang in state.gangs[queue].values():
                if gang.evicted:
                    self._replace(gang)

    def above_share(self, name: str) -> bool:
        """Return whether a queue is above its share, so that others may reclaim from it."""
        return bool(self._of(name))

    def _may_try(self, gang: GangAllocation) -> bool:
        enough = len(gang.placed) + len(gang.waiting) >= gang.job.needed
        return bool(gang.waiting) and gang.job.preempts and enough

    def _reclaim(self, gang: GangAllocation) -> set[str]:
        """Reclaim for one gang; return the queues that lose pods, none if it would not start."""
        state, job = self._state, gang.job
        if not self._within_share(job.queue, gang.waiting[0].request, {}) or not self._enough(gang):
            return set()
        victims, served = self._choose(gang)
        if not served or len(gang.placed) + served < job.needed:
            self._refuse(gang, served)
            return set()
        lenders = self._lenders(job)
        if reason := state.beyond_limit(job.queue, total(pod.request for pod in gang.waiting[:served])):
            state.reasons[job.name] = f"{reason}; {_IN_VAIN}"
            state.decide(gang, _IN_VAIN)
            self.uncertain = dict.fromkeys(lenders, _IN_VAIN) | self.uncertain
            return set()
        self._record_doubt(gang, victims, lenders)
        for pod in gang.waiting[:served]:
            self._reserved.append((job.queue, pod))
            state.count(job.queue, pod.request, 1)
        for loser, pod in victims:
            loser.placed.remove(pod)
            loser.evicted.append(pod)
            loser.lost += 1
            loser.reclaimers[f"{job.name} of {job.queue}"] = None
            state.count(loser.job.queue, pod.request, -1)
            state.decide(loser)
        return {loser.job.queue for loser, _ in victims}

    def _choose(self, gang: GangAllocation) -> tuple[list[tuple[GangAllocation, GangPod]], int]:
        """Return the victims, and the number of pods of a gang that get their room."""
        state, chosen, served = self._state, list[tuple[GangAllocation, GangPod]](), 0
        own: Amounts = {}
        # Where each pod fills a node, free nodes have no pods to reclaim from and do not count.
        whole = state.whole_nodes(gang)
        free = {name: min(0, amount) if whole else amount for name, amount in self._free().items()}
        stream = self._victims(gang.job)
        for pod in gang.waiting:
            if not self._within_share(gang.job.queue, pod.request, own):
                break
            # What else a node has is free once the pods that use the devices are gone.
            needs = {name: amount for name, amount in pod.request.items() if amount}
            if whole:
                needs = {name: amount for name, amount in needs.items() if state.fills(name, amount)}
            lacking = {name: amount - free.get(name, 0) for name, amount in needs.items()}
            taken: list[tuple[GangAllocation, GangPod]] = []
            while not taken or any(amount > 0 for amount in lacking.values()):
                victim = next((each for each in stream if _intersect(each[1].request, pod.request)), None)
                if victim is None:
                    return chosen, served
                taken.append(victim)
                for name in lacking:
                    lacking[name] -= victim[1].request.get(name, 0)
            free = {} if whole else {name: -amount for name, amount in lacking.items()}
            chosen += taken
            served += 1
            own = total((own, pod.request))
        return chosen, served

    def _free(self) -> Amounts:
        """Return what the nodes have free; negative where pods are on nodes that do not count."""
        used, capacity = self._state.used[ROOT], self._state.capacity or {}
        return {name: amount - used.get(name, 0) for name, amount in capacity.items()}

    def _refuse(self, gang: GangAllocation, served: int) -> None:
        """Decide that reclaim does not make room for a gang; where nodes decide, it may, and evict any pod."""
        state, name = self._state, gang.job.name
        if not state.exact(gang):
            state.decide(gang, _ON_NODES)
            self.uncertain = dict.fromkeys(self._lenders(gang.job), state.doubt) | self.uncertain
        elif served and name in state.reasons:
            state.reasons[name] += (
                f"; reclaim evicts for {served} of its {gang.job.needed} pods at most, and does not count free nodes"
            )

    def _record_doubt(
        self, gang: GangAllocation, victims: list[tuple[GangAllocation, GangPod]], lenders: list[str]
    ) -> None:
        """Record a doubt about the gang, its victims, and the others that may be hit instead of them."""
        state = self._state
        if not state.exact(gang):
            state.decide(gang, _ON_NODES)
        if not state.doubt:
            possible = [loser for name in lenders for loser, _ in self._evictable(name)]
            if len(possible) > len(victims) and len({loser.job.name for loser in possible}) > 1:
                state.doubt = _ANY_NODE
        if state.doubt:
            self.uncertain = dict.fromkeys(lenders, state.doubt) | self.uncertain

    def _within_share(self, queue: str, request: Mapping[str, int], own: Mapping[str, int]) -> bool:
        deserved, used = self._state.deserved(queue), self._state.used[queue]
        return any(
            amount and used.get(resource, 0) + own.get(resource, 0) + amount <= deserved.get(resource, 0)
            for resource, amount in request.items()
        )

    def _enough(self, gang: GangAllocation) -> bool:
        """Return whether there are as many victims as a gang needs, in any of its resources."""
        for name in list(self._state.touched):
            self._of(name)
        own = total(pod.request for _, pod in self._of(gang.job.queue))
        return any(self._pool[name] > own.get(name, 0) for name in gang.waiting[0].request)

    def _lenders(self, job: QueuedJob) -> list[str]:
        """Return the queues that lend, in the order in which their pods on one node are evicted."""
        state = self._state
        lenders = [name for name, found in self._candidates.items() if found and name != job.queue]
        lenders.sort(key=state.order, reverse=True)
        return sorted(lenders, key=lambda name: state.common_levels(name, job.queue), reverse=True)

    def _victims(self, job: QueuedJob) -> Iterator[tuple[GangAllocation, GangPod]]:
        for name in self._lenders(job):
            yield from self._candidates[name]

    def _of(self, name: str) -> list[tuple[GangAllocation, GangPod]]:
        """Return the pods that others may reclaim from a queue until it is at its share."""
        if name in self._state.touched:
            self._state.touched.discard(name)
            old, new = self._candidates.get(name, []), list(self._until_share(name))
            for sign, pods in ((-1, old), (1, new)):
                for _, pod in pods:
                    for resource, amount in pod.request.items():
                        self._pool[resource] += sign * amount
            self._candidates[name] = new
        return self._candidates.get(name, [])

    def _until_share(self, name: str) -> Iterator[tuple[GangAllocation, GangPod]]:
        left = dict(self._state.used[name])
        for gang, pod in sorted(self._evictable(name), key=lambda each: _last(each[0].job)):
            if self._is_victim(name, pod, left):
                yield gang, pod
                left = {resource: amount - pod.request.get(resource, 0) for resource, amount in left.items()}

    def _evictable(self, name: str) -> list[tuple[GangAllocation, GangPod]]:
        """Return every pod that may be the first that is evicted from a queue."""
        state = self._state
        if not state.scheduling.reclaim or name not in state.tree.queues or not state.tree.queues[name].reclaimable:
            return []
        used = state.used[name]
        return [
            (gang, pod)
            for gang in state.gangs[name].values()
            for pod in gang.placed
            if pod.evictable and self._is_victim(name, pod, used)
        ]

    def _is_victim(self, name: str, pod: GangPod, used: Mapping[str, int]) -> bool:
        deserved, guarantee = self._state.deserved(name), self._state.tree.queues[name].amounts("guarantee")
        if any(used.get(each, 0) - pod.request.get(each, 0) < amount for each, amount in guarantee.items()):
            return False
        named = [each for each, amount in pod.request.items() if amount and deserved.get(each)]
        return not named or any(used.get(each, 0) > deserved[each] for each in named)

    def _replace(self, gang: GangAllocation) -> None:
        state = self._state
        gang.waiting += gang.evicted
        gang.evicted = []
        if gang.ready:
            return
        gang.restarted = True
        if gang.placed:
            state.doubt = state.doubt or _RESTARTS
            for pod in gang.placed:
                state.count(gang.job.queue, pod.request, -1)
            gang.lost += len(gang.placed)
            gang.waiting += gang.placed
            gang.placed = []


def _intersect(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    return any(amount and other.get(name) for name, amount in one.items())


def _last(job: QueuedJob) -> tuple[int, tuple[int, ...], str]:
    """Lowest priority, then youngest: the order on one node."""
    return job.priority, tuple(-ord(letter) for letter in job.created), job.name
