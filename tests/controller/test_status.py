from __future__ import annotations

import datetime
from typing import Any

import pytest

from trainyard.controller import status

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
STAMP = "2026-01-01T12:00:00Z"


def job(*conditions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"metadata": {"name": "j", "creationTimestamp": "2026-01-01T10:00:00Z"}, "spec": spec}
    return body | ({"status": {"conditions": list(conditions)}} if conditions else {})


def entry(kind: str, value: str, reason: str = "R", when: str = "2026-01-01T11:00:00Z") -> dict[str, Any]:
    return {"type": kind, "status": value, "reason": reason, "message": "m", "lastTransitionTime": when}


def job_set_with(**observed: Any) -> dict[str, Any]:
    return {"metadata": {"uid": "job-set"}, "status": observed}


def types(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(condition["type"], condition["status"]) for condition in found.get("conditions", ())]


def test_a_job_that_was_never_suspended_has_no_condition() -> None:
    assert status.status_of(job(), None, now=NOW) == {}
    assert status.status_of(job(), job_set_with(), now=NOW) == {"jobSet": {"uid": "job-set"}}


def test_suspending_and_resuming_use_one_condition() -> None:
    suspended = status.status_of(job(suspend=True), None, now=NOW)
    assert suspended["conditions"] == [
        {
            "type": "Suspended",
            "status": "True",
            "reason": "Suspended",
            "message": "TrainJob is suspended",
            "lastTransitionTime": STAMP,
        }
    ]
    resumed = status.status_of(job(entry("Suspended", "True")), None, now=NOW)
    assert resumed["conditions"] == [
        {
            "type": "Suspended",
            "status": "False",
            "reason": "Resumed",
            "message": "TrainJob is resumed",
            "lastTransitionTime": STAMP,
        }
    ]


def test_a_condition_that_holds_already_keeps_its_time() -> None:
    before = job(entry("Suspended", "True", "Suspended"), suspend=True)
    found = status.status_of(before, None, now=NOW)
    assert found["conditions"][0]["lastTransitionTime"] == "2026-01-01T11:00:00Z"


@pytest.mark.parametrize(("theirs", "ours"), [("Completed", "Complete"), ("Failed", "Failed")])
def test_the_last_condition_is_the_state_that_is_printed(theirs: str, ours: str) -> None:
    job_set = job_set_with(conditions=[entry("Suspended", "False"), entry(theirs, "True", "Why")])
    found = status.status_of(job(entry("Suspended", "False")), job_set, now=NOW)
    assert types(found) == [("Suspended", "False"), (ours, "True")]
    assert found["conditions"][-1]["reason"] == "Why"
    assert found["conditions"][-1]["lastTransitionTime"] == "2026-01-01T11:00:00Z"


def test_a_finished_job_stays_as_it_ended() -> None:
    job_set = job_set_with(conditions=[entry("Failed", "True")])
    assert types(status.status_of(job(entry("Complete", "True")), job_set, now=NOW)) == [("Complete", "True")]
    assert types(status.status_of(job(entry("Failed", "True")), None, now=NOW)) == [("Failed", "True")]


def test_job_counts_are_copied_with_every_count() -> None:
    job_set = job_set_with(replicatedJobsStatus=[{"name": "node", "active": 2, "unknown": 1}])
    found = status.status_of(job(), job_set, now=NOW)
    assert found["jobsStatus"] == [
        {"name": "node", "ready": 0, "succeeded": 0, "failed": 0, "active": 2, "suspended": 0}
    ]


def test_what_others_wrote_into_the_status_is_kept() -> None:
    body = job() | {"status": {"trainerStatus": {"progressPercentage": 4}}}
    assert status.status_of(body, None, now=NOW) == {"trainerStatus": {"progressPercentage": 4}}


def test_the_deadline_counts_from_creation_or_the_last_resume_and_not_while_suspended() -> None:
    limited = job(activeDeadlineSeconds=60)
    assert status.deadline(limited, {}) == datetime.datetime(2026, 1, 1, 10, 1, tzinfo=datetime.UTC)
    resumed = {"conditions": [entry("Suspended", "False")]}
    assert status.deadline(limited, resumed) == datetime.datetime(2026, 1, 1, 11, 1, tzinfo=datetime.UTC)
    assert status.deadline(job(activeDeadlineSeconds=60, suspend=True), {}) is None
    assert status.deadline(limited, {"conditions": [entry("Complete", "True")]}) is None
    assert status.deadline(job(), {}) is None


