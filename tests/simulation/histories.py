"""Random histories: what people, the cluster and the network do to the controller, drawn from a seed.

A history is a list of steps that is known before it runs, so a shorter one can be tried by leaving steps out.
"""

from __future__ import annotations

import contextlib
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.simulation.api_server import Event
from tests.simulation.faults import FAULTS
from tests.simulation.invariants import Monitor, Violation
from tests.simulation.process import virtual_clocks
from tests.simulation.virtual_time import VirtualTimeLoop, run_in_virtual_time
from tests.simulation.world import NAMESPACE, PRIORITY_CLASS, RUNTIMES, World, runtime
from trainyard.controller.job_ownership import TRAIN_JOB_LABEL
from trainyard.kube import kinds, training_kinds

_JOBS = ("a", "b")
_DEADLINES = (3, 20, 40)
_QUIET_SECONDS = 200.0
_LONGEST = 2**63 - 1
_EMPHASIS = 15.0
_LAG_SECONDS = 3.0
_HELD_BY = "example.com/slow"


@dataclass(frozen=True)
class Step:
    """One thing that happens; it does nothing where it does not apply."""

    what: str
    job: str = ""
    value: Any = None

    def __str__(self) -> str:
        return " ".join(str(part) for part in (self.what, self.job, self.value) if part not in ("", None))


@dataclass(frozen=True)
class History:
    """A seed and the steps drawn from it."""

    seed: int
    replicas: int
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        lines = [f"seed {self.seed}, {self.replicas} replica(s)"]
        return "\n".join([*lines, *(f"  {number}. {step}" for number, step in enumerate(self.steps, 1))])


def drawn(seed: int, emphasis: Sequence[str] = ()) -> History:
    """Return the history of a seed.

    Parameters
    ----------
    seed
        Any number.
    emphasis
        Steps that are drawn more often.
    """
    rng = random.Random(seed)
    weights = {what: weight + (_EMPHASIS if what in emphasis else 0) for what, weight in _WEIGHTS.items()}
    steps: list[Step] = []
    faults: list[str] = []
    for _ in range(rng.randint(4, 24)):
        steps.append(_step(rng, weights, faults))
        if rng.random() < 0.7:
            steps.append(Step("advance", value=round(_duration(rng), 3)))
    return History(seed, 2 if rng.random() < 0.15 else 1, tuple(steps))


def _duration(rng: random.Random) -> float:
    low, high = rng.choice(((0.01, 0.3), (0.1, 2.0), (1.0, 10.0), (10.0, 110.0)))
    return rng.uniform(low, high)


def _step(rng: random.Random, weights: Mapping[str, float], faults: list[str]) -> Step:
    what = rng.choices(list(weights), list(weights.values()))[0]
    job = rng.choice(_JOBS)
    match what:
        case "create TrainJob" | "delete and create TrainJob":
            deadline = rng.choices((None, *_DEADLINES, _LONGEST), (12, 1, 1, 1, 1))[0]
            return Step(what, job, (rng.choice(RUNTIMES), rng.random() < 0.3, deadline))
        case "begin" if not faults or rng.random() < 0.6:
            name = rng.choice(list(FAULTS))
            faults.append(name)
            return Step("begin", value=name)
        case "begin" | "end" if faults:
            return Step("end", value=faults.pop(rng.randrange(len(faults))))
        case "end":
            return Step("compact")
        case "crash after writes":
            return Step(what, value=rng.randint(1, 6))
        case "edit runtime" | "delete runtime" | "create runtime":
            return Step(what, value=rng.choice(RUNTIMES))
        case "delete JobSet":
            return Step(what, job, rng.choice(("Background", "Background", "Foreground")))
        case "hold JobSet":
            return Step(what, job, round(rng.uniform(1.0, 60.0), 3))
        case "hold back create":
            return Step(what, value=round(rng.uniform(25.0, 85.0), 3))
        case "edit snapshot":
            return Step(what, job, rng.choice(("image:2", "image:3")))
        case "foreign object":
            return Step(what, job, rng.choice(("JobSet", "PodGroup", "ConfigMap")))
        case "hand over":
            return Step(what, job, (rng.choice(RUNTIMES), rng.random() < 0.4))
        case "delete TrainJob":
            return Step(what, job, rng.choice(("Background", "Background", "Foreground")))
    return Step(what, job if what.endswith(("TrainJob", "JobSet", "PodGroup", "snapshot")) else "")


