"""decide() over all combinations of what can be observed: the properties that hold in every one, and rows to read."""

from __future__ import annotations

import copy
import datetime
import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import orjson
import pytest

from tests.controller.harness import runtime, train_job
from trainyard.api import ClusterTrainingRuntime, TrainJob, parse
from trainyard.checks.finding import Finding
from trainyard.controller import actions
from trainyard.controller.actions import Inputs
from trainyard.controller.job_ownership import TRAIN_JOB_LABEL
from trainyard.controller.job_sets import FROZEN_DIGEST, TTL_ANNOTATION, as_created, summary
from trainyard.controller.lifecycle import (
    ObservedJob,
    decide,
    needs_confirmation,
    needs_search,
    needs_stored_job_set,
    required_build,
)
from trainyard.controller.status import condition, finished
from trainyard.jobs.render.pipeline import render
from trainyard.jobs.render.result import RenderContext, Rendered
from trainyard.kube.training_kinds import POD_GROUPS

Body = dict[str, Any]
NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
JOB_UID, JOB_SET_UID = "job-uid", "job-set-uid"
COUNTS = {"name": "node", "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 1}


def condition_of(kind: str, reason: str) -> Body:
    when = "2026-01-01T11:00:00Z"
    return {"type": kind, "status": "True", "reason": reason, "message": "m", "lastTransitionTime": when}


RECORDS: dict[str, Body] = {
    "nothing": {},
    "recorded": {"jobSet": {"uid": JOB_SET_UID}},
    "remake": {"jobSet": {"uid": JOB_SET_UID, "remake": "why"}},
    "another": {"jobSet": {"uid": "former-uid"}},
    "counts": {"jobsStatus": [COUNTS]},
}
ENDS: dict[str, list[Body]] = {
    "open": [],
    "complete": [condition_of("Complete", "AllJobsCompleted")],
    "overdue": [condition_of("Failed", "DeadlineExceeded")],
    "missing": [condition_of("Failed", "JobSetMissing")],
}
JOB_SETS: dict[str, Body | None] = {
    "none": None,
    "running": {},
    "with pods": {"active": 1},
    "suspended": {"suspend": True},
    "suspended with pods": {"suspend": True, "active": 1},
    "ended": {"ended": "Completed"},
    "suspended and ended": {"suspend": True, "ended": "Completed", "digest": "another"},
    "leaving": {"leaving": True},
    "of upstream": {"label": False, "ttl": 60},
    "of upstream, suspended": {"label": False, "suspend": True, "digest": None},
    "frozen differently": {"suspend": True, "digest": "another"},
    "frozen differently, with pods": {"suspend": True, "digest": "another", "active": 2},
    "frozen differently, not suspended yet": {"suspend": True, "digest": "another", "reported": False},
}
GIVEN = ("not asked", "rendered", "blocked")


def job_of(record: str, end: str, *, suspend: bool) -> Body:
    body = train_job(suspend=suspend)
    body["metadata"] |= {"uid": JOB_UID, "creationTimestamp": "2026-01-01T10:00:00Z", "resourceVersion": "1"}
    status = {**RECORDS[record], **({"conditions": ENDS[end]} if ENDS[end] else {})}
    return {**body, **({"status": status} if status else {})}


@cache
def rendered_job_set(job: bytes) -> bytes:
    result = render(parse(TrainJob, orjson.loads(job)), parse(ClusterTrainingRuntime, runtime()), RenderContext())
    assert isinstance(result, Rendered)
    return orjson.dumps(next(one for one in result.objects if one["kind"] == "JobSet"))


def stored_job_set(job: Body, state: Body) -> Body:
    body = as_created(orjson.loads(rendered_job_set(orjson.dumps(job))), job)
    body["metadata"] |= {"uid": JOB_SET_UID, "resourceVersion": "7"}
    body["spec"] = {**body["spec"], "suspend": bool(state.get("suspend"))}
    if "digest" in state:
        body["metadata"]["annotations"] = {FROZEN_DIGEST: state["digest"]} if state["digest"] else {}
    if not state.get("label", True):
        body["metadata"]["labels"] = {}
    if "ttl" in state:
        body["spec"]["ttlSecondsAfterFinished"] = state["ttl"]
    if state.get("leaving"):
        body["metadata"]["deletionTimestamp"] = "2026-01-01T11:59:00Z"
    counts = {**COUNTS, "active": state.get("active", 0)}
    body["status"] = {"replicatedJobsStatus": [counts]} if state.get("reported", True) else {}
    if state.get("suspend") and state.get("reported", True):
        body["status"]["conditions"] = [condition_of("Suspended", "SuspendedJobs")]
    if "ended" in state:
        body["status"].setdefault("conditions", []).append(condition_of(state["ended"], "Why"))
    return body


def observed(
    record: str = "nothing",
    end: str = "open",
    job_set: str = "none",
    given: str = "not asked",
    *,
    suspend: bool = False,
    confirmed: bool = False,
    gang: bool = True,
    created: str | None = None,
    read: bool = True,
) -> ObservedJob:
    job = job_of(record, end, suspend=suspend)
    state = JOB_SETS[job_set]
    whole = None if state is None else stored_job_set(job, state)
    inputs = {
        "not asked": None,
        "blocked": Inputs(findings=(Finding("spec.runtimeRef", "gone"),)),
        "rendered": Inputs(parse(TrainJob, job), parse(ClusterTrainingRuntime, runtime()), context=RenderContext()),
    }[given]
    groups = ((POD_GROUPS, {"metadata": {"name": "job", "namespace": "team", "uid": "g"}}),) if gang else ()
    kept = None if whole is None else summary(whole)
    stored = whole if read else None
    return ObservedJob(job, NOW, kept, stored, confirmed, groups, inputs, created=created)


@cache
def everything() -> tuple[ObservedJob, ...]:
    return tuple(combinations())


def combinations() -> Iterator[ObservedJob]:
    flags = (False, True)
    for record, end, job_set, given, suspend, confirmed, gang in itertools.product(
        RECORDS, ENDS, JOB_SETS, GIVEN, flags, flags, flags
    ):
        if confirmed and JOB_SETS[job_set] is not None:
            continue
        each = observed(record, end, job_set, given, suspend=suspend, confirmed=confirmed, gang=gang)
        yield each
        if each.job_set is not None:
            yield replace(each, stored=None)
            yield replace(each, record_supported=False)
        if record in ("nothing", "remake"):
            yield replace(each, created=JOB_SET_UID)


def test_there_are_thousands_of_combinations() -> None:
    assert len(everything()) > 2_000


def test_a_running_job_set_of_a_suspended_job_is_always_suspended() -> None:
    seen = 0
    for each in everything():
        job_set = each.job_set
        if finished(each.train_job) or job_set is None or job_set["metadata"].get("deletionTimestamp"):
            continue
        if each.suspended and not job_set["spec"]["suspend"] and not condition(job_set, "Completed"):
            assert decide(each) == actions.Suspend(
                job_set, {"metadata": {"uid": JOB_SET_UID}, "spec": {"suspend": True}}
            )
            seen += 1
    assert seen > 50


def test_what_ended_is_only_cleaned_up() -> None:
    for each in everything():
        if finished(each.train_job):
            assert isinstance(decide(each), actions.Finish | actions.Nothing)
            assert required_build(each) is None
            assert each.desired_status["conditions"] == each.train_job["status"]["conditions"] or each.suspended


def test_a_job_set_is_created_only_where_none_was_recorded_or_a_recreation_is() -> None:
    for each in everything():
        action = decide(each)
        if isinstance(action, actions.Create) and not action.restore:
            status = each.train_job.get("status") or {}
            record = status.get("jobSet") or {}
            assert each.job_set is None
            assert each.created is None
            assert record.get("remake") or (not record and not status.get("jobsStatus"))


def test_a_recorded_job_set_that_is_gone_for_certain_fails_the_job_and_never_before_that() -> None:
    for each in everything():
        status = each.train_job.get("status") or {}
        marked = bool(status.get("jobsStatus")) or "uid" in (status.get("jobSet") or {})
        remade = "remake" in (status.get("jobSet") or {})
        marked = (marked and not remade) or each.created is not None
        lost = each.job_set is None and marked and not finished(each.train_job)
        failed = condition({"status": each.desired_status}, "Failed")
        if not finished(each.train_job) and is_stale_create(each):
            assert (failed is not None) == (each.stored is not None)
            assert failed is None or failed["reason"] == "JobSetMissing"
        elif lost and each.confirmed_absent:
            assert failed is not None
            assert failed["reason"] == "JobSetMissing"
        elif not finished(each.train_job):
            assert failed is None
        assert needs_confirmation(each) == (lost and not each.confirmed_absent)


def test_a_job_set_is_deleted_only_to_be_recreated_without_pods_after_the_deadline_or_if_it_outlives_its_job() -> None:
    seen = set()
    for each in everything():
        action = decide(each)
        if isinstance(action, actions.Recreate):
            recorded = "remake" in ((each.train_job.get("status") or {}).get("jobSet") or {})
            assert each.job_set is not None
            assert action.job_set is each.stored
            assert each.job_set["spec"]["suspend"]
            assert not condition(each.job_set, "Completed")
            counts = each.job_set["status"]["replicatedJobsStatus"]
            assert recorded or (each.record_supported and not any(entry["active"] for entry in counts))
            assert recorded or condition(each.job_set, "Suspended")
            seen.add("remake")
        if isinstance(action, actions.Finish) and action.delete_job_set:
            failed = condition(each.train_job, "Failed")
            overdue = failed is not None and failed["reason"] == "DeadlineExceeded"
            assert finished(each.train_job)
            assert overdue or not condition(each.job_set or {}, "Completed")
            seen.add("deadline" if overdue else "goes on")
    assert seen == {"remake", "deadline", "goes on"}


def is_stale_create(each: ObservedJob) -> bool:
    """Whether the JobSet is ours and another than the recorded or created one, so that this one is gone."""
    record = (each.train_job.get("status") or {}).get("jobSet") or {}
    known = None if "remake" in record else record.get("uid")
    ours = each.job_set is not None and FROZEN_DIGEST in each.job_set["metadata"]["annotations"]
    return ours and (known or each.created) not in (None, JOB_SET_UID)


def test_a_job_set_in_the_place_of_the_recorded_one_is_only_suspended_until_its_job_has_failed() -> None:
    seen = 0
    for each in everything():
        if is_stale_create(each) and not finished(each.train_job):
            assert isinstance(decide(each), actions.Suspend | actions.Nothing)
            assert needs_stored_job_set(each) == (each.stored is None)
            assert each.desired_status.get("jobSet") == {"uid": "former-uid"}
            seen += 1
    assert seen > 50


def test_a_job_set_of_a_finished_job_that_goes_on_is_read_and_deleted() -> None:
    seen = 0
    for each in everything():
        job_set = each.job_set
        if not finished(each.train_job) or job_set is None or job_set["metadata"].get("deletionTimestamp"):
            continue
        action = decide(each)
        deleted = isinstance(action, actions.Finish) and action.delete_job_set
        overdue = condition(each.train_job, "Failed", "True") or {}
        if overdue.get("reason") == "DeadlineExceeded":
            assert deleted
        elif condition(job_set, "Completed"):
            assert not deleted
        else:
            assert deleted == (each.stored is not None)
            assert needs_stored_job_set(each) == (each.stored is None)
            seen += 1
    assert seen > 50


def test_the_record_of_a_finished_job_never_changes() -> None:
    for each in everything():
        if finished(each.train_job):
            assert each.desired_status.get("jobSet") == each.train_job["status"].get("jobSet")


def test_the_job_set_is_read_before_it_is_resumed_or_deleted_to_be_recreated() -> None:
    seen = 0
    for each in everything():
        action = decide(each)
        if isinstance(action, actions.Resume | actions.Recreate):
            assert needs_stored_job_set(replace(each, stored=None))
            assert not needs_stored_job_set(each)
            seen += 1
    assert seen > 50


def test_the_record_of_a_recreation_is_kept_only_while_its_job_set_is_suspended() -> None:
    for each in everything():
        record = each.desired_status.get("jobSet") or {}
        if each.job_set is not None and record.get("remake") and not finished(each.train_job):
            assert each.job_set["spec"]["suspend"]
            assert not condition(each.job_set, "Completed")


def test_objects_without_the_label_are_searched_only_after_the_end() -> None:
    for each in everything():
        if needs_search(each):
            assert finished(each.train_job)
            assert each.job_set is None or not each.pod_groups


def test_nothing_is_rendered_for_a_job_that_runs_or_is_held_back() -> None:
    for each in everything():
        job_set = each.job_set
        if job_set is not None and (each.suspended or (not job_set["spec"]["suspend"] and each.pod_groups)):
            assert required_build(each) is None


def test_every_patch_and_delete_is_of_one_incarnation() -> None:
    for each in everything():
        match decide(each):
            case actions.Suspend(_, patch) | actions.Adopt(_, patch):
                assert patch["metadata"]["uid"] == JOB_SET_UID
            case actions.Resume() as action:
                assert action.patch["metadata"]["uid"] == JOB_SET_UID
                assert action.patch["metadata"]["resourceVersion"] == "7"
            case actions.Finish() as action:
                assert action.patch is None or action.patch["metadata"]["uid"] == JOB_SET_UID


@pytest.mark.parametrize(
    ("given", "action"),
    [
        (observed(), actions.Nothing),
        (observed(given="rendered"), actions.Create),
        (observed(given="rendered", suspend=True), actions.Create),
        (observed(given="blocked"), actions.ReportErrors),
        (observed("recorded", job_set="running"), actions.Nothing),
        (observed("recorded", job_set="running", suspend=True), actions.Suspend),
        (observed("recorded", job_set="with pods", suspend=True, given="blocked"), actions.Suspend),
        (observed("recorded", job_set="suspended", suspend=True), actions.Nothing),
        (observed("recorded", job_set="suspended", given="rendered"), actions.Resume),
        (observed("recorded", job_set="suspended", given="blocked"), actions.ReportErrors),
        (observed("recorded", job_set="frozen differently", given="rendered"), actions.Recreate),
        (observed("recorded", job_set="frozen differently, with pods", given="rendered"), actions.Resume),
        (observed("recorded", job_set="frozen differently", given="rendered", read=False), actions.Nothing),
        (observed("recorded", job_set="frozen differently, not suspended yet", given="rendered"), actions.ReportErrors),
        (observed("recorded", job_set="suspended and ended", given="rendered"), actions.Nothing),
        (observed("remake", job_set="suspended"), actions.Recreate),
        (observed("remake", job_set="suspended", suspend=True), actions.Recreate),
        (observed("remake", job_set="suspended", read=False), actions.Nothing),
        (observed("remake", job_set="ended"), actions.Nothing),
        (observed("remake", job_set="suspended and ended"), actions.Nothing),
        (observed("remake", job_set="running"), actions.Nothing),
        (observed("remake", job_set="running", suspend=True), actions.Suspend),
        (observed("remake", given="rendered"), actions.Create),
        (observed("recorded", given="rendered"), actions.Nothing),
        (observed("nothing", given="rendered", created=JOB_SET_UID), actions.Nothing),
        (observed("recorded", job_set="leaving", suspend=True), actions.Nothing),
        (observed("counts", job_set="of upstream"), actions.Adopt),
        (observed("counts", job_set="of upstream", suspend=True), actions.Suspend),
        (observed("counts", job_set="of upstream, suspended", suspend=True), actions.Adopt),
        (observed("recorded", job_set="running", gang=False, given="rendered"), actions.Create),
        (observed("recorded", "complete", "ended"), actions.Finish),
        (observed("recorded", "complete", "ended", gang=False), actions.Nothing),
        (observed("recorded", "overdue", "running", gang=False), actions.Finish),
        (observed("another", "complete", "running", gang=False), actions.Finish),
        (observed("recorded", "missing", "suspended", gang=False), actions.Finish),
        (observed("another", "complete", "running", gang=False, read=False), actions.Nothing),
        (observed("another", "complete", "leaving", gang=False), actions.Nothing),
        (observed("another", job_set="running"), actions.Nothing),
        (observed("another", job_set="running", suspend=True), actions.Suspend),
    ],
)
def test_rows_to_read(given: ObservedJob, action: type) -> None:
    assert type(decide(given)) is action


def test_a_job_of_another_controller_and_one_that_is_going_away_are_left_alone() -> None:
    each = observed("recorded", job_set="running", suspend=True)
    for change in ({"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}}, {"metadata": {"deletionTimestamp": "now"}}):
        job = {name: {**each.train_job[name], **change.get(name, {})} for name in ("metadata", "spec", "status")}
        assert decide(ObservedJob(job, NOW, each.job_set)) == actions.Nothing()


@pytest.mark.parametrize(
    ("finalizers", "managed_by", "job_set", "stops"),
    [
        (["example.com/hold"], None, "running", True),
        (["foregroundDeletion", "example.com/hold"], None, "running", True),
        # The garbage collector deletes the JobSet, or the platform hands it over.
        (["foregroundDeletion"], None, "running", False),
        (["orphan", "example.com/hold"], None, "running", False),
        ([], None, "running", False),
        (["example.com/hold"], "kueue.x-k8s.io/multikueue", "running", False),
        (["example.com/hold"], None, "suspended", False),
        (["example.com/hold"], None, "leaving", False),
        (["example.com/hold"], None, "none", False),
    ],
)
def test_a_deleted_job_that_a_finalizer_keeps_stops(
    finalizers: list[str], managed_by: str | None, job_set: str, stops: bool
) -> None:
    each = observed("recorded", job_set=job_set)
    job = copy.deepcopy(each.train_job)
    job["metadata"] |= {"deletionTimestamp": "now", "finalizers": finalizers}
    if managed_by is not None:
        job["spec"]["managedBy"] = managed_by
    action = decide(ObservedJob(job, NOW, each.job_set))
    assert type(action) is (actions.Suspend if stops else actions.Nothing)


def test_the_time_to_live_waits_in_an_annotation_until_the_end_is_recorded() -> None:
    body = runtime()
    body["spec"]["template"]["spec"]["ttlSecondsAfterFinished"] = 60
    job = job_of("recorded", "complete", suspend=False)
    result = render(parse(TrainJob, job), parse(ClusterTrainingRuntime, body), RenderContext())
    assert isinstance(result, Rendered)
    created = as_created(next(one for one in result.objects if one["kind"] == "JobSet"), job)
    assert "ttlSecondsAfterFinished" not in created["spec"]
    assert created["metadata"]["annotations"][TTL_ANNOTATION] == "60"
    assert created["metadata"]["labels"][TRAIN_JOB_LABEL] == "job"
    created["metadata"]["uid"] = JOB_SET_UID
    created["status"] = {"conditions": [condition_of("Completed", "AllJobsCompleted")]}
    action = decide(ObservedJob(job, NOW, summary(created)))
    assert isinstance(action, actions.Finish)
    assert action.patch == {"metadata": {"uid": JOB_SET_UID}, "spec": {"ttlSecondsAfterFinished": 60}}
