from __future__ import annotations

import asyncio
import datetime
import json
from typing import Any

import pytest

from tests.controller.harness import (
    CLUSTER_RUNTIMES,
    CONFIG_MAPS,
    JOB_SETS,
    POD_GROUPS,
    POLICIES,
    TRAIN_JOBS,
    Clock,
    Controller,
    change,
    conditions,
    controller,
    existing,
    job_set_status,
    reconciled,
    runtime,
    settled,
    submit,
    train_job,
)
from tests.kube.fake_api import FakeApi, error, eventually

JOB_SET = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets/job"
POD_GROUP = "/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups/job"
STATUS = ("PATCH", "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/job/status")
CREATES = [
    ("POST", "/api/v1/namespaces/team/configmaps"),
    ("POST", POD_GROUP.removesuffix("/job")),
    ("POST", JOB_SET.removesuffix("/job")),
    STATUS,
]


def messages(api: FakeApi) -> list[str]:
    return [event["message"] for event in api.of("events")]


async def test_a_train_job_becomes_snapshot_pod_group_and_job_set_and_is_recorded(api: FakeApi) -> None:
    job = submit(api)
    await reconciled(api)
    assert api.writes == CREATES
    for plural, name in (("configmaps", "job-runtime-snapshot"), ("podgroups", "job"), ("jobsets", "job")):
        body = existing(api, plural, name, "team")
        [owner] = body["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("TrainJob", job["metadata"]["uid"], True)
        if plural != "configmaps":
            assert body["metadata"]["labels"]["trainyard.dev/train-job"] == "job"
    assert conditions(api) == {}
    assert not messages(api)


async def test_at_the_fixpoint_nothing_is_written_not_even_by_a_new_process(api: FakeApi) -> None:
    submit(api)
    async with settled(api) as process:
        process.manager.queue.add(("team", "job"))
        await process.settle()
    await reconciled(api)
    assert api.writes == CREATES


@pytest.mark.slow
@pytest.mark.parametrize("suspend", [False, True])
@pytest.mark.parametrize("answered", [False, True])
async def test_killed_after_any_write_a_new_process_reaches_the_same_fixpoint(
    api: FakeApi, suspend: bool, answered: bool
) -> None:
    def fixpoint() -> list[Any]:
        kept = []
        for body in (*api.of("configmaps"), *api.of("podgroups"), *api.of("jobsets"), *api.of("trainjobs")):
            plain = json.loads(json.dumps(body))
            for field in ("resourceVersion", "generation"):
                plain["metadata"].pop(field, None)  # a ConfigMap has no generation
            kept.append(json.loads(json.dumps(plain).replace(plain["metadata"]["uid"], "uid")))
            for owner in kept[-1]["metadata"].get("ownerReferences", ()):
                owner["uid"] = "owner"
            if "jobSet" in kept[-1].get("status", {}):
                assert kept[-1]["status"]["jobSet"] == {"uid": api.of("jobsets")[0]["metadata"]["uid"]}
                kept[-1]["status"]["jobSet"] = "recorded"
        return kept

    async def life(kill_after: int | None) -> list[Any]:
        while api.objects:
            api.remove(*next(iter(api.objects)))
        submit(api, suspend=suspend)
        process = Controller(api, Clock())
        if kill_after is not None:
            count = len(api.writes) + kill_after
            dead = asyncio.Event()

            def crash(fake: FakeApi) -> None:
                if len(fake.writes) == count:
                    dead.set()
                    fake.fault = lambda fake, request: (
                        error(503, "ServiceUnavailable", "") if request.method != "GET" else None
                    )
                    if not answered:
                        raise ConnectionResetError

            api.after_write = crash
            await process.start()
            await dead.wait()
            await process.kill()
            api.after_write, api.fault = None, None
            process = Controller(api, Clock())
        await process.start()
        await process.settle()
        await process.kill()
        return fixpoint()

    whole = await life(None)
    for after in range(1, 5):
        assert await life(after) == whole


async def test_a_job_set_that_is_deleted_before_it_is_recorded_is_missing_and_not_created_again(api: FakeApi) -> None:
    submit(api)
    async with controller(api, record_seconds=60.0) as process:
        await eventually(lambda: api.find("jobsets", "job", "team") is not None)
        await process.settle()
        assert "status" not in api.of("trainjobs")[0]
        api.remove(JOB_SETS, "team", "job")
        await process.settle()
        assert conditions(api) == {"Failed": ("True", "JobSetMissing")}
        assert api.find("jobsets", "job", "team") is None


async def test_the_record_goes_with_the_first_status_that_is_written_anyway(api: FakeApi) -> None:
    submit(api)
    async with settled(api, record_seconds=60.0) as process:
        counts = {"name": "node", "ready": 0, "succeeded": 0, "failed": 0, "active": 2, "suspended": 0}
        change(api, JOB_SETS, "jobsets", "job", status={"replicatedJobsStatus": [counts]})
        await process.settle()
        [job_set] = api.of("jobsets")
        assert api.of("trainjobs")[0]["status"] == {
            "jobsStatus": [counts],
            "jobSet": {"uid": job_set["metadata"]["uid"]},
        }
        assert api.writes == CREATES


@pytest.mark.parametrize("step", [datetime.timedelta(minutes=11), datetime.timedelta(hours=-1)], ids=["on", "back"])
async def test_records_are_kept_again_after_the_definition_that_prunes_them_was_replaced(
    api: FakeApi, step: datetime.timedelta
) -> None:
    clock = Clock()
    api.server.pruned["trainjobs"] = {"jobSet"}
    submit(api)
    async with settled(api, clock) as process:
        assert "jobSet" not in api.of("trainjobs")[0].get("status", {})
        writes = len(api.writes)
        process.manager.queue.add(("team", "job"))
        await process.settle()
        assert len(api.writes) == writes, "what is pruned is not written at every look"
        api.server.pruned.clear()
        clock.now += step
        process.manager.queue.add(("team", "job"))
        await process.settle()
        assert api.of("trainjobs")[0]["status"]["jobSet"] == {"uid": api.of("jobsets")[0]["metadata"]["uid"]}


async def test_a_suspended_job_is_made_suspended_and_resumes(api: FakeApi) -> None:
    clock = Clock()
    submit(api, suspend=True)
    async with settled(api, clock) as process:
        assert api.find("jobsets", "job", "team")["spec"]["suspend"] is True  # type: ignore[index]
        assert conditions(api) == {"Suspended": ("True", "Suspended")}
        writes = len(api.writes)
        change(api, JOB_SETS, "jobsets", "job", status={"restarts": 0})
        await process.settle()
        assert len(api.writes) == writes
        api.put(CLUSTER_RUNTIMES, runtime(image="image:2"))
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": False})
        await process.settle()
    job_set = existing(api, "jobsets", "job", "team")
    assert job_set["spec"]["suspend"] is False
    assert "image:1" in json.dumps(job_set)
    assert conditions(api) == {"Suspended": ("False", "Resumed")}


async def test_a_suspended_job_keeps_its_pod_group(api: FakeApi) -> None:
    submit(api)
    async with settled(api) as process:
        before = existing(api, "podgroups", "job", "team")
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": True})
        await process.settle()
    assert api.find("jobsets", "job", "team")["spec"]["suspend"] is True  # type: ignore[index]
    assert api.find("podgroups", "job", "team") == before


async def test_a_job_whose_pods_kueue_counts_of_a_changed_runtime_is_not_resumed(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    body = train_job(suspend=True)
    body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
    api.put(TRAIN_JOBS, body)
    smaller = json.loads(json.dumps(runtime()).replace('"nvidia.com/gpu": 8', '"nvidia.com/gpu": 1'))
    async with settled(api) as process:
        api.put(CLUSTER_RUNTIMES, smaller)
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": False})
        await process.settle()
    assert api.find("jobsets", "job", "team")["spec"]["suspend"] is True  # type: ignore[index]


@pytest.mark.parametrize(
    ("theirs", "ours", "reason"), [("Completed", "Complete", "AllJobsCompleted"), ("Failed", "Failed", "FailedJobs")]
)
async def test_the_end_of_the_job_set_is_the_end_of_the_job_and_nothing_runs_again(
    api: FakeApi, theirs: str, ours: str, reason: str
) -> None:
    submit(api)
    async with settled(api) as process:
        change(api, JOB_SETS, "jobsets", "job", status=job_set_status(theirs, reason, "over"))
        await process.settle()
        job = existing(api, "trainjobs", "job", "team")
        [condition] = job["status"]["conditions"]
        assert condition == {
            "type": ours,
            "status": "True",
            "reason": reason,
            "message": "over",
            "lastTransitionTime": "2026-01-01T00:05:00Z",
        }
        assert job["status"]["jobsStatus"] == [
            {"name": "node", "ready": 0, "succeeded": 1, "failed": 0, "active": 0, "suspended": 0}
        ]
        api.remove(JOB_SETS, "team", "job")
        await process.settle()
    await reconciled(api)
    assert api.find("jobsets", "job", "team") is None
    assert api.writes == [*CREATES, STATUS, ("DELETE", POD_GROUP)]


async def test_counts_that_change_in_quick_succession_are_written_together(api: FakeApi) -> None:
    submit(api)
    async with settled(api) as process:
        for active in range(1, 6):
            counts = {"name": "node", "ready": 0, "succeeded": 0, "failed": 0, "active": active, "suspended": 0}
            change(api, JOB_SETS, "jobsets", "job", status={"replicatedJobsStatus": [counts]})
        await process.settle()
    assert api.writes == [*CREATES, STATUS]
    assert api.find("trainjobs", "job", "team")["status"]["jobsStatus"][0]["active"] == 5  # type: ignore[index]


async def test_a_job_past_its_deadline_fails_and_its_job_set_goes(api: FakeApi) -> None:
    clock = Clock()
    submit(api, activeDeadlineSeconds=60)
    async with settled(api, clock) as process:
        assert process.manager.queue.delayed == 1
        clock.now += datetime.timedelta(seconds=60)
        process.manager.queue.add(("team", "job"))
        await eventually(lambda: api.find("jobsets", "job", "team") is None)
        await process.settle()
    assert conditions(api) == {"Failed": ("True", "DeadlineExceeded")}
    assert api.writes[-3:] == [STATUS, ("DELETE", JOB_SET), ("DELETE", POD_GROUP)]


async def test_a_job_set_left_over_by_a_crash_at_the_deadline_is_deleted(api: FakeApi) -> None:
    clock = Clock()
    submit(api, activeDeadlineSeconds=60)
    await reconciled(api, clock)
    failed = {
        "type": "Failed",
        "status": "True",
        "reason": "DeadlineExceeded",
        "message": "m",
        "lastTransitionTime": "2026-01-01T00:01:00Z",
    }
    change(api, TRAIN_JOBS, "trainjobs", "job", status={"conditions": [failed]})
    async with controller(api, clock):
        await eventually(lambda: api.find("jobsets", "job", "team") is None)


@pytest.mark.parametrize(("path", "kind"), [(JOB_SETS, "JobSet"), (POD_GROUPS, "PodGroup")])
async def test_a_foreign_object_is_rejected_until_it_is_deleted(api: FakeApi, path: str, kind: str) -> None:
    foreign = {
        "apiVersion": "x/v1",
        "kind": kind,
        "metadata": {"name": "job", "namespace": "team"},
        "spec": {"mine": 1},
    }
    stored = api.put(path, foreign)
    submit(api)
    async with settled(api) as process:
        assert api.objects[path, "team", "job"] == stored
        assert api.find("jobsets", "job", "team") in (None, stored)
        [message] = messages(api)
        assert f"{kind} job exists and has no owner, so this TrainJob cannot use it" in message
        assert conditions(api) == {"Blocked": ("True", "TrainJobResourcesCreationFailed")}
        api.remove(path, "team", "job")
        await eventually(lambda: api.find("jobsets", "job", "team"))
        await process.settle()
        assert conditions(api) == {}


async def test_a_foreign_snapshot_is_rejected(api: FakeApi) -> None:
    stored = api.put(
        CONFIG_MAPS,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "job-runtime-snapshot", "namespace": "team"},
            "data": {"runtime": "{}"},
        },
    )
    submit(api)
    await reconciled(api)
    assert api.find("configmaps", "job-runtime-snapshot", "team") == stored
    assert api.find("jobsets", "job", "team") is None
    assert "owned by another object" in messages(api)[0]


