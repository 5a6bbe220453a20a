"""What must hold after every write, and what must be true when nothing stands in the way any more."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.api_server import Event, Stored
from tests.simulation.cluster_controllers import condition_of, terminal
from tests.simulation.world import NAMESPACE, World, owner_of
from trainyard.controller.job_ownership import TRAIN_JOB_LABEL
from trainyard.kube import kinds, training_kinds

_CHILDREN = (training_kinds.JOB_SETS, training_kinds.POD_GROUPS, kinds.CONFIG_MAPS, kinds.SECRETS)
_TERMINAL = ("Complete", "Failed")
_SLACK = 10.0
_UNANSWERED = 30.0
"""Seconds after which a request that went unanswered counts as failed; the wait for the next attempt follows."""
_TAKE_OVER = 25.0
"""Seconds until another replica leads."""


@dataclass(frozen=True)
class Violation:
    """An invariant that did not hold."""

    invariant: str
    detail: str
    time: float

    def __str__(self) -> str:
        return f"at {self.time:.2f} s: {self.invariant}: {self.detail}"


@dataclass
class _Run:
    """What is known of one incarnation of a TrainJob."""

    name: str
    job_sets: list[str] = field(default_factory=list)
    recorded: set[str] = field(default_factory=set)
    remakes: bool = False
    ended_at: int | None = None
    """Version in which the end was recorded."""
    late: dict[str, float] = field(default_factory=dict)
    """JobSets created too late, with the time: their create was sent before the job ended or was known to run."""
    finished_since: float = 0.0
    suspended_at: float | None = None
    adopted: bool = False


class Monitor(logging.Handler):
    """Watches the model from outside the controller."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self.world = world
        self.violations: list[Violation] = []
        self.runs: dict[str, _Run] = {}
        self.writes: list[str] = []
        self.blocked = {"suspend": 0.0, "status": 0.0, "delete": 0.0}
        self._lost: set[str] = set()
        """JobSets that another client deleted before the controller could record them."""
        self._overtaken: set[str] = set()
        """JobSets whose create was sent before an earlier one was known: they may be kept or given up."""
        self._ended_job_sets: set[str] = set()
        self._known_from: dict[str, int] = {}
        """Version from which a controller can know each JobSet: another client's lacks the label of the watch."""
        world.server.listeners.append(self._on_event)

    @property
    def recovery(self) -> float:
        """Seconds within which everything is as it should be once nothing blocks it."""
        return 60.0 + _UNANSWERED + _SLACK + (_TAKE_OVER if self.world.elects else 0.0)

    def report(self, invariant: str, detail: str) -> None:
        """Note a violation, each invariant once."""
        if all(violation.invariant != invariant for violation in self.violations):
            self.violations.append(Violation(invariant, detail, self.world.loop.time()))

    def emit(self, record: logging.LogRecord) -> None:
        """Note a traceback that was logged: no exception may escape."""
        if record.exc_info:
            self.report("no exception escapes", f"{record.name}: {record.getMessage()}: {record.exc_info[1]!r}")

    # After every write

    def _on_event(self, event: Event) -> None:
        plural = event.last.kind.resource.plural
        ours = event.call.user.startswith("controller-")
        if ours and plural not in ("leases", "events"):
            self.writes.append(str(event.call))
        if event.last.kind.resource == training_kinds.TRAIN_JOBS:
            self._train_job(event)
        elif event.last.kind.resource == training_kinds.JOB_SETS:
            self._job_set(event, ours)
        if ours and event.old is not None and event.last.kind.resource in _CHILDREN:
            owner = owner_of(event.old.body)
            if owner not in self.runs:
                self.report("foreign objects are never modified", f"{event.call}, owned by {owner or 'no owner'}")

    def _train_job(self, event: Event) -> None:
        uid = event.last.metadata["uid"]
        run = self.runs.setdefault(uid, _Run(event.last.metadata["name"]))
        if event.new is None:
            return
        body = event.new.body
        if event.old is not None:
            for kind in _TERMINAL:
                before, after = condition_of(event.old.body, kind), condition_of(body, kind)
                if before is not None and before != after:
                    self.report("terminal conditions never regress", f"{run.name}: {before} became {after}")
            records = [(each.get("status") or {}).get("jobSet") for each in (event.old.body, body)]
            if run.ended_at is not None and records[0] != records[1]:
                self.report("the record of a finished job never changes", f"{run.name}: {records}")
        if run.ended_at is None and any(condition_of(body, kind) for kind in _TERMINAL):
            run.ended_at, run.finished_since = event.version, self.world.loop.time()
            self._ended(run, event)
        recorded = (body.get("status") or {}).get("jobSet") or {}
        if recorded.get("uid"):
            run.recorded.add(recorded["uid"])
            self._lost.discard(recorded["uid"])  # It was still being deleted.
        if not recorded and (body.get("status") or {}).get("jobsStatus"):
            run.recorded.update(run.job_sets)
        run.remakes = bool(recorded.get("remake"))
        if not body["spec"].get("suspend"):
            run.suspended_at = None
        elif run.suspended_at is None:
            run.suspended_at = self.world.loop.time()

    def _ended(self, run: _Run, event: Event) -> None:
        """Check that a job is not given up while its JobSet is there."""
        failed = condition_of(event.last.body, "Failed")
        if failed is None or failed["reason"] != "JobSetMissing":
            return
        job_set = self._owned(training_kinds.JOB_SETS, event.last)
        exists = job_set is not None and job_set.metadata["uid"] not in {*run.late, *self._overtaken}
        if exists and job_set is not None and job_set.version <= event.call.sent:
            self.report("only a JobSet that is gone counts as lost", f"{run.name}: {job_set.metadata['uid']} exists")

    def _job_set(self, event: Event, ours: bool) -> None:
        uid, run = event.last.metadata["uid"], self.runs.get(owner_of(event.last.body))
        if run is None:
            return
        if event.old is None:
            self._created(event, run, ours)
            run.job_sets.append(uid)
        elif event.new is not None and terminal(event.new.body):
            self._ended_job_sets.add(uid)
        if ours or event.new is None or TRAIN_JOB_LABEL in (event.new.metadata.get("labels") or {}):
            self._known_from.setdefault(uid, event.version)
        if event.call.verb == "delete" and ours and not run.remakes and run.ended_at is None:
            self.report("a JobSet is deleted only after the reason was recorded", f"{run.name}: {uid}")
        if event.call.verb == "delete" and ours and event.old and terminal(event.old.body) and run.ended_at is None:
            self.report("a JobSet that ended is deleted only after its end was recorded", f"{run.name}: {uid}")
        if event.new is None or event.new.metadata.get("deletionTimestamp"):
            if not ours and uid not in run.recorded:
                self._lost.add(uid)
            early = event.call.user == "jobset-ttl" and run.ended_at is None and not run.adopted
            if early and self._live(run) is not None:
                self.report("a JobSet outlives the record of its end", f"{run.name}: TTL deleted {uid}")

    def _created(self, event: Event, run: _Run, ours: bool) -> None:
        if not ours:
            run.adopted = True
            return
        if run.ended_at is not None and run.ended_at <= event.call.sent:
            self.report("a job that ended never runs again", f"{run.name}: JobSet created after the end")
        if any(self._known_from.get(uid, event.version) > event.call.sent for uid in run.job_sets):
            self._overtaken.add(event.last.metadata["uid"])
        earlier = [uid for uid in run.job_sets if uid not in self._lost]
        before = [uid for uid in earlier if self._known_from.get(uid, event.version) <= event.call.sent]
        ended_since = run.ended_at is not None and run.ended_at > event.call.sent
        if ended_since or len(before) < len(earlier):
            # A create that was sent before cannot know of what happened since: what it makes has to go.
            if ended_since or not run.remakes:
                run.late[event.last.metadata["uid"]] = self.world.loop.time()
            return
        if not before:
            return
        if any(uid in self._ended_job_sets for uid in before):
            self.report("a job that ended never runs again", f"{run.name}: JobSet {before[-1]} had ended")
        elif not run.remakes:
            self.report("a JobSet's uid never changes without a recorded reason", f"{run.name}: after {before}")

    # At any time

    def check(self) -> None:
        """Check what depends on time."""
        world, now = self.world, self.world.loop.time()
        for stored in self._train_jobs():
            run = self.runs[stored.metadata["uid"]]
            self._check_runs_once(stored, run)
            if run.suspended_at is None:
                continue
            since = max(run.suspended_at, self.blocked["suspend"])
            job_set = self._owned(training_kinds.JOB_SETS, stored)
            goes_on = job_set is not None and not terminal(job_set.body) and not self._finished(stored)
            if (
                now - since > self.recovery
                and goes_on
                and job_set is not None
                and not job_set.body["spec"].get("suspend")
            ):
                self.report("suspend reaches the JobSet", f"{run.name}: suspended {now - run.suspended_at:.0f} s ago")
            since = max(run.suspended_at, self.blocked["status"])
            if (
                now - since > self.recovery
                and not self._finished(stored)
                and not condition_of(stored.body, "Suspended")
            ):
                self.report("a suspended job says so", f"{run.name}: {stored.body.get('status')}")
        for context in world.loop.failures:
            self.report("no exception escapes", f"{context.get('message')}: {context.get('exception')!r}")
        for process in world.processes:
            for error in process.failures:
                self.report("no exception escapes", f"the process ended: {error!r}")

    def _check_runs_once(self, stored: Stored, run: _Run) -> None:
        """Check that no JobSet goes on for long after the end of its job or of the job's only run."""
        job_set = self._owned(training_kinds.JOB_SETS, stored)
        if job_set is None or terminal(job_set.body) or stored.metadata.get("deletionTimestamp"):
            return
        uid = job_set.metadata["uid"]
        if uid in run.late and TRAIN_JOB_LABEL not in (job_set.metadata.get("labels") or {}):
            return  # Created late and unlabeled on admission: the next leader finds it.
        begins = [run.late[uid]] if uid in run.late else []
        begins += [run.finished_since] if self._finished(stored) else []
        since = max([*begins, *self.blocked.values()])
        if begins and self.world.loop.time() - since > self.recovery:
            self.report("a job that ended never runs again", f"{run.name}: JobSet {uid} goes on")

    # When nothing stands in the way any more

    def check_fixpoint(self) -> None:
        """Check that every TrainJob is where it should be."""
        self.check()
        for stored in self._train_jobs():
            if not stored.metadata.get("deletionTimestamp"):
                for invariant, detail in self._unfinished_work(stored):
                    self.report(invariant, f"{stored.key[1]}: {detail}")

    def _unfinished_work(self, stored: Stored) -> Iterator[tuple[str, str]]:
        run, spec = self.runs[stored.metadata["uid"]], stored.body["spec"]
        job_set, pod_group = (
            self._owned(training_kinds.JOB_SETS, stored),
            self._owned(training_kinds.POD_GROUPS, stored),
        )
        if self._finished(stored):
            if pod_group is not None:
                yield "the PodGroup of a finished job is deleted", "it is still there"
            # A label taken away after the end hides the JobSet until another replica leads.
            if (
                job_set is not None
                and terminal(job_set.body)
                and TRAIN_JOB_LABEL in (job_set.metadata.get("labels") or {})
                and spec["runtimeRef"]["name"] == "short-lived"
                and not job_set.body["spec"].get("ttlSecondsAfterFinished")
            ):
                yield "the TTL of a finished job is honored", "the JobSet has none"
            return
        if job_set is not None and terminal(job_set.body):
            yield "the end of a JobSet is recorded", f"{stored.body.get('status')}"
            return
        if job_set is None and run.recorded and not run.remakes:
            yield "a lost JobSet ends its job", f"{stored.body.get('status')}"
            return
        if self._occupied(stored):
            return
        if job_set is None:
            yield "a job is built once nothing blocks it", f"{stored.body.get('status')}"
            return
        if bool(job_set.body["spec"].get("suspend")) != bool(spec.get("suspend")):
            yield "JobSet and TrainJob agree about suspend", f"TrainJob {spec.get('suspend')}"
        if bool(condition_of(stored.body, "Suspended")) != bool(spec.get("suspend")):
            yield "the Suspended condition is current", f"{stored.body.get('status')}"
        gang = spec["runtimeRef"]["name"] != "plain" and not run.adopted
        if pod_group is None and gang and not spec.get("suspend"):
            yield "a gang has its PodGroup", "there is none"

    def _occupied(self, stored: Stored) -> bool:
        """Whether an object of another owner has a name that the job needs."""
        name, uid = stored.key[1], stored.metadata["uid"]
        needed = (
            (training_kinds.JOB_SETS, name),
            (training_kinds.POD_GROUPS, name),
            (kinds.CONFIG_MAPS, f"{name}-runtime-snapshot"),
        )
        found = (self.world.find(resource, called, NAMESPACE) for resource, called in needed)
        return any(other is not None and owner_of(other.body) != uid for other in found)

    def _owned(self, resource: Any, train_job: Stored) -> Stored | None:
        found = self.world.find(resource, train_job.key[1], NAMESPACE)
        ours = found is not None and owner_of(found.body) == train_job.metadata["uid"]
        return found if ours and found is not None and not found.metadata.get("deletionTimestamp") else None

    def _train_jobs(self) -> list[Stored]:
        found = (
            self.world.find(training_kinds.TRAIN_JOBS, name, NAMESPACE)
            for name in {run.name for run in self.runs.values()}
        )
        return sorted((stored for stored in found if stored is not None), key=lambda stored: stored.key)

    def _live(self, run: _Run) -> Stored | None:
        found = self.world.find(training_kinds.TRAIN_JOBS, run.name, NAMESPACE)
        return found if found is not None and self.runs.get(found.metadata["uid"]) is run else None

    def _finished(self, stored: Stored) -> bool:
        return any(condition_of(stored.body, kind) for kind in _TERMINAL)