_WEIGHTS: Mapping[str, float] = {
    "create TrainJob": 12,
    "suspend TrainJob": 8,
    "resume TrainJob": 8,
    "delete TrainJob": 3,
    "delete and create TrainJob": 2,
    "complete JobSet": 5,
    "fail JobSet": 3,
    "delete JobSet": 2,
    "delete PodGroup": 1,
    "unlabel JobSet": 1,
    "edit snapshot": 3,
    "delete snapshot": 2,
    "edit runtime": 2,
    "delete runtime": 2,
    "create runtime": 2,
    "delete class": 2,
    "create class": 1,
    "foreign object": 2,
    "remove foreign objects": 1,
    "hand over": 2,
    "poison object": 0.5,
    "begin": 10,
    "end": 4,
    "crash after writes": 5,
    "kill": 4,
    "start": 4,
    "compact": 1,
    "cut watches": 1.5,
    "complete and resume TrainJob": 2,
    "hold back create": 2,
    "hold JobSet": 1,
    "create of JobSet": 2,
}


class _Player:
    """Carries out the steps of one history."""

    def __init__(self, world: World, monitor: Monitor, history: History) -> None:
        self.world, self.monitor = world, monitor
        self._rng = random.Random(f"choices of {history.seed}")
        self._unlabeled = random.Random(f"labels of {history.seed}")
        self._faults: set[str] = set()

    async def play(self, step: Step) -> None:
        self._note_blocked()
        if step.what == "advance":
            await self.world.advance(step.value)
        else:
            _ACTIONS[step.what](self, step)
        self._note_blocked()
        self.monitor.check()

    async def end(self) -> None:
        """End every fault, repair what the messages name, and check what must be true then."""
        world, monitor = self.world, self.monitor
        for name in sorted(self._faults):
            FAULTS[name].set(world, False)
        self._faults.clear()
        world.restore()
        for name in _JOBS:
            self._release(name)  # JobSet's webhook may have been away when it was due.
        if self._rng.random() < 0.8:
            self._remove_foreign()
        for process in world.processes:
            process.start()
            process.link.spare()
        monitor.blocked = dict.fromkeys(monitor.blocked, world.loop.time())
        await world.advance(monitor.recovery)
        monitor.check_fixpoint()
        # A job that could be resumed only now has its deadline ahead of it.
        await world.advance(max(_DEADLINES))
        await self._quiet()
        for name in _JOBS:
            world.end_job_set(name, self._rng.choice(("Completed", "Failed")))
        await world.advance(monitor.recovery)
        monitor.check_fixpoint()

    async def _quiet(self) -> None:
        monitor = self.monitor
        monitor.writes.clear()
        await self.world.advance(_QUIET_SECONDS)
        if monitor.writes:
            monitor.report("no write at the fixpoint", f"{len(monitor.writes)}: {monitor.writes[:4]}")
        monitor.check_fixpoint()

    def _note_blocked(self) -> None:
        world, now = self.world, self.world.loop.time()
        away = not all(process.running for process in world.processes)
        for what in self.monitor.blocked:
            if away or any(getattr(FAULTS[name], f"stops_{what}") for name in self._faults):
                self.monitor.blocked[what] = now

    def create_train_job(self, step: Step) -> None:
        name, suspend, deadline = step.value
        spec = {"suspend": suspend, **({} if deadline is None else {"activeDeadlineSeconds": deadline})}
        self.world.create_train_job(step.job, name, **spec)

    def suspend(self, step: Step) -> None:
        patch = {"spec": {"suspend": step.what.startswith("suspend")}}
        self.world.patch(training_kinds.TRAIN_JOBS, step.job, patch, namespace=NAMESPACE)

    def delete_train_job(self, step: Step) -> None:
        self.world.delete(training_kinds.TRAIN_JOBS, step.job, NAMESPACE, step.value)

    def delete_and_create(self, step: Step) -> None:
        self.world.delete(training_kinds.TRAIN_JOBS, step.job, NAMESPACE)
        self.create_train_job(step)

    def end_job_set(self, step: Step) -> None:
        self.world.end_job_set(step.job, "Completed" if step.what.startswith("complete") else "Failed")

    def complete_and_resume(self, step: Step) -> None:
        """Complete a suspended JobSet (its pods exited with 0 on SIGTERM) at the moment of a resume with changes."""
        train_job = self.world.find(training_kinds.TRAIN_JOBS, step.job, NAMESPACE)
        if train_job is not None and train_job.body["spec"].get("suspend"):
            self.world.network.delay_next_events(_LAG_SECONDS)
            self.world.end_job_set(step.job, "Completed")
            self.world.edit_snapshot(step.job, f"image:{self._rng.randint(2, 9)}")
            self.world.patch(training_kinds.TRAIN_JOBS, step.job, {"spec": {"suspend": False}}, namespace=NAMESPACE)

    def delete_child(self, step: Step) -> None:
        resource = {"JobSet": training_kinds.JOB_SETS, "PodGroup": training_kinds.POD_GROUPS}.get(step.what.split()[1])
        if resource is not None:
            self.world.delete(resource, step.job, NAMESPACE, step.value or "Background")
        else:
            self.world.delete(kinds.CONFIG_MAPS, f"{step.job}-runtime-snapshot", NAMESPACE)

    def unlabel(self, step: Step) -> None:
        """Take the controller's label off a JobSet, its PodGroup or both, so that watches by label lose them."""
        patch = {"metadata": {"labels": {TRAIN_JOB_LABEL: None}}}
        job_set, pod_group = self._unlabeled.choice(((True, False), (False, True), (True, True)))
        if job_set:
            self.world.patch(training_kinds.JOB_SETS, step.job, patch, namespace=NAMESPACE)
        if pod_group:
            self.world.patch(training_kinds.POD_GROUPS, step.job, patch, namespace=NAMESPACE)

    def edit_snapshot(self, step: Step) -> None:
        self.world.edit_snapshot(step.job, step.value)

    def edit_runtime(self, step: Step) -> None:
        body = runtime(step.value, f"image:{self._rng.randint(2, 9)}")
        self.world.patch(training_kinds.CLUSTER_TRAINING_RUNTIMES, step.value, {"spec": body["spec"]})

    def delete_runtime(self, step: Step) -> None:
        self.world.delete(training_kinds.CLUSTER_TRAINING_RUNTIMES, step.value)

    def create_runtime(self, step: Step) -> None:
        self.world.create(training_kinds.CLUSTER_TRAINING_RUNTIMES, runtime(step.value))

    def delete_class(self, step: Step) -> None:
        self.world.delete(kinds.PRIORITY_CLASSES, PRIORITY_CLASS)

    def create_class(self, step: Step) -> None:
        self.world.create(kinds.PRIORITY_CLASSES, {"metadata": {"name": PRIORITY_CLASS}, "value": 1000})

    def create_foreign(self, step: Step) -> None:
        if self._rng.random() < 0.5:
            self.world.delete(training_kinds.TRAIN_JOBS, step.job, NAMESPACE)
        metadata = {"name": step.job, "namespace": NAMESPACE, "labels": {"foreign": "yes"}}
        if step.value == "JobSet":
            job = runtime("plain")["spec"]["template"]["spec"]["replicatedJobs"][0]
            body = {"metadata": metadata, "spec": {"replicatedJobs": [job], "suspend": False}}
            self.world.create(training_kinds.JOB_SETS, body)
        elif step.value == "PodGroup":
            self.world.create(training_kinds.POD_GROUPS, {"metadata": metadata, "spec": {"minMember": 1}})
        else:
            metadata["name"] = f"{step.job}-runtime-snapshot"
            self.world.create(kinds.CONFIG_MAPS, {"metadata": metadata, "data": {"mine": "yes"}})

    def remove_foreign(self, step: Step) -> None:
        self._remove_foreign()

    def _remove_foreign(self) -> None:
        for stored in list(self.world.server.everything()):
            if (stored.metadata.get("labels") or {}).get("foreign"):
                self.world.delete(stored.kind.resource, stored.key[1], stored.key[0])

    def hand_over(self, step: Step) -> None:
        """Leave a TrainJob with the JobSet that another controller made for it, rendered otherwise and with its TTL."""
        name, suspend = step.value
        if self.world.find(training_kinds.TRAIN_JOBS, step.job, NAMESPACE) is not None:
            return
        self.world.create_train_job(step.job, name, suspend=suspend)
        stored = self.world.find(training_kinds.TRAIN_JOBS, step.job, NAMESPACE)
        if stored is None:
            return
        owner = {
            "apiVersion": training_kinds.TRAIN_JOBS.api_version,
            "kind": "TrainJob",
            "name": step.job,
            "uid": stored.metadata["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        metadata = {"name": step.job, "namespace": NAMESPACE, "ownerReferences": [owner]}
        spec = {**runtime(name, "image:of-upstream")["spec"]["template"]["spec"], "suspend": suspend}
        self.world.create(training_kinds.JOB_SETS, {"metadata": metadata, "spec": spec}, user="upstream")

    def poison(self, step: Step) -> None:
        metadata = {"name": f"poison-{self._rng.randint(1, 3)}", "namespace": "kube-system"}
        spec = {"replicatedJobs": [{"name": "a", "template": {}}]}
        self.world.create(training_kinds.JOB_SETS, {"metadata": metadata, "spec": spec})

    def begin(self, step: Step) -> None:
        self._faults.add(step.value)
        FAULTS[step.value].set(self.world, True)

    def end_fault(self, step: Step) -> None:
        self._faults.discard(step.value)
        FAULTS[step.value].set(self.world, False)

    def crash(self, step: Step) -> None:
        for process in self.world.processes:
            process.link.crash_after = step.value

    def hold_back(self, step: Step) -> None:
        for process in self.world.processes:
            process.link.held_back = step.value

    def arrive_late(self, step: Step) -> None:
        self.world.network.repeat_create(step.job)

    def hold(self, step: Step) -> None:
        """Give a JobSet the finalizer of another controller for a while."""
        patch = {"metadata": {"finalizers": [_HELD_BY]}}
        self.world.patch(training_kinds.JOB_SETS, step.job, patch, namespace=NAMESPACE)
        self.world.loop.call_later(step.value, self._release, step.job)

    def _release(self, name: str) -> None:
        stored = self.world.find(training_kinds.JOB_SETS, name, NAMESPACE)
        finalizers = [] if stored is None else stored.metadata.get("finalizers") or []
        if _HELD_BY in finalizers:
            kept = [each for each in finalizers if each != _HELD_BY]
            patch = {"metadata": {"finalizers": kept}}
            self.world.patch(training_kinds.JOB_SETS, name, patch, namespace=NAMESPACE)

    def kill(self, step: Step) -> None:
        self._rng.choice(self.world.processes).kill()

    def start(self, step: Step) -> None:
        for process in self.world.processes:
            process.start()

    def compact(self, step: Step) -> None:
        self.world.server.compact()

    def cut_watches(self, step: Step) -> None:
        self.world.network.cut_watches()


_ACTIONS: Mapping[str, Callable[[_Player, Step], None]] = {
    "create TrainJob": _Player.create_train_job,
    "suspend TrainJob": _Player.suspend,
    "resume TrainJob": _Player.suspend,
    "delete TrainJob": _Player.delete_train_job,
    "delete and create TrainJob": _Player.delete_and_create,
    "complete JobSet": _Player.end_job_set,
    "fail JobSet": _Player.end_job_set,
    "delete JobSet": _Player.delete_child,
    "delete PodGroup": _Player.delete_child,
    "unlabel JobSet": _Player.unlabel,
    "delete snapshot": _Player.delete_child,
    "edit snapshot": _Player.edit_snapshot,
    "edit runtime": _Player.edit_runtime,
    "delete runtime": _Player.delete_runtime,
    "create runtime": _Player.create_runtime,
    "delete class": _Player.delete_class,
    "create class": _Player.create_class,
    "foreign object": _Player.create_foreign,
    "remove foreign objects": _Player.remove_foreign,
    "hand over": _Player.hand_over,
    "poison object": _Player.poison,
    "begin": _Player.begin,
    "end": _Player.end_fault,
    "crash after writes": _Player.crash,
    "kill": _Player.kill,
    "start": _Player.start,
    "compact": _Player.compact,
    "cut watches": _Player.cut_watches,
    "complete and resume TrainJob": _Player.complete_and_resume,
    "hold back create": _Player.hold_back,
    "hold JobSet": _Player.hold,
    "create of JobSet": _Player.arrive_late,
}


def played(history: History, listener: Callable[[float, Event], None] | None = None) -> list[Violation]:
    """Play a history to its end and return the invariants that did not hold.

    Parameters
    ----------
    history
        What happens.
    listener
        Called with the virtual time and what was written, for each write.
    """

    async def main(loop: VirtualTimeLoop) -> list[Violation]:
        world = World(loop, history.seed, replicas=history.replicas)
        monitor = Monitor(world)
        if listener is not None:
            world.server.listeners.append(lambda event: listener(loop.time(), event))
        player = _Player(world, monitor, history)
        with _errors_to(monitor), world.network.installed(), virtual_clocks(loop):
            for process in world.processes:
                process.start()
            for step in history.steps:
                await player.play(step)
            await player.end()
            for process in world.processes:
                process.kill()
            await world.advance(0.1)
        return monitor.violations

    return run_in_virtual_time(main, seed=history.seed)


def shortest(history: History, invariant: str, play: Callable[[History], Sequence[Violation]] = played) -> History:
    """Leave out steps as long as the invariant still does not hold."""

    def breaks(steps: tuple[Step, ...], replicas: int) -> bool:
        found = play(History(history.seed, replicas, steps))
        return any(violation.invariant == invariant for violation in found)

    steps, replicas = history.steps, history.replicas
    if replicas > 1 and breaks(steps, 1):
        replicas = 1
    size = max(1, len(steps) // 2)
    while True:
        for start in range(0, len(steps), size):
            shorter = steps[:start] + steps[start + size :]
            if len(shorter) < len(steps) and breaks(shorter, replicas):
                steps = shorter
                break
        else:
            if size == 1:
                return History(history.seed, replicas, steps)
            size = max(1, size // 2)


@contextlib.contextmanager
def _errors_to(monitor: Monitor):  # type: ignore[no-untyped-def]
    logger = logging.getLogger("trainyard")
    before = logger.level, logger.propagate
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    logger.addHandler(monitor)
    try:
        yield
    finally:
        logger.removeHandler(monitor)
        logger.setLevel(before[0])
        logger.propagate = before[1]


def violations_of(seed: int) -> tuple[int, list[Violation]]:
    """Return a seed and what its history breaks; a process of a pool finds it by its name."""
    return seed, played(drawn(seed))