async def test_a_missing_runtime_is_reported_and_waited_for(api: FakeApi) -> None:
    api.put(TRAIN_JOBS, train_job())
    async with settled(api) as process:
        [event] = api.of("events")
        assert event["reason"] == "TrainJobResourcesCreationFailed"
        assert "'torch' does not exist" in event["message"]
        assert conditions(api) == {"Blocked": ("True", "TrainJobResourcesCreationFailed")}
        api.put(CLUSTER_RUNTIMES, runtime())
        await process.settle()
        assert conditions(api) == {}
    assert api.find("jobsets", "job", "team") is not None


async def test_a_bad_runtime_that_is_corrected_recovers(api: FakeApi) -> None:
    bad = runtime()
    bad["spec"]["template"]["spec"]["replicatedJobs"][0]["replicas"] = 3
    api.put(CLUSTER_RUNTIMES, bad)
    api.put(TRAIN_JOBS, train_job())
    async with settled(api) as process:
        assert sorted(api.writes) == [STATUS, ("POST", "/api/v1/namespaces/team/events")]
        api.put(CLUSTER_RUNTIMES, runtime())
        await process.settle()
    assert api.find("jobsets", "job", "team") is not None


async def test_a_job_of_another_controller_is_left_alone(api: FakeApi) -> None:
    submit(api, managedBy="kueue.x-k8s.io/multikueue")
    await reconciled(api)
    assert api.writes == []


