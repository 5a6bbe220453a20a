"""Blocked TrainJobs: events, metrics and retries; the status is updated nevertheless."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

import pytest
from aiohttp import web

from tests.controller.harness import (
    CLUSTER_RUNTIMES,
    JOB_SETS,
    POLICIES,
    TRAIN_JOBS,
    TRAINER,
    Clock,
    Controller,
    change,
    conditions,
    controller,
    refusing,
    runtime,
    settled,
    submit,
    train_job,
)
from tests.controller.test_policy import NAMESPACES, Decisions, gate
from tests.kube.fake_api import FakeApi, error, eventually
from trainyard.controller import reconcile

KEY = ("team", "job")
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def messages(api: FakeApi) -> list[str]:
    return [event["message"] for event in api.of("events")]


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        (400, "BadRequest", "strict decoding error"),
        (403, "Forbidden", "exceeded quota: objects"),
        (413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728"),
        (422, "Invalid", "admission webhook says no"),
        (500, "InternalError", "etcdserver: request is too large"),
        (500, "InternalError", 'failed calling webhook "jobset"'),
    ],
)
@pytest.mark.parametrize("plural", ["configmaps", "podgroups", "jobsets"])
async def test_a_rejection_of_any_object_is_reported_counted_and_retried(
    api: FakeApi, plural: str, status: int, reason: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "_RETRY_SECONDS", (0.05, 60.0))
    submit(api, suspend=True)
    api.fault = refusing("POST", f"/{plural}", status, reason, message)
    async with controller(api) as process:
        await eventually(lambda: any(message in each for each in messages(api)))
        await eventually(process.manager.blocked)
        [(count, _)] = process.manager.blocked().values()
        assert count == 1
        # An error that is retried at once, such as that of a webhook which does not respond, blocks nothing.
        lasting = {} if 'webhook "' in message else {"Blocked": ("True", "TrainJobResourcesCreationFailed")}
        suspended = {"Suspended": ("True", "Suspended")}
        assert conditions(api) == suspended | lasting, "the status is written whatever is refused"
        api.fault = None
        await eventually(lambda: api.find("jobsets", "job", "team"))
        await process.settle()
        assert process.manager.blocked() == {}
        assert conditions(api) == suspended


@pytest.mark.parametrize("plural", ["podgroups", "jobsets"])
async def test_a_field_that_an_old_definition_lacks_is_not_dropped(
    api: FakeApi, plural: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without dependsOn, a step would start before the one that it waits for (jobset#893)."""
    monkeypatch.setattr(reconcile, "_RETRY_SECONDS", (0.05, 60.0))
    lacks = 'strict decoding error: unknown field "spec.replicatedJobs[1].dependsOn"'

    def refuse(_: FakeApi, request: web.Request) -> web.StreamResponse | None:
        strict = request.method == "POST" and request.query.get("fieldValidation") == "Strict"
        return error(400, "BadRequest", lacks) if strict and plural in request.path else None

    submit(api)
    api.fault = refuse
    async with controller(api) as process:
        await eventually(lambda: any(lacks in each for each in messages(api)))
        await eventually(lambda: "Blocked" in conditions(api))
        assert any("upgrade its CustomResourceDefinition" in each for each in messages(api))
        assert api.find("jobsets", "job", "team") is None
        api.fault = None
        await eventually(lambda: api.find("jobsets", "job", "team"))
        await process.settle()
        assert "Blocked" not in conditions(api)


async def test_a_blocked_resume_counts_its_deadline_from_the_resume(api: FakeApi) -> None:
    clock = Clock()
    submit(api, suspend=True, activeDeadlineSeconds=60)
    api.fault = refusing("POST", "/jobsets", 500, "InternalError", "failed calling webhook")
    async with controller(api, clock) as process:
        await eventually(lambda: "Suspended" in conditions(api))
        clock.now += datetime.timedelta(hours=1)
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": False})
        await eventually(lambda: conditions(api).get("Suspended") == ("False", "Resumed"))
        api.fault = None
        await eventually(lambda: api.find("jobsets", "job", "team"))
        await process.settle()
        assert "Failed" not in conditions(api)
        clock.now += datetime.timedelta(seconds=61)
        process.manager.queue.add(KEY)
        await eventually(lambda: conditions(api).get("Failed") == ("True", "DeadlineExceeded"))