@pytest.mark.parametrize("seconds", [2**31, 2**40, 2**62, 2**63 - 1])
def test_a_deadline_beyond_all_calendars_is_none(seconds: int) -> None:
    limited = job(activeDeadlineSeconds=seconds)
    due = status.deadline(limited, {})
    assert due is None or due.year > 2090
    assert types(status.status_of(limited, None, now=NOW)) == []


def test_a_job_set_is_recorded_and_one_that_is_lost_fails_the_job() -> None:
    recorded = job() | {"status": status.status_of(job(), job_set_with(), now=NOW)}
    assert status.awaits_job_set(recorded)
    assert types(status.status_of(recorded, None, now=NOW)) == [], "not seen is not gone"
    lost = status.status_of(recorded, None, now=NOW, missing=True)
    assert [(entry["type"], entry["reason"]) for entry in lost["conditions"]] == [("Failed", "JobSetMissing")]


def test_a_recorded_recreation_allows_one_more_job_set() -> None:
    recorded = {"jobSet": {"uid": "job-set"}}
    remade = job() | {"status": status.with_recreation(recorded, "job-set", "why")}
    assert not status.awaits_job_set(remade)
    held = job_set_with() | {"spec": {"suspend": True}}
    assert status.status_of(remade, held, now=NOW)["jobSet"] == {"uid": "job-set", "remake": "why"}
    over = held | {"status": {"conditions": [entry("Completed", "True")]}}
    for kept in (over, job_set_with() | {"spec": {"suspend": False}}):
        assert status.status_of(remade, kept, now=NOW)["jobSet"] == {"uid": "job-set"}, "it runs or ended"
    second = {"metadata": {"uid": "second"}, "status": {}}
    wanted = status.status_of(remade, second, now=NOW)
    assert wanted["jobSet"] == {"uid": "second"}
    assert status.status_patch(remade["status"], wanted) == {"jobSet": {"uid": "second", "remake": None}}


def test_counts_of_pods_stand_in_for_a_record_that_is_not_served() -> None:
    counts = [{"name": "node", "ready": 0, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}]
    assert status.awaits_job_set(job() | {"status": {"jobsStatus": counts}})
    assert not status.awaits_job_set(job())


def test_deadline_exceeded_fails_the_job_in_upstreams_words() -> None:
    assert types(status.status_of(job(activeDeadlineSeconds=7201), None, now=NOW)) == []
    found = status.status_of(job(activeDeadlineSeconds=7200), None, now=NOW)
    assert found["conditions"][0]["message"] == "TrainJob exceeded its active deadline"
    assert status.deadline_exceeded({"status": found})
    assert not status.deadline_exceeded({"status": {"conditions": [entry("Failed", "True")]}})


def test_what_training_code_reported_stays() -> None:
    reported = {"progressPercentage": 42, "lastUpdatedTime": STAMP}
    stored = {**job(suspend=True), "status": {"trainerStatus": reported}}
    wanted = status.status_of(stored, None, now=NOW)
    assert wanted["trainerStatus"] == reported
    assert "trainerStatus" not in status.status_patch(stored["status"], wanted)


@pytest.mark.parametrize("mark", [{"jobSet": {"uid": "job-set"}}, {"jobSet": {"uid": "job-set", "remake": "why"}}])
def test_a_job_with_a_job_set_does_not_fail_by_a_runtime_of_an_unknown_kind(mark: dict[str, Any]) -> None:
    """A newer version created it; this one was rolled back to."""
    new = job(runtimeRef={"name": "x", "kind": "NodeRuntime"})
    assert types(status.status_of(new, job_set_with(), now=NOW)) == []
    assert types(status.status_of(new | {"status": mark}, None, now=NOW)) == []
    assert types(status.status_of(new, None, now=NOW)) == [("Failed", "True")]


def test_the_counts_of_more_jobs_than_the_schema_admits_are_cut() -> None:
    observed = [{"name": f"job-{number}", "active": 1} for number in range(121)]
    found = status.status_of(job(), job_set_with(replicatedJobsStatus=observed), now=NOW)
    assert [entry["name"] for entry in found["jobsStatus"]] == [f"job-{number}" for number in range(100)]


