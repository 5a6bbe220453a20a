"""Random histories of one TrainJob: users, JobSet's controller, another client, a lagging watch and kills.

Only the decisions are the controller's. The model carries them out with their preconditions on a stored JobSet, and
kills the process after any write.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.controller.harness import runtime
from tests.controller.test_lifecycle import COUNTS, JOB_UID, NOW, condition_of, job_of
from tests.simulation.patches import merged
from trainyard.api import ClusterTrainingRuntime, Runtime, TrainJob, parse
from trainyard.controller import actions, lifecycle
from trainyard.controller import status as statuses
from trainyard.controller.actions import Action, Inputs
from trainyard.controller.job_ownership import TRAIN_JOB_LABEL
from trainyard.controller.job_sets import as_created, summary
from trainyard.controller.lifecycle import ObservedJob

Body = dict[str, Any]
IMAGES = ("image:1", "image:2")
THEN = st.sampled_from(("", "watch", "reconcile", "watch, reconcile", "killed"))


class KilledError(Exception):
    """The process was killed after a write."""


class ConflictError(Exception):
    """A precondition of a write does not hold."""


@cache
def runtime_of(image: str) -> Runtime:
    return parse(ClusterTrainingRuntime, runtime(gang=False, image=image))


class TrainJobHistory(RuleBasedStateMachine):
    """One TrainJob, its stored JobSet, and what the watch has delivered of it."""

    def __init__(self) -> None:
        super().__init__()
        self.image = IMAGES[0]
        self.version = 100
        self.left: int | None = None
        self.begin()

    def begin(self) -> None:
        self.job = job_of("nothing", "open", suspend=False)
        self.stored: Body | None = None
        self.cached: Body | None = None
        self.created: str | None = None
        self.made: list[str] = []
        self.started: set[str] = set()
        self.excused: set[str] = set()
        """JobSets that another client deleted before the controller could know of them or of their end.

        Only the first JobSet of a job, and the one whose recreation is recorded: its successor runs after its record.
        """

    # Users, JobSet's controller, another client

    @precondition(lambda self: statuses.finished(self.job))
    @rule()
    def create_again(self) -> None:
        self.begin()

    @rule(suspend=st.booleans(), then=THEN)
    def set_suspend(self, suspend: bool, then: str) -> None:
        self.job = {**self.job, "spec": {**self.job["spec"], "suspend": suspend}}
        self.follow(then)

    @precondition(lambda self: self.job["spec"]["suspend"])
    @rule(then=THEN)
    def resume_with_changes(self, then: str) -> None:
        self.image = IMAGES[self.image == IMAGES[0]]
        self.set_suspend(False, then)

    @precondition(lambda self: self.goes_on)
    @rule(then=THEN)
    def start_or_stop_pods(self, then: str) -> None:
        assert self.stored is not None
        active = 0 if self.stored["spec"]["suspend"] else 1
        self.started.update([self.stored["metadata"]["uid"]] * active)
        conditions = [] if active else [condition_of("Suspended", "SuspendedJobs")]
        self.change({"status": {"conditions": conditions, "replicatedJobsStatus": [{**COUNTS, "active": active}]}})
        self.follow(then)

    @precondition(lambda self: self.goes_on and self.stored["metadata"]["uid"] in self.started)
    @rule(kind=st.sampled_from(("Completed", "Failed")), then=THEN)
    def end_job_set(self, kind: str, then: str) -> None:
        """End it also while it is suspended: its pods exited on SIGTERM."""
        counts = [{**COUNTS, "active": 0}]
        self.change({"status": {"conditions": [condition_of(kind, "Why")], "replicatedJobsStatus": counts}})
        self.follow(then)

    @precondition(lambda self: self.goes_on and not self.stored["spec"]["suspend"])
    @rule(then=THEN)
    def run_and_suspend(self, then: str) -> None:
        self.start_or_stop_pods("watch, reconcile")
        self.set_suspend(True, "reconcile")
        if self.goes_on:
            self.start_or_stop_pods(then)

    @precondition(lambda self: self.goes_on)
    @rule(kill_after=st.integers(1, 5))
    def recreate_and_kill(self, kill_after: int) -> None:
        """Kill the process after one of the writes of a recreation, which random steps rarely combine."""
        self.set_suspend(True, "watch, reconcile")
        if self.goes_on:
            self.start_or_stop_pods("watch, reconcile")
        self.resume_with_changes("watch")
        self.reconcile(kill_after if kill_after < 3 else None)
        self.watch()
        self.reconcile(kill_after - 2 if kill_after > 2 else None)

    @precondition(lambda self: self.goes_on)
    @rule(then=THEN)
    def run_and_lose(self, then: str) -> None:
        """Start the pods and delete the JobSet while no process runs."""
        self.start_or_stop_pods("")
        self.delete_job_set(then)

    @precondition(lambda self: self.stored is not None)
    @rule(then=THEN)
    def delete_job_set(self, then: str) -> None:
        assert self.stored is not None
        uid = self.stored["metadata"]["uid"]
        known = self.record.get("uid") == uid or self.created == uid
        if not known:
            self.excuse(uid)
        elif self.record.get("uid") == uid and self.record.get("remake"):
            self.excused.add(uid)
        self.stored = None
        self.follow(then)

    @precondition(lambda self: self.stored is not None)
    @rule(then=THEN)
    def start_deleting(self, then: str) -> None:
        """Delete it in the foreground: it stays until its pods are gone."""
        self.change({"metadata": {"deletionTimestamp": "2026-01-01T11:59:00Z"}})
        self.follow(then)

    def excuse(self, uid: str) -> None:
        """Forgive the controller a JobSet that it could not record, unless it must not have run before that."""
        if uid == self.made[0] or uid not in self.started:
            self.excused.add(uid)

    @precondition(lambda self: self.stored is not None)
    @rule(then=THEN)
    def unlabel(self, then: str) -> None:
        self.change({"metadata": {"labels": {TRAIN_JOB_LABEL: None}}})
        self.follow(then)

    def follow(self, then: str) -> None:
        """Continue after a step; the controller may reconcile before the watch has reported it."""
        if "watch" in then:
            self.watch()
        if "reconcile" in then:
            self.reconcile(None)
        if then == "killed":
            self.reconcile(1)

    # The controller

    @rule()
    def watch(self) -> None:
        labels = ((self.stored or {}).get("metadata") or {}).get("labels") or {}
        self.cached = summary(self.stored) if self.stored is not None and TRAIN_JOB_LABEL in labels else None

    @rule(kill_after=st.one_of(st.none(), st.integers(1, 4)))
    def reconcile(self, kill_after: int | None) -> None:
        self.left = kill_after
        try:
            for _ in range(8):
                acted = self.act()
                if not (self.write_status() or acted):
                    break
        except ConflictError:
            pass
        except KilledError:
            # The next leader adopts and lists before it writes; it does not know what was not recorded.
            if self.created is not None and self.stored is None:
                self.excuse(self.created)
            self.created = None
            if self.stored is not None:
                self.change({"metadata": {"labels": {TRAIN_JOB_LABEL: "job"}}})
            self.watch()
        finally:
            self.left = None

    def act(self) -> bool:
        found: Body | None = None
        read: Body | None = None
        absent = False
        observed = self.observe(found, read, absent=absent)
        if lifecycle.needs_confirmation(observed):
            found, absent = (summary(self.stored), False) if self.stored is not None else (None, True)
            observed = self.observe(found, read, absent=absent)
        if lifecycle.needs_stored_job_set(observed) and self.stored is not None:
            read = self.stored
            self.cached = summary(self.stored)
            observed = self.observe(found, read, absent=absent)
        if absent:
            self.patch_status(observed.desired_status)
            return False
        if lifecycle.required_build(observed) is not None:
            inputs = Inputs(parse(TrainJob, self.job), runtime_of(self.image))
            observed = self.observe(found, read, absent=absent, inputs=inputs)
        return self.execute(lifecycle.decide(observed))

    def observe(
        self, found: Body | None, read: Body | None, *, absent: bool, inputs: Inputs | None = None
    ) -> ObservedJob:
        job_set = self.cached or found
        same = read is not None and job_set is not None and read["metadata"]["uid"] == job_set["metadata"]["uid"]
        return ObservedJob(self.job, NOW, job_set, read if same else None, absent, (), inputs, created=self.created)

    def execute(self, action: Action) -> bool:
        match action:
            case actions.Suspend(job_set, patch) | actions.Adopt(job_set, patch):
                self.patch(job_set, patch)
            case actions.Create(objects):
                self.create(next(body for body in objects if body["kind"] == "JobSet"))
            case actions.Resume():
                self.patch(action.job_set, action.patch)
            case actions.Recreate(job_set, reason):
                uid = job_set["metadata"]["uid"]
                if self.record != {"uid": uid, "remake": reason}:
                    self.patch_status(statuses.with_recreation(self.job.get("status") or {}, uid, reason))
                self.delete(job_set)
            case actions.Finish():
                if action.delete_job_set and self.stored is not None:
                    self.stored = None
            case _:
                return False
        return not isinstance(action, actions.Finish)

    def create(self, rendered: Body) -> None:
        if self.stored is not None and self.stored["metadata"].get("deletionTimestamp"):
            if self.record.get("uid") != self.stored["metadata"]["uid"]:
                self.patch_status(self.observe(summary(self.stored), None, absent=False).desired_status)
            raise ConflictError
        if self.stored is not None:
            self.cached = summary(self.stored)
            return
        assert self.made_again_for_a_reason, f"{self.made[-1]} is followed by another JobSet without a recorded reason"
        uid = f"job-set-{len(self.made)}"
        owner = {
            "apiVersion": self.job["apiVersion"],
            "kind": "TrainJob",
            "name": "job",
            "uid": JOB_UID,
            "controller": True,
        }
        body = as_created(rendered, self.job)
        self.version += 1
        metadata = {**body["metadata"], "uid": uid, "resourceVersion": str(self.version), "ownerReferences": [owner]}
        self.stored = {**body, "metadata": metadata, "spec": {"suspend": False, **body["spec"]}}
        self.cached = summary(self.stored)
        self.made.append(uid)
        self.created = uid
        self.wrote()

    def patch(self, job_set: Body, patch: Body) -> None:
        self.require(job_set["metadata"]["uid"], patch["metadata"].get("resourceVersion"))
        self.change(patch)
        assert self.stored is not None
        self.cached = summary(self.stored)
        self.wrote()

    def delete(self, job_set: Body) -> None:
        self.require(job_set["metadata"]["uid"], job_set["metadata"]["resourceVersion"])
        assert self.stored is not None
        assert self.stored["spec"]["suspend"], "a running JobSet is never recreated"
        assert not statuses.ended(self.stored), "a JobSet that ended is never recreated"
        self.stored = None
        self.wrote()

    def require(self, uid: str, version: str | None) -> None:
        """Check the preconditions of a write."""
        metadata = (self.stored or {}).get("metadata") or {}
        if metadata.get("uid") != uid or version not in (None, metadata.get("resourceVersion")):
            raise ConflictError

    def write_status(self) -> bool:
        before = statuses.finished(self.job)
        self.patch_status(self.observe(None, None, absent=False).desired_status)
        return not before and statuses.finished(self.job)

    def patch_status(self, desired: Body) -> None:
        stored = self.job.get("status") or {}
        patch = statuses.status_patch(stored, desired)
        if not patch:
            return
        ends = {entry["type"]: entry for entry in stored.get("conditions") or () if entry["type"] != "Suspended"}
        self.job = {**self.job, "status": merged(stored, patch)}
        for kind, entry in ends.items():
            assert statuses.condition(self.job, kind) == entry, "an end never changes"
        if self.record.get("uid") == self.created:
            self.created = None
        self.wrote()

    def wrote(self) -> None:
        """Count a write of the process; the last one kills it."""
        if self.left is not None:
            self.left -= 1
            if self.left == 0:
                raise KilledError

    def change(self, patch: Body) -> None:
        """Merge a patch into the stored JobSet."""
        assert self.stored is not None
        self.version += 1
        body = merged(self.stored, patch)
        self.stored = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}

    # What holds

    @property
    def record(self) -> Body:
        return (self.job.get("status") or {}).get("jobSet") or {}

    @property
    def goes_on(self) -> bool:
        return self.stored is not None and not statuses.ended(self.stored)

    @property
    def made_again_for_a_reason(self) -> bool:
        last = self.made[-1] if self.made else None
        named = self.record.get("remake") is not None and self.record.get("uid") == last
        return last is None or last in self.excused or named

    @invariant()
    def a_finished_job_has_no_running_job_set_that_is_new(self) -> None:
        if statuses.finished(self.job) and self.stored is not None:
            assert self.stored["metadata"]["uid"] == self.made[-1]

    def teardown(self) -> None:
        """Once nothing else happens, JobSet and TrainJob agree."""
        if self.stored is not None and self.stored["metadata"].get("deletionTimestamp"):
            self.delete_job_set("watch, reconcile")
        for _ in range(4):
            if self.stored is not None and self.goes_on and self.stored["spec"]["suspend"]:
                self.start_or_stop_pods("")
            self.watch()
            self.reconcile(None)
        self.watch()
        if statuses.finished(self.job):
            return
        assert self.stored is not None, "a job without an end has a JobSet"
        assert not statuses.ended(self.stored), "the end of a JobSet is recorded"
        assert bool(self.stored["spec"]["suspend"]) == self.job["spec"]["suspend"]
        assert bool(statuses.condition(self.job, "Suspended", "True")) == self.job["spec"]["suspend"]


def test_random_histories_keep_the_invariants() -> None:
    run_state_machine_as_test(TrainJobHistory, settings=settings(max_examples=30, stateful_step_count=40))


@pytest.mark.slow
def test_more_random_histories_keep_the_invariants() -> None:
    run_state_machine_as_test(TrainJobHistory, settings=settings(max_examples=400, stateful_step_count=40))
