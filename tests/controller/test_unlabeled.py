"""Objects of a job that lost the label of the watch are found by their name and owner when the job ends."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.controller.harness import (
    CLUSTER_RUNTIMES,
    CONFIG_MAPS,
    JOB_SETS,
    POD_GROUPS,
    TRAIN_JOBS,
    Clock,
    Controller,
    change,
    conditions,
    controller,
    existing,
    job_set,
    job_set_status,
    refusing,
    runtime,
    settled,
    train_job,
)
from tests.kube.fake_api import FakeApi, error, eventually, serving
from trainyard.controller.job_sets import summary
from trainyard.controller.observation import Observer, ReconcileAttempt
from trainyard.kube.client import Client

KEY = ("team", "job")


@asynccontextmanager
async def running_job(
    api: FakeApi, clock: Clock | None = None, *, gang: bool = True, **spec: Any
) -> AsyncIterator[Controller]:
    """Yield a controller that has created the JobSet of a TrainJob."""
    api.put(CLUSTER_RUNTIMES, runtime(gang=gang))
    api.put(TRAIN_JOBS, train_job(**spec))
    async with settled(api, clock) as process:
        yield process


async def let_the_deadline_pass(process: Controller, clock: Clock) -> None:
    clock.now += datetime.timedelta(seconds=100)
    process.manager.queue.add(KEY)
    await eventually(lambda: process.api.find("jobsets", "job", "team") is None)


def unlabel(api: FakeApi, path: str, plural: str) -> None:
    """Remove the labels of an object: watches by label report it as deleted."""
    body = existing(api, plural, "job", "team")
    api.put(path, {**body, "metadata": {**body["metadata"], "labels": {}}})


no_patch_of_job_sets = refusing("PATCH", "/jobsets/", 403, "Forbidden", "admission webhook denied the request")


def end(api: FakeApi) -> None:
    change(api, JOB_SETS, "jobsets", "job", status=job_set_status("Failed", "FailedJobs", "over"))


async def test_a_job_set_that_cannot_be_adopted_is_deleted_at_the_deadline(api: FakeApi) -> None:
    clock = Clock()
    async with running_job(api, clock, activeDeadlineSeconds=60) as process:
        api.fault = no_patch_of_job_sets
        unlabel(api, JOB_SETS, "jobsets")
        await let_the_deadline_pass(process, clock)
        assert conditions(api)["Failed"] == ("True", "DeadlineExceeded")


async def test_the_deletion_is_retried_until_it_succeeds(api: FakeApi) -> None:
    failures = [error(500, "InternalError", "etcdserver: leader changed") for _ in range(2)]

    def reject(fake: FakeApi, request: web.Request) -> web.StreamResponse | None:
        if request.method == "DELETE" and "/jobsets/" in request.path and failures:
            return failures.pop()
        return no_patch_of_job_sets(fake, request)

    clock = Clock()
    async with running_job(api, clock, activeDeadlineSeconds=60) as process:
        api.fault = reject
        unlabel(api, JOB_SETS, "jobsets")
        await let_the_deadline_pass(process, clock)
        assert not failures


async def test_the_pod_group_of_a_suspended_job_is_deleted_at_the_end(api: FakeApi) -> None:
    async with running_job(api) as process:
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": True})
        await process.settle()
        unlabel(api, POD_GROUPS, "podgroups")
        await process.settle()
        end(api)
        await eventually(lambda: api.find("podgroups", "job", "team") is None)


async def test_the_pod_group_of_a_job_whose_job_set_is_missing_is_deleted(api: FakeApi) -> None:
    async with running_job(api):
        api.remove(JOB_SETS, "team", "job")
        unlabel(api, POD_GROUPS, "podgroups")
        await eventually(lambda: "Failed" in conditions(api))
        await eventually(lambda: api.find("podgroups", "job", "team") is None)


async def test_a_pod_group_of_another_owner_is_kept(api: FakeApi) -> None:
    async with running_job(api) as process:
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": True})
        await process.settle()
        api.remove(POD_GROUPS, "team", "job")
        api.put(POD_GROUPS, {"metadata": {"name": "job", "namespace": "team"}, "spec": {"minMember": 1}})
        end(api)
        await process.settle()
        assert "Failed" in conditions(api)
        assert api.find("podgroups", "job", "team") is not None


async def test_an_ordinary_end_reads_nothing(api: FakeApi) -> None:
    for gang in (True, False):
        async with running_job(api, gang=gang) as process:
            api.requests.clear()
            end(api)
            await eventually(lambda: "Failed" in conditions(api))
            await process.settle()
            for _ in range(3):
                process.manager.queue.add(KEY)
                await process.settle()
            read = [path for method, path in api.requests if method == "GET" and "/namespaces/team/" in path]
            assert read == []
        api.remove(TRAIN_JOBS, "team", "job")


async def test_the_job_set_is_deleted_if_the_answer_to_the_end_was_lost(api: FakeApi) -> None:
    lost: list[str] = []

    def lose(fake: FakeApi, request: web.Request) -> web.StreamResponse | None:
        if request.method == "PATCH" and request.path.endswith("/trainjobs/job/status") and not lost:
            lost.append(request.path)
            assert request.transport is not None
            body = existing(fake, "trainjobs", "job", "team")
            failed = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "late"}
            fake.put(TRAIN_JOBS, {**body, "status": {**body["status"], "conditions": [failed]}})
            request.transport.close()
        return no_patch_of_job_sets(fake, request)

    clock = Clock()
    async with running_job(api, clock, activeDeadlineSeconds=60) as process:
        api.fault = lose
        unlabel(api, JOB_SETS, "jobsets")
        await process.settle()
        await let_the_deadline_pass(process, clock)
        assert lost
        await process.settle()
        assert process.reconciler._ending == {}


async def test_a_job_set_that_lost_its_label_leaves_the_cache_when_it_is_read(api: FakeApi) -> None:
    """No watch reports its deletion: it would stay in the cache."""
    async with running_job(api) as process:
        api.freeze_watches(JOB_SETS)
        body = job_set(api)
        api.put(JOB_SETS, {**body, "metadata": {**body["metadata"], "labels": {}}, "spec": {**body["spec"], "x": 1}})
        step = ReconcileAttempt(process.cache.train_jobs.store.get(*KEY) or {})
        observer = Observer(process.client, process.cache, Clock())
        await observer.read_job_set(step)
        assert process.cache.job_sets.store.keys() == []
        observed = observer.observe(step, record_supported=True, created=None)
        assert observed.stored is not None
        assert observed.job_set == summary(observed.stored)


async def test_a_job_set_that_is_being_deleted_is_created_again_when_it_is_gone(api: FakeApi) -> None:
    """Without its label, the cache lacks a JobSet that finalizers still keep."""
    async with running_job(api, gang=False):
        pass
    body = api.find("jobsets", "job", "team")
    stored = api.find("trainjobs", "job", "team")
    assert body is not None
    assert stored is not None
    metadata = {**body["metadata"], "labels": {}, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    api.put(JOB_SETS, {**body, "metadata": metadata})
    recreated = {"jobSet": {"uid": body["metadata"]["uid"], "remake": "frozen"}}
    api.put(TRAIN_JOBS, {**stored, "status": recreated})
    async with controller(api) as process:
        await eventually(lambda: sum(method == "POST" and "/jobsets" in path for method, path in api.requests) > 2)
        assert api.of("trainjobs")[0]["status"] == recreated
        api.remove(JOB_SETS, "team", "job")
        await eventually(lambda: api.find("jobsets", "job", "team"))
        await process.settle()
        assert "Failed" not in conditions(api)
        assert api.of("trainjobs")[0]["status"]["jobSet"]["uid"] != body["metadata"]["uid"]


async def test_a_job_whose_label_is_removed_on_admission_is_recorded_suspended_reported_and_has_its_end(
    api: FakeApi,
) -> None:
    api.job_set_webhook.removes_label = True
    async with running_job(api, gang=False) as process:
        uid = api.of("jobsets")[0]["metadata"]["uid"]
        await eventually(lambda: (api.of("trainjobs")[0].get("status") or {}).get("jobSet") == {"uid": uid})
        await eventually(process.manager.blocked)
        await process.events.flush()
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": True})
        await eventually(lambda: api.of("jobsets")[0]["spec"]["suspend"])
        before = len(api.requests)
        end(api)
        await eventually(lambda: "Failed" in conditions(api))
        assert len(api.requests) - before < 20
    assert "trainyard.dev/train-job of JobSet job is removed on admission" in api.of("events")[0]["message"]


class Hanging(FakeApi):
    """Volcano's webhook does not answer, and clients give up early."""

    hangs = False

    def client(self, **options: Any) -> Client:
        return super().client(timeout=0.5, **options)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.hangs and request.method == "POST" and "/podgroups" in request.path:
            await asyncio.sleep(10)
        return await super().handle(request)


async def test_a_webhook_that_hangs_does_not_keep_a_job_without_label_and_record_from_being_stopped() -> None:
    """As a JobSet of another controller whose label was rejected when the leader started."""
    async with serving(Hanging()) as api:
        async with running_job(api):
            pass
        api.put(TRAIN_JOBS, {name: value for name, value in api.of("trainjobs")[0].items() if name != "status"})
        for path, name in ((CONFIG_MAPS, "job-runtime-snapshot"), (POD_GROUPS, "job")):
            api.remove(path, "team", name)
        unlabel(api, JOB_SETS, "jobsets")
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": True})
        rejections = [error(403, "Forbidden", "not yet")]

        def once(fake: FakeApi, request: web.Request) -> web.StreamResponse | None:
            adopts = request.method == "PATCH" and "/jobsets/" in request.path
            return rejections.pop() if adopts and rejections else None

        api.fault, api.hangs = once, True
        async with controller(api):
            await eventually(lambda: api.of("jobsets")[0]["spec"]["suspend"], within=15)
        assert not rejections