async def test_a_kind_of_runtime_that_does_not_exist_fails_the_job(api: FakeApi) -> None:
    api.put(TRAIN_JOBS, train_job(runtimeRef={"name": "x", "kind": "Other"}))
    await reconciled(api)
    assert conditions(api) == {"Failed": ("True", "TrainingRuntimeNotSupported")}
    assert api.writes == [STATUS]


async def test_a_job_deleted_and_created_again_gets_new_objects(api: FakeApi) -> None:
    submit(api, gang=False)
    async with settled(api) as process:
        api.collects = False  # a collector that is slow
        api.remove(TRAIN_JOBS, "team", "job")
        second = api.put(TRAIN_JOBS, train_job())
        await process.settle()
        assert not api.of("events"), "objects that go by themselves need no event"
        for path, name in ((JOB_SETS, "job"), (CONFIG_MAPS, "job-runtime-snapshot")):
            api.remove(path, "team", name)
        await eventually(lambda: api.find("jobsets", "job", "team"), within=1.0)
    owner = api.find("jobsets", "job", "team")["metadata"]["ownerReferences"][0]  # type: ignore[index]
    assert owner["uid"] == second["metadata"]["uid"]


async def test_a_lost_pod_group_of_a_running_gang_is_recreated_and_the_job_set_left_alone(api: FakeApi) -> None:
    submit(api)
    async with settled(api) as process:
        before = api.find("jobsets", "job", "team")
        api.remove(POD_GROUPS, "team", "job")
        await process.settle()
    assert api.find("podgroups", "job", "team") is not None
    assert api.find("jobsets", "job", "team") == before