RUNNING = {"replicatedJobsStatus": [{"name": "node", "active": 1}]}


def state_column(found: dict[str, Any]) -> str:
    """Return what `kubectl get trainjobs` prints as STATE: `.status.conditions[-1:].type`."""
    return next((entry["type"] for entry in (found.get("conditions") or [])[-1:]), "")


def sdk_state(found: dict[str, Any], *, pods_run: bool) -> str:
    """Return the state that the Kubeflow SDK derives: conditions in their order, or its pods if there are none."""
    shown = "Created"
    if found.get("conditions"):
        for each in found["conditions"]:
            if each["type"] in ("Complete", "Failed") and each["status"] == "True":
                shown = each["type"]
        return shown
    return "Running" if pods_run else shown


def stored(body: dict[str, Any], desired: dict[str, Any]) -> dict[str, Any]:
    """Return a TrainJob after the merge patch of its status."""
    patch = status.status_patch(body.get("status") or {}, desired)
    merged = {**(body.get("status") or {}), **patch}
    return {**body, "status": {name: value for name, value in merged.items() if value is not None}}


@pytest.mark.parametrize("limit", [{}, {"activeDeadlineSeconds": 7200}])
def test_a_resumed_job_is_running_for_kubectl_and_the_sdk(limit: dict[str, Any]) -> None:
    body = stored(job(entry("Suspended", "True"), **limit), {})
    body = stored(body, status.status_of(body, job_set_with() | {"spec": {"suspend": True}}, now=NOW))
    assert types(body["status"]) == [("Suspended", "False")], "it has no pods yet, as upstream says"
    later = NOW + datetime.timedelta(minutes=5)
    for _ in range(3):
        body = stored(body, status.status_of(body, job_set_with(**RUNNING), now=later))
    assert body["status"]["jobSet"] == {"uid": "job-set", "resumed": STAMP}
    assert (state_column(body["status"]), sdk_state(body["status"], pods_run=True)) == ("", "Running")
    assert status.status_patch(body["status"], status.status_of(body, job_set_with(**RUNNING), now=later)) == {}
    if limit:
        assert status.deadline(body, body["status"]) == NOW + datetime.timedelta(hours=2)


def test_a_deadline_counts_from_the_resume_where_its_record_is_not_stored() -> None:
    body = job(entry("Suspended", "False", when=STAMP), activeDeadlineSeconds=60)
    for _ in range(2):
        found = status.status_of(body, job_set_with(**RUNNING), now=NOW)
        body = stored(body, {name: value for name, value in found.items() if name != "jobSet"})
    assert types(body["status"]) == [("Suspended", "False")]
    assert status.deadline(body, body["status"]) == NOW + datetime.timedelta(minutes=1)


def test_a_job_that_is_suspended_again_says_so() -> None:
    body = job(suspend=True) | {"status": {"jobSet": {"uid": "job-set", "resumed": STAMP}}}
    found = status.status_of(body, job_set_with(**RUNNING), now=NOW)
    assert (types(found), state_column(found)) == ([("Suspended", "True")], "Suspended")
    assert status.deadline(body, found) is None


@pytest.mark.parametrize("suspended", [True, False])
@pytest.mark.parametrize("end", ["Complete", "Failed"])
def test_the_end_is_the_state_that_is_printed(end: str, *, suspended: bool) -> None:
    body = job(entry(end, "True"), suspend=suspended)
    found = status.status_of(body, job_set_with(**RUNNING), now=NOW)
    assert (state_column(found), sdk_state(found, pods_run=False)) == (end, end)
    first = job(entry("Suspended", "True"), entry(end, "True"), suspend=suspended)
    assert state_column(status.status_of(first, None, now=NOW)) == end


def test_a_recreated_job_set_keeps_the_time_of_the_resume() -> None:
    record = {"jobSet": {"uid": "job-set", "resumed": STAMP}}
    remade = status.with_recreation(record, "job-set", "why")
    assert remade["jobSet"] == {"uid": "job-set", "remake": "why", "resumed": STAMP}
    second = {"metadata": {"uid": "second"}, "status": {}}
    found = status.status_of(job() | {"status": remade}, second, now=NOW)
    assert found["jobSet"] == {"uid": "second", "resumed": STAMP}