async def test_the_retry_delay_grows_to_a_minute(api: FakeApi) -> None:
    api.put(TRAIN_JOBS, train_job())
    async with settled(api) as process:
        reconciler = process.manager._reconciler
        waits = [(await reconciler.reconcile(KEY)).requeue_after for _ in range(20)]
        assert all(wait is not None and wait <= 60 for wait in waits)
        assert max(wait or 0 for wait in waits) > 25
        assert len(messages(api)) == 1, "the same message is recorded once a minute"


async def test_the_message_is_recorded_again_although_the_clock_was_set_back(api: FakeApi) -> None:
    clock = Clock()
    api.put(TRAIN_JOBS, train_job())
    async with settled(api, clock) as process:
        assert [event["count"] for event in api.of("events")] == [1]
        clock.now -= datetime.timedelta(hours=1)
        for _ in range(2):
            await process.reconciler.reconcile(KEY)
        await process.events.flush()
        assert [event["count"] for event in api.of("events")] == [2]


def namespaced_runtime(name: str) -> dict[str, Any]:
    return {**runtime(name), "kind": "TrainingRuntime", "metadata": {"name": name, "namespace": "team"}}


def priority_class(name: str) -> dict[str, Any]:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 1}


def tenant_policy(namespace: str) -> dict[str, Any]:
    kind = {"apiVersion": "trainyard.dev/v1alpha1", "kind": "TenantPolicy"}
    return {**kind, "metadata": {"name": "tenant", "namespace": namespace}, "spec": {"defaultQueue": "vision"}}


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": name}}}


INPUTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "ClusterTrainingRuntime": (CLUSTER_RUNTIMES, runtime("one"), "cluster"),
    "TrainingRuntime": (f"{TRAINER}/trainingruntimes", namespaced_runtime("one"), "namespaced"),
    "PriorityClass": (PRIORITY_CLASSES, priority_class("a"), "class"),
    "PriorityClass that every message offers": (PRIORITY_CLASSES, priority_class("standard"), ""),
    "PriorityClass without jobs": (PRIORITY_CLASSES, priority_class("job"), ""),
    "TenantPolicy": (POLICIES, tenant_policy("elsewhere"), "elsewhere"),
    "Namespace": (NAMESPACES, namespace("elsewhere"), "elsewhere"),
}
"""A change of an input of rendering, and the job that it concerns."""


@pytest.mark.parametrize("kind", INPUTS)
async def test_a_change_of_an_input_reaches_only_the_jobs_that_it_concerns(api: FakeApi, kind: str) -> None:
    api.put(PRIORITY_CLASSES, priority_class("standard"))
    for name in ("a", "ab"):
        with_class = runtime(f"with-{name}")
        replicated_job = with_class["spec"]["template"]["spec"]["replicatedJobs"][0]
        replicated_job["template"]["spec"]["template"]["spec"]["priorityClassName"] = name
        api.put(CLUSTER_RUNTIMES, with_class)
    api.put(TRAIN_JOBS, train_job("cluster", runtimeRef={"name": "one"}))
    api.put(TRAIN_JOBS, train_job("namespaced", runtimeRef={"name": "one", "kind": "TrainingRuntime"}))
    api.put(TRAIN_JOBS, train_job("class", runtimeRef={"name": "with-a"}))
    api.put(TRAIN_JOBS, train_job("other-class", runtimeRef={"name": "with-ab"}))
    job = train_job("elsewhere", runtimeRef={"name": "two"})
    api.put(TRAIN_JOBS, {**job, "metadata": {"name": "elsewhere", "namespace": "elsewhere"}})
    path, body, concerned = INPUTS[kind]
    async with settled(api, gate=gate(Decisions())) as process:
        assert process.manager.blocked() == {"TrainJobResourcesCreationFailed": (5, pytest.approx(0, abs=1e9))}
        added: list[Any] = []
        process.manager.queue.add = lambda key, **_: added.append(key) is None  # type: ignore[method-assign, assignment]
        api.put(path, body)
        await eventually(process._current)
        assert {name for _, name in added} == ({concerned} if concerned else set())