async def test_the_tenants_default_queue_is_used(api: FakeApi) -> None:
    policy = {
        "apiVersion": "trainyard.dev/v1alpha1",
        "kind": "TenantPolicy",
        "metadata": {"name": "tenant", "namespace": "team"},
        "spec": {"queues": ["research"], "defaultQueue": "research"},
    }
    api.put(POLICIES, policy)
    submit(api)
    await reconciled(api)
    assert api.find("podgroups", "job", "team")["spec"]["queue"] == "research"  # type: ignore[index]


@pytest.mark.slow
async def test_a_rejected_apply_is_reported_and_retried(api: FakeApi) -> None:
    submit(api)
    refusals = 2

    def refuse(fake: FakeApi, request: Any) -> Any:
        nonlocal refusals
        if "jobsets" in request.path and request.method == "POST" and refusals:
            refusals -= 1
            return error(422, "Invalid", "admission webhook says no")
        return None

    api.fault = refuse
    async with controller(api) as process:
        await eventually(lambda: api.find("jobsets", "job", "team"))
        await process.settle()
    assert "admission webhook says no" in messages(api)[0]


@pytest.mark.slow
async def test_kinds_that_appear_later_are_picked_up(api: FakeApi) -> None:
    api.unserved |= {"trainjobs", "clustertrainingruntimes", "jobsets", "podgroups"}
    async with controller(api) as process:
        assert process.cache.settled
        api.unserved.clear()
        submit(api)
        await eventually(lambda: api.find("jobsets", "job", "team"))


async def test_many_jobs_take_four_writes_each(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    async with controller(api) as process:
        for number in range(50):
            api.put(TRAIN_JOBS, train_job(f"job-{number}"))
        await process.settle()
    assert len(api.of("jobsets")) == 50
    assert len(api.writes) == 200
