"""Observer of pods, PodGroups and queues: feeds their changes to the ledger of usage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from trainyard.api.constants import COMPLETE, FAILED, PLATFORM_NAME, TRAIN_JOB, TRAINING_RUNTIME
from trainyard.controller.cluster_cache import ClusterCache
from trainyard.controller.open_jobs import OpenJobs
from trainyard.controller.status import condition, finished, runtime_reference
from trainyard.controller.usage_objects import (
    BY_GROUP,
    PodFacts,
    facts_of,
    group_name,
    owner_of,
    reduced_group,
    reduced_pod,
    reduced_queue,
    seconds,
)
from trainyard.insight.usage.bodies import minimum, shares
from trainyard.insight.usage.ledger import Ledger
from trainyard.insight.usage.levels import Holding, JobEvent, QueueTenants, Share, UsageGang
from trainyard.jobs.render.accelerators import is_accelerator
from trainyard.kube.client import Client
from trainyard.kube.informer import Informer
from trainyard.kube.kinds import PODS
from trainyard.kube.resource import Object, controller_of, uid_of
from trainyard.kube.store import StoreChange
from trainyard.kube.training_kinds import POD_GROUPS, QUEUES, VOLCANO_JOBS
from trainyard.scheduling.queues.queue import DEFAULT

_NOT_INSTALLED_RETRY = 60.0
_TURN = 200
"""Pods that are summed without a pause: some 10 ms."""
_Item = TypeVar("_Item")


class UsageObserver:
    """The ledger, kept up to date while there is one.

    Parameters
    ----------
    client
        API client.
    cache
        Shared informers of TrainJobs, TenantPolicies and the Platform; not started here.
    clock
        Seconds since 1970.
    """

    def __init__(self, client: Client, cache: ClusterCache, clock: Callable[[], float]) -> None:
        self._cache, self._clock = cache, clock
        self._pods = Informer(client, PODS, indexes={BY_GROUP: _groups_of}, transform=reduced_pod)
        self._groups = Informer(client, POD_GROUPS, transform=reduced_group, missing_retry=_NOT_INSTALLED_RETRY)
        self._queues = Informer(client, QUEUES, transform=reduced_queue, missing_retry=_NOT_INSTALLED_RETRY)
        self._jobs = OpenJobs()
        self._evicted: set[str] = set()
        self._listed: frozenset[str] = frozenset()
        self.earliest = 0
        self.ledger: Ledger | None = None
        self.events: list[JobEvent] = []
        """What happened to jobs since the recorder last took them."""
        self._late: list[Callable[[], None]] | None = None
        self._pods.subscribe(self._in_order(self._on_pod))
        self._groups.subscribe(self._in_order(self._on_group))
        self._queues.subscribe(self._in_order(self._on_queue))
        cache.train_jobs.subscribe(self._in_order(self._on_train_job))
        cache.platforms.subscribe(self._in_order(self._on_platform))

    @property
    def informers(self) -> Sequence[Informer]:
        """Informers that must run."""
        return (self._pods, self._groups, self._queues)

    @property
    def relists(self) -> int:
        """Complete lists of pods so far; after one, changes before it are known only by the times of pods."""
        return self._pods.relists.total()

    @property
    def now(self) -> int:
        """The present instant, not before `earliest`: the clock of a former writer may be ahead."""
        return max(int(self._clock()), self.earliest)

    async def start(self) -> Ledger:
        """Return a new ledger with what exists, from its creation on; it follows all further changes.

        The sum of many pods takes seconds, so other tasks run in between; changes during it follow at its end.
        """
        self._jobs, self._evicted, self._listed = OpenJobs(), set(), self._accelerators()
        late: list[Callable[[], None]] = []
        self.ledger = ledger = Ledger()
        self.events = []
        self._late = late
        try:
            self._share_out(0)
            steps: list[tuple[int, Callable[[], None]]] = []
            async for body in _in_turns(list(self._pods.store)):
                for at, bound, ended in self._steps(body):
                    steps.append((at, partial(self._hold, body, at, bound=bound, ended=ended)))
            for group in self._groups.store:
                metadata = group["metadata"]
                at = seconds(metadata.get("creationTimestamp"))
                steps.append((at, partial(self._hold_minimum, metadata["namespace"], metadata["name"], at)))
            steps.sort(key=lambda pair: pair[0])
            async for _, step in _in_turns(steps):
                step()
        finally:
            self._late = None
        for train_job in self._cache.train_jobs.store:
            self._note_end(train_job)
        for change in late:
            change()
        return ledger

    def _in_order(self, follow: Callable[[StoreChange], None]) -> Callable[[StoreChange], None]:
        """Return a subscriber whose changes wait until `start` has summed what exists."""

        def received(change: StoreChange) -> None:
            if self._late is not None:
                self._late.append(partial(follow, change))
            else:
                follow(change)

        return received

    def owners(self) -> list[QueueTenants]:
        """Return the queues that only one tenant may use."""
        found: dict[str, list[str]] = {}
        for policy in self._cache.tenant_policies.store:
            for queue in policy["spec"].get("queues") or ():
                found.setdefault(str(queue), []).append(policy["metadata"]["namespace"])
        return [QueueTenants(queue, tuple(tenants)) for queue, tenants in found.items() if len(tenants) == 1]

    def _steps(self, body: Object) -> Iterator[tuple[int, bool, bool]]:
        """Yield the instants at which a pod changed, and whether it had a node, and had ended, from then on."""
        facts = facts_of(body)
        if facts is not None:
            yield facts.created, False, False
            if facts.bound is not None:
                yield facts.bound or facts.created, True, False
            if facts.ended is not None:
                # At an unknown time: what was recorded before stays, and nothing is added.
                yield facts.ended or facts.bound or facts.created, True, True

    def _on_pod(self, change: StoreChange) -> None:
        if self.ledger is None:
            return
        old, new, at = change.old, change.new, self.now
        if old is not None and (new is None or uid_of(new) != uid_of(old)) and facts_of(old) is not None:
            self._release(old, at)
        if new is not None and (facts := facts_of(new)) is not None:
            changed = facts.created if facts.bound is None else facts.bound if facts.ended is None else facts.ended
            at = changed or at
            self._hold(new, at, bound=facts.bound is not None, ended=facts.ended is not None)
        for body in (old, new):
            if body is not None and (name := group_name(body)):
                namespace, _, group = name.partition("/")
                self._hold_minimum(namespace, group, at)

    def _hold(self, body: Object, at: int, *, bound: bool, ended: bool = False) -> None:
        assert self.ledger is not None  # noqa: S101
        facts = facts_of(body)
        assert facts is not None  # noqa: S101
        part, at = uid_of(body), min(at, self.now)
        if facts.evicted:
            self._evicted.add(part)
        if ended:
            if facts.failure and (gang := self._jobs.get(part)) is not None:
                self.events.append(JobEvent(at, gang, facts.failure))
            self._release(body, at)
            return
        gang = self._gang(body["metadata"]["namespace"], facts, self._jobs.get(part))
        self._replace(at, part, gang, facts.amounts, bound=bound)

    def _release(self, body: Object, at: int) -> None:
        assert self.ledger is not None  # noqa: S101
        part = uid_of(body)
        self.ledger.hold(at, part, None, taken_back=part in self._evicted)
        self._jobs.remove(part)
        self._evicted.discard(part)

    def _gang(self, namespace: str, facts: PodFacts, before: UsageGang | None) -> UsageGang:
        """Return the job of a pod; one that was a TrainJob's remains so when the TrainJob is deleted before it."""
        group = self._groups.store.get(namespace, facts.group) if facts.group else None
        queue = self._queue_of(group) if group is not None else self._known(facts.queue)
        priority_class = _priority_class(group) if group is not None else facts.priority_class
        if before is not None and before.kind == TRAIN_JOB:
            return before._replace(queue=queue, priority_class=priority_class) if group is not None else before
        owner = owner_of(group) if group is not None else None
        candidates = ((TRAIN_JOB, facts.job_set), *((owner,) if owner is not None else ()))
        for kind, name in candidates:
            if kind == TRAIN_JOB and (train_job := self._cache.train_jobs.store.get(namespace, name)) is not None:
                runtime = _runtime(train_job)
                return UsageGang(namespace, TRAIN_JOB, name, queue, runtime, priority_class)
        if before is not None and group is None:
            return before
        kind, name = ("JobSet", facts.job_set) if facts.job_set else owner or facts.owner
        return UsageGang(namespace, kind, name, queue, priority_class=priority_class)

    def _known(self, queue: str) -> str:
        """Return a queue that an object of a tenant names, or an empty text if it does not exist."""
        return queue if self._queues.store.get("", queue) is not None else ""

    def _queue_of(self, group: Object) -> str:
        return self._known(str(group["spec"].get("queue") or DEFAULT))

    def _hold_minimum(self, namespace: str, name: str, at: int | None = None) -> None:
        """Count the minimum of a gang that has no pods, unless its TrainJob is suspended or has ended."""
        if self.ledger is None:
            return
        part, group = f"group/{namespace}/{name}", self._groups.store.get(namespace, name)
        at = self.now if at is None else min(at, self.now)
        if group is not None and (gang := self._without_pods(namespace, group)) is not None:
            self._replace(at, part, gang, minimum(group), bound=False)
        else:
            self.ledger.hold(at, part, None)
            self._jobs.remove(part)

    def _replace(self, at: int, part: str, gang: UsageGang, amounts: Mapping[str, int], *, bound: bool) -> None:
        """Replace what a part holds, of resources that count."""
        assert self.ledger is not None  # noqa: S101
        counted = {name: amount for name, amount in amounts.items() if self._counts(name)}
        if counted:
            self.ledger.hold(at, part, Holding(self._jobs.put(part, gang), counted, bound))
        else:
            self.ledger.hold(at, part, None)
            self._jobs.remove(part)

    def _without_pods(self, namespace: str, group: Object) -> UsageGang | None:
        """Return the job of a PodGroup that waits and has no pods."""
        name = group["metadata"]["name"]
        if group["status"]["phase"] == "Completed" or self._pods.store.indexed(BY_GROUP, f"{namespace}/{name}"):
            return None
        kind, owner = owner_of(group) or ("PodGroup", name)
        if owner_of(group) is not None and not _waits_without_pods(group):
            return None
        runtime = ""
        if kind == TRAIN_JOB:
            train_job = self._cache.train_jobs.store.get(namespace, owner)
            if train_job is None or train_job["spec"].get("suspend") or finished(train_job):
                return None
            runtime = _runtime(train_job)
        return UsageGang(namespace, kind, owner, self._queue_of(group), runtime, _priority_class(group))

    def _on_train_job(self, change: StoreChange) -> None:
        self._hold_minimum(*change.key)
        old, new = change.old, change.new
        if self.ledger is not None and new is not None and not (old is not None and finished(old)):
            self._note_end(new)

    def _note_end(self, train_job: Object) -> None:
        """Note how a TrainJob ended, if it has."""
        ends = [(kind, found) for kind in (COMPLETE, FAILED) if (found := condition(train_job, kind, "True"))]
        for outcome, found in ends[:1]:
            metadata = train_job["metadata"]
            gang = UsageGang(metadata["namespace"], TRAIN_JOB, metadata["name"], "")
            self.events.append(JobEvent(self.now, gang, str(found.get("reason") or ""), outcome))

    def _on_group(self, change: StoreChange) -> None:
        if self.ledger is None:
            return
        old, new = change.old, change.new
        if new is not None and (old is None or old["spec"].get("queue") != new["spec"].get("queue")):
            for body in self._pods.store.indexed(BY_GROUP, "/".join(change.key)):
                self._hold_again(body)
        self._hold_minimum(*change.key)

    def _on_queue(self, change: StoreChange) -> None:
        old, new = change.old, change.new
        if self.ledger is None or (old is not None and new is not None and old["spec"] == new["spec"]):
            return
        self._share_out(self.now)
        if new is None:
            self.ledger.share(self.now, change.key[1], Share({}))
        if old is None or new is None:
            for body in self._pods.store:
                self._hold_again(body)
            for group in self._groups.store:
                self._hold_minimum(group["metadata"]["namespace"], group["metadata"]["name"])

    def _on_platform(self, _: StoreChange) -> None:
        if self.ledger is None or (listed := self._accelerators()) == self._listed:
            return
        self._listed = listed
        self._share_out(self.now)
        for body in self._pods.store:
            self._hold_again(body)

    def _share_out(self, at: int) -> None:
        """Replace the shares of all queues: a new one can take that of its parent."""
        assert self.ledger is not None  # noqa: S101
        for name, share in shares(self._queues.store, self._counts).items():
            self.ledger.share(at, name, share)

    def _hold_again(self, body: Object) -> None:
        facts = facts_of(body)
        if facts is not None and facts.ended is None:
            self._hold(body, self.now, bound=facts.bound is not None)

    def _accelerators(self) -> frozenset[str]:
        platform = self._cache.platforms.store.get("", PLATFORM_NAME)
        return frozenset((platform or {"spec": {}})["spec"].get("acceleratorResources") or ())

    def _counts(self, resource: str) -> bool:
        return resource in self._listed or is_accelerator(resource)


async def _in_turns(items: Sequence[_Item]) -> AsyncIterator[_Item]:
    """Yield items, and let other tasks run after some."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % _TURN == 0:
            await asyncio.sleep(0)


def _waits_without_pods(group: Object) -> bool:
    """Return whether the controller of a PodGroup's owner creates pods only when the gang may start.

    Pods of other jobs, such as those of JobSets and Jobs, exist at once or not at all: the job is suspended.
    """
    owner = controller_of(group) or {}
    api_group = str(owner.get("apiVersion") or "").rpartition("/")[0]
    return owner.get("kind") == TRAIN_JOB or (owner.get("kind"), api_group) == (VOLCANO_JOBS.kind, VOLCANO_JOBS.group)


def _priority_class(group: Object) -> str:
    return str(group["spec"].get("priorityClassName") or "")


def _runtime(train_job: Object) -> str:
    """Return the runtime of a TrainJob: its name, after the namespace if it is a TrainingRuntime."""
    _, kind, name = runtime_reference(train_job)
    return f"{train_job['metadata']['namespace']}/{name}" if kind == TRAINING_RUNTIME else str(name)


def _groups_of(body: Object) -> list[str]:
    name = group_name(body)
    return [name] if name else []