async def test_nothing_is_queued_by_a_process_that_does_not_lead(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    process = Controller(api, Clock())
    tasks = [asyncio.create_task(informer.run()) for informer in process.cache.informers]
    await process.cache.wait_settled()
    for number in range(20):
        api.put(TRAIN_JOBS, train_job(f"job-{number}"))
    await eventually(lambda: len(process.cache.train_jobs.store) == 20)
    assert len(process.manager.queue) == 0
    assert process.manager.queue.delayed == 0
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await process.client.close()
    assert api.writes == []


def kept(process: Controller) -> list[Any]:
    """Return everything that a process keeps by TrainJob and by runtime."""
    reconciler, queue = process.manager._reconciler, process.manager.queue
    by_job = reconciler._failure_events._last, reconciler._backoffs, reconciler._ending, reconciler._unrecorded._created
    return [*filter(None, (process.manager.blocked(), *by_job, process.cache._parsed, queue.delayed, len(queue)))]


async def test_no_state_is_kept_of_deleted_jobs(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime("other"))
    api.put(TRAIN_JOBS, train_job())
    api.put(TRAIN_JOBS, train_job("made", runtimeRef={"name": "other"}))
    async with settled(api, record_seconds=60) as process:
        reconciler = process.manager._reconciler
        assert process.manager.blocked()
        assert reconciler._failure_events._last
        assert reconciler._backoffs
        assert reconciler._unrecorded._created
        assert process.cache._parsed
        reconciler.search_by_name([KEY, ("team", "made")])
        api.remove(TRAIN_JOBS, "team", "job")
        api.remove(TRAIN_JOBS, "team", "made")
        api.remove(CLUSTER_RUNTIMES, "", "other")
        await eventually(lambda: not kept(process), within=3)


@pytest.mark.parametrize("plural", ["configmaps", "podgroups", "jobsets"])
async def test_no_state_is_kept_of_a_job_that_is_deleted_while_it_is_created(api: FakeApi, plural: str) -> None:
    """The deletion reaches the process before the response to its write."""
    async with controller(api, record_seconds=60) as process:

        def deleting(fake: FakeApi, request: Any) -> Any:
            if request.method == "POST" and f"/{plural}" in request.path and fake.find("trainjobs", "job", "team"):
                fake.remove(TRAIN_JOBS, "team", "job")
            return None

        api.fault = deleting
        api.put(CLUSTER_RUNTIMES, runtime())
        await process.settle()
        api.put(TRAIN_JOBS, train_job())
        await eventually(lambda: any(f"/{plural}" in path for _, path in api.writes))
        api.remove(CLUSTER_RUNTIMES, "", "torch")
        await eventually(lambda: not kept(process), within=3)


async def test_no_version_of_a_runtime_is_kept_beside_the_present_one(api: FakeApi) -> None:
    async with controller(api) as process:
        for number in range(3):
            api.put(CLUSTER_RUNTIMES, runtime(image=f"image:{number}"))
            await process.settle()
            api.put(TRAIN_JOBS, train_job(f"job-{number}"))
            await process.settle()
        assert len(process.cache._parsed) == 1


async def test_reports_of_progress_are_no_work(api: FakeApi) -> None:
    submit(api)
    async with settled(api) as process:
        before = process.metrics.text().decode()
        change(api, TRAIN_JOBS, "trainjobs", "job", status={"trainerStatus": {"progressPercentage": 4}})
        await process.settle()
        counted = [line for line in before.splitlines() if line.startswith("workqueue_adds_total")]
        after = process.metrics.text().decode().splitlines()
        assert [line for line in after if line.startswith("workqueue_adds_total")] == counted


async def test_a_job_set_that_cannot_be_stopped_is_reported_and_stopped_once_it_can(api: FakeApi) -> None:
    submit(api)
    async with settled(api):
        api.fault = refusing("PATCH", "/jobsets", 500, "InternalError", "failed calling webhook")
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": True})
        await eventually(lambda: conditions(api) == {"Suspended": ("True", "Suspended")})
        assert api.objects[JOB_SETS, "team", "job"]["spec"]["suspend"] is False
        api.fault = None
        await eventually(lambda: api.objects[JOB_SETS, "team", "job"]["spec"]["suspend"])


async def test_a_restart_with_many_jobs_leaves_the_loop_to_others_after_each_job(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is renewed, probes and webhooks are answered, however many jobs are looked at."""
    api.put(CLUSTER_RUNTIMES, runtime())
    for number in range(40):
        api.put(TRAIN_JOBS, train_job(f"job-{number}", suspend=True))
    turns = 0
    looked: list[int] = []

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with settled(api) as process:
        reconciler = process.manager._reconciler
        reconcile = reconciler.reconcile

        async def noted(key: tuple[str, str]) -> Any:
            looked.append(turns)
            return await reconcile(key)

        monkeypatch.setattr(reconciler, "reconcile", noted)
        task = asyncio.create_task(others())
        for key in list(process.cache.train_jobs.store.keys()):
            process.manager.queue.add(key)
        await eventually(lambda: len(looked) >= 40)
        task.cancel()
    workers = process.manager._workers
    assert max(looked.count(turn) for turn in looked) <= workers


@pytest.mark.slow
async def test_a_job_set_that_is_not_served_is_not_gone(api: FakeApi) -> None:
    """A version that is no longer served and a proxy answer 404 without saying that this JobSet does not exist."""
    submit(api)
    async with settled(api) as process:
        api.unserved.add("jobsets")
        api.cut_watches()
        await eventually(process.manager.blocked)
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": True})
        await eventually(lambda: "Suspended" in conditions(api))
        await process.events.flush()
        assert "Failed" not in conditions(api)
        assert api.of("podgroups")
        assert any("JobSet job of jobset.x-k8s.io/v1alpha2 cannot be read" in each for each in messages(api))
        api.unserved.clear()
        await eventually(lambda: api.of("jobsets")[0]["spec"]["suspend"])
        api.remove(JOB_SETS, "team", "job")
        await eventually(lambda: "Failed" in conditions(api))
    assert conditions(api)["Failed"] == ("True", "JobSetMissing")


async def test_a_snapshot_that_cannot_be_read_is_not_replaced_by_the_runtime(api: FakeApi) -> None:
    submit(api, gang=False, suspend=True)
    asked: list[str] = []

    def proxy(fake: FakeApi, request: web.Request) -> web.StreamResponse | None:
        if request.method == "GET" and "/configmaps/" in request.path:
            asked.append(request.path)
            return web.Response(status=404, text="default backend - 404")
        return None

    async with settled(api) as process:
        first = api.of("jobsets")[0]["metadata"]["uid"]
        api.put(CLUSTER_RUNTIMES, runtime(gang=False, image="image:2"))
        api.fault = proxy
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": False})
        await eventually(lambda: len(asked) > 1)
        api.fault = None
        await eventually(lambda: api.of("jobsets")[0]["spec"]["suspend"] is False)
        await process.settle()
    assert api.of("jobsets")[0]["metadata"]["uid"] == first


async def test_a_delete_that_is_not_served_is_repeated(api: FakeApi) -> None:
    submit(api, gang=False, activeDeadlineSeconds=60)
    clock = Clock()
    refused: list[str] = []

    def proxy(fake: FakeApi, request: web.Request) -> web.StreamResponse | None:
        if "/jobsets/" in request.path and len(refused) < 4:
            refused.append(request.method)
            return web.Response(status=404, text="404 page not found")
        return None

    async with settled(api, clock) as process:
        api.fault = proxy
        clock.now += datetime.timedelta(seconds=61)
        process.manager.queue.add(("team", "job"))
        await eventually(lambda: not api.of("jobsets"))
    assert refused.count("DELETE") > 1


async def test_a_status_that_is_rejected_is_reported(api: FakeApi) -> None:
    submit(api)
    api.fault = refusing("PATCH", "/trainjobs/job/status", 422, "Invalid", "Too many: 121: must have at most 100 items")
    async with controller(api) as process:
        await eventually(lambda: process.manager.blocked().get("TrainJobResourcesCreationFailed"))
        await process.events.flush()
        assert any("must have at most 100 items" in each for each in messages(api))
        api.fault = None
        await eventually(lambda: (api.of("trainjobs")[0].get("status") or {}).get("jobSet"))


async def test_a_rejected_status_does_not_hide_why_the_job_is_blocked(api: FakeApi) -> None:
    api.put(TRAIN_JOBS, train_job(suspend=True))
    api.fault = refusing("PATCH", "/trainjobs/job/status", 500, "InternalError", "etcd is away")
    async with controller(api) as process:
        await eventually(process.manager.blocked)
        await process.events.flush()
        assert any("ClusterTrainingRuntime 'torch' does not exist" in each for each in messages(api))
