from __future__ import annotations

import asyncio
import datetime
from typing import Any

import pytest
from aiohttp import web

from tests.controller.harness import (
    CLUSTER_RUNTIMES,
    CONFIG_MAPS,
    JOB_SETS,
    POD_GROUPS,
    TRAIN_JOBS,
    Clock,
    change,
    conditions,
    controller,
    existing,
    job_set,
    job_set_status,
    reconciled,
    refusing,
    runtime,
    settled,
    submit,
    train_job,
)
from tests.controller.test_recreation import SUSPENDED
from tests.kube.fake_api import FakeApi, error, eventually, serving
from trainyard.controller import adoption, cluster_cache
from trainyard.controller.adoption import PARALLEL, adopt
from trainyard.controller.cluster_cache import ClusterCache
from trainyard.controller.job_ownership import TRAIN_JOB_LABEL
from trainyard.kube.api_errors import FencedError
from trainyard.kube.backoff import Backoff
from trainyard.kube.client import Client

Body = dict[str, Any]
JOB = {"name": "job", "namespace": "team", "uid": "of-the-job"}
OWNER = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "name": "job",
    "uid": JOB["uid"],
    "controller": True,
}
OWNED = {"name": "job", "namespace": "team", "ownerReferences": [OWNER]}
"""Metadata of a JobSet that another controller made: it has no label."""
JOB_SET = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets/job"


async def made_by_another_version(api: FakeApi, **job_set_spec: Any) -> Body:
    """Let a TrainJob be created, then take off everything that tells its objects from those of upstream."""
    submit(api)
    await reconciled(api)
    for path, plural in ((JOB_SETS, "jobsets"), (POD_GROUPS, "podgroups")):
        body = existing(api, plural, "job", "team")
        metadata = {**body["metadata"], "labels": {}, "annotations": {}}
        spec = {**body["spec"], **(job_set_spec if plural == "jobsets" else {})}
        api.put(path, {**body, "metadata": metadata, "spec": spec})
    stored = existing(api, "trainjobs", "job", "team")
    api.put(TRAIN_JOBS, {**stored, "status": {}})
    api.writes.clear()
    found = job_set(api)
    return found


async def test_a_running_job_of_another_version_goes_on_and_its_end_is_recorded(api: FakeApi) -> None:
    before = await made_by_another_version(api, ttlSecondsAfterFinished=60)
    async with settled(api) as process:
        taken = job_set(api)
        assert taken["metadata"]["uid"] == before["metadata"]["uid"]
        assert taken["metadata"]["labels"][TRAIN_JOB_LABEL] == "job"
        assert "ttlSecondsAfterFinished" not in taken["spec"]
        assert taken["spec"]["replicatedJobs"] == before["spec"]["replicatedJobs"]
        assert not [write for write in api.writes if write[0] == "POST"], "nothing is created"
        change(api, JOB_SETS, "jobsets", "job", status=job_set_status("Completed", "AllJobsCompleted", "over"))
        await process.settle()
    assert conditions(api) == {"Complete": ("True", "AllJobsCompleted")}
    ended = job_set(api)
    assert ended["spec"]["ttlSecondsAfterFinished"] == 60


async def test_a_running_job_of_another_version_is_stopped_by_its_first_write_to_it(api: FakeApi) -> None:
    await made_by_another_version(api, ttlSecondsAfterFinished=60)
    change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": True})
    await reconciled(api)
    stopped = job_set(api)
    assert stopped["spec"]["suspend"] is True
    assert conditions(api) == {"Suspended": ("True", "Suspended")}


async def test_objects_of_others_are_listed_as_metadata_and_left_alone(api: FakeApi) -> None:
    others = {
        "alone": {},
        "of-a-job": {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "x", "controller": True}]},
        "labeled": {"labels": {TRAIN_JOB_LABEL: "job"}},
    }
    kept = []
    for name, metadata in others.items():
        poison = {"replicatedJobs": [{"name": "a", "template": {}}]}
        body = {"metadata": {"name": name, "namespace": "team", **metadata}, "spec": poison}
        kept.append(api.put(JOB_SETS, {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", **body}))
    async with settled(api) as process:
        assert process.cache.job_sets.store.keys() == [("team", "labeled")]
    assert api.writes == []
    for body in kept:
        assert api.find("jobsets", body["metadata"]["name"], "team") == body
    lists = [accept for path, accept in api.accepts if path.endswith("/jobsets")]
    assert any("PartialObjectMetadataList" in accept for accept in lists)


@pytest.mark.parametrize(
    ("status", "reason"),
    [(403, "Forbidden"), (429, "TooManyRequests"), (503, "ServiceUnavailable"), (504, "Timeout")],
)
async def test_a_label_that_is_rejected_does_not_block_other_adoptions(api: FakeApi, status: int, reason: str) -> None:
    await made_by_another_version(api)
    api.put(TRAIN_JOBS, train_job("second"))

    api.fault = refusing("PATCH", JOB_SET, status, reason, "admission webhook says no")
    async with controller(api) as process:
        await eventually(lambda: api.find("jobsets", "second", "team"))
        assert "Failed" not in conditions(api)
        api.fault = None
        await eventually(lambda: TRAIN_JOB_LABEL in api.find("jobsets", "job", "team")["metadata"]["labels"])  # type: ignore[index]
        await process.settle()
    assert len([body for body in api.of("jobsets") if body["metadata"]["name"] == "job"]) == 1


async def test_a_removed_label_is_restored_and_the_job_continues(api: FakeApi) -> None:
    submit(api)
    async with settled(api) as process:
        body = job_set(api)
        uid = body["metadata"]["uid"]
        api.put(JOB_SETS, {**body, "metadata": {**body["metadata"], "labels": {}}})
        await eventually(lambda: TRAIN_JOB_LABEL in api.find("jobsets", "job", "team")["metadata"]["labels"])  # type: ignore[index]
        await process.settle()
    body = job_set(api)
    assert body["metadata"]["uid"] == uid
    assert "Failed" not in conditions(api)


async def test_a_held_job_set_that_is_found_on_creating_is_adopted_and_resumes(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    job = {**train_job(), "metadata": JOB}
    async with controller(api) as process:
        api.put(
            JOB_SETS,
            {
                "apiVersion": "jobset.x-k8s.io/v1alpha2",
                "kind": "JobSet",
                "metadata": OWNED,
                "spec": {"suspend": True},
                "status": {"conditions": [SUSPENDED], "replicatedJobsStatus": [{"name": "node", "suspended": 1}]},
            },
        )
        api.put(TRAIN_JOBS, job)
        await process.settle()
        await eventually(
            lambda: (body := api.find("jobsets", "job", "team")) is not None and not body["spec"]["suspend"]
        )


async def test_a_job_set_without_the_label_is_stopped_and_its_end_recorded_while_the_snapshots_name_is_taken(
    api: FakeApi,
) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    job = {**train_job(), "metadata": JOB}
    foreign = {"kind": "ConfigMap", "metadata": {"name": "job-runtime-snapshot", "namespace": "team"}}
    async with controller(api) as process:
        api.put(CONFIG_MAPS, foreign)
        body = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": OWNED, "spec": {}}
        api.put(JOB_SETS, body)
        api.put(TRAIN_JOBS, {**job, "spec": {**job["spec"], "suspend": True}})
        await eventually(lambda: bool((api.find("jobsets", "job", "team") or {})["spec"].get("suspend")))
        change(api, JOB_SETS, "jobsets", "job", status=job_set_status("Completed", "AllJobsCompleted", "over"))
        await process.settle()
        assert conditions(api)["Complete"] == ("True", "AllJobsCompleted")
    assert api.find("configmaps", "job-runtime-snapshot", "team")["metadata"].get("ownerReferences") is None  # type: ignore[index]


@pytest.mark.parametrize(("status", "reason"), [(403, "Forbidden"), (422, "Invalid"), (500, "InternalError")])
async def test_a_job_set_without_the_label_is_stopped_while_creates_are_rejected(
    api: FakeApi, status: int, reason: str
) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    job = {**train_job(suspend=True), "metadata": JOB}
    api.fault = refusing("POST", "/jobsets", status, reason, "no JobSets")
    async with controller(api):
        body = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": OWNED, "spec": {}}
        api.put(JOB_SETS, body)
        api.put(TRAIN_JOBS, job)
        await eventually(lambda: bool((api.find("jobsets", "job", "team") or {})["spec"].get("suspend")))


@pytest.mark.parametrize(("status", "reason"), [(403, "Forbidden"), (429, "TooManyRequests"), (503, "Unavailable")])
async def test_objects_whose_label_is_rejected_are_deleted_after_the_deadline(
    api: FakeApi, status: int, reason: str
) -> None:
    """The last leader recorded the end and deleted nothing; the next one finds the objects by name."""
    rejections: list[str] = []

    def reject_delete(fake: FakeApi, request: Any) -> Any:
        return error(500, "InternalError", "no leader") if request.method == "DELETE" else None

    def reject_once(fake: FakeApi, request: Any) -> Any:
        if request.method != "PATCH" or not request.path.endswith(("/jobsets/job", "/podgroups/job")):
            return None
        if request.path in rejections:
            return None
        rejections.append(request.path)
        return error(status, reason, "not now")

    clock = Clock()
    submit(api, activeDeadlineSeconds=60)
    async with settled(api, clock) as process:
        api.fault = reject_delete
        clock.now += datetime.timedelta(seconds=100)
        process.manager.queue.add(("team", "job"))
        await eventually(lambda: conditions(api).get("Failed") == ("True", "DeadlineExceeded"))
    for path, plural in ((JOB_SETS, "jobsets"), (POD_GROUPS, "podgroups")):
        body = existing(api, plural, "job", "team")
        api.put(path, {**body, "metadata": {**body["metadata"], "labels": {}}})
    api.fault = reject_once
    async with controller(api, clock) as process:
        await eventually(lambda: not (api.of("jobsets") or api.of("podgroups")))
        await process.settle()
    assert len(rejections) == 2
    assert process.reconciler._ending == {}


async def test_a_label_that_a_webhook_takes_off_again_is_a_rejection(api: FakeApi) -> None:
    await made_by_another_version(api)

    client = api.client(patience=0)
    cache = ClusterCache(client)
    try:
        for informer in cache.train_jobs, cache.job_sets:
            await informer.refresh()

        def strip(fake: FakeApi, request: Any) -> Any:
            if request.method == "PATCH" and request.path == JOB_SET:
                return web.json_response(fake.find("jobsets", "job", "team"))
            return None

        api.fault = strip
        assert await adopt(client, cache) == {("team", "job")}
        assert cache.job_sets.store.keys() == []
    finally:
        await client.close()


class HangingApi(FakeApi):
    """An API server behind which a webhook of updates hangs longer than clients wait."""

    hangs = ""
    patches = peak = waiting = 0
    least = 0
    """Patches that are answered together, as soon as so many wait."""

    def client(self, **options: Any) -> Client:
        return super().client(**{"timeout": 0.3, **options})

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method == "PATCH" and self.hangs and self.hangs in request.path:
            self.patches += 1
            await asyncio.sleep(60)
        if request.method == "PATCH" and self.least and "/jobsets/" in request.path:
            self.waiting += 1
            self.peak = max(self.peak, self.waiting)
            await eventually(lambda: self.peak >= self.least)
            self.waiting -= 1
        return await super().handle(request)


def unlabeled_job_sets(api: FakeApi, count: int) -> set[tuple[str, str]]:
    """Store running JobSets of TrainJobs without the label; return the keys of the TrainJobs."""
    for number in range(count):
        name = f"job-{number}"
        job = api.put(TRAIN_JOBS, train_job(name))
        owner = {**OWNER, "name": name, "uid": job["metadata"]["uid"]}
        metadata = {"name": name, "namespace": "team", "ownerReferences": [owner]}
        body = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": {}}
        api.put(JOB_SETS, body)
    return {("team", f"job-{number}") for number in range(count)}


@pytest.mark.slow
async def test_a_new_leader_starts_while_a_webhook_hangs_at_a_label() -> None:
    async with serving(HangingApi()) as api:
        await made_by_another_version(api)
        api.put(TRAIN_JOBS, train_job("second"))
        async with controller(api) as process:
            await eventually(lambda: api.find("jobsets", "second", "team"))
            await process.settle()
        body = job_set(api)
        api.put(JOB_SETS, {**body, "metadata": {**body["metadata"], "labels": {}}})
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": True})
        change(api, JOB_SETS, "jobsets", "second", status=job_set_status("Completed", "AllJobsCompleted", "over"))
        api.hangs = "/jobsets/job"
        async with controller(api) as process:
            await eventually(lambda: conditions(api, "second").get("Complete") == ("True", "AllJobsCompleted"))
            api.hangs = ""
            await eventually(lambda: bool((api.find("jobsets", "job", "team") or {})["spec"].get("suspend")))
            await process.settle()


async def test_labels_are_not_tried_one_by_one_while_a_webhook_hangs() -> None:
    async with serving(HangingApi()) as api:
        keys = unlabeled_job_sets(api, 3 * PARALLEL)
        api.hangs = "/jobsets/"
        async with api.client(patience=0) as client:
            cache = ClusterCache(client)
            await cache.train_jobs.refresh()
            assert await adopt(client, cache) == keys
        assert 0 < api.patches <= PARALLEL, "the objects of the others are looked for by name"


async def test_labels_are_written_side_by_side_within_a_bound() -> None:
    async with serving(HangingApi()) as api:
        unlabeled_job_sets(api, 3 * PARALLEL)
        api.least = PARALLEL
        async with api.client(patience=0, timeout=30.0) as client:
            cache = ClusterCache(client)
            await cache.train_jobs.refresh()
            assert await adopt(client, cache) == frozenset()
            assert len(cache.job_sets.store.keys()) == 3 * PARALLEL
        assert api.peak == PARALLEL


async def test_labels_of_a_slow_webhook_are_given_up_after_a_while() -> None:
    async with serving(HangingApi()) as api:
        keys = unlabeled_job_sets(api, 2)
        async with api.client(patience=0) as client:
            cache = ClusterCache(client)
            await cache.train_jobs.refresh()
            assert await adopt(client, cache, label_seconds=0.0) == keys
        assert not any(method == "PATCH" for method, _ in api.requests)


async def test_a_process_that_no_longer_leads_labels_nothing(api: FakeApi) -> None:
    unlabeled_job_sets(api, 3)
    async with api.client(patience=0) as client:
        cache = ClusterCache(client)
        with pytest.raises(FencedError):
            await adopt(client.fenced(lambda: 0.0), cache)
    assert api.writes == []


def broken_conversion(fake: FakeApi, request: Any) -> Any:
    """Answer as an API server does while the conversion webhook of an installed CustomResourceDefinition is gone."""
    if request.path.startswith("/apis/scheduling.x-k8s.io/"):
        return error(500, "InternalError", "conversion webhook for scheduling.x-k8s.io/v1alpha1 failed")
    return None


@pytest.mark.slow
async def test_a_broken_optional_kind_does_not_keep_a_leader_from_starting(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_cache, "_OPTIONAL_SETTLE_SECONDS", 0.1)
    submit(api, gang=False)
    api.fault = broken_conversion
    async with settled(api) as process:
        assert process.cache.settled
        assert api.find("jobsets", "job", "team") is not None


@pytest.mark.slow
async def test_the_objects_of_a_job_of_another_version_are_deleted_while_an_optional_kind_is_broken(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_cache, "_OPTIONAL_SETTLE_SECONDS", 0.1)
    await made_by_another_version(api)
    change(api, TRAIN_JOBS, "trainjobs", "job", spec={"activeDeadlineSeconds": 60})
    clock = Clock()
    clock.now += datetime.timedelta(seconds=100)
    api.fault = broken_conversion
    async with controller(api, clock):
        await eventually(lambda: conditions(api).get("Failed") == ("True", "DeadlineExceeded"))
        await eventually(lambda: not (api.of("jobsets") or api.of("podgroups")))


async def test_an_optional_kind_that_breaks_before_the_adoption_is_skipped(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adoption, "_OPTIONAL_SECONDS", 0.2)
    unlabeled_job_sets(api, 1)
    async with api.client(patience=0) as client:
        cache = ClusterCache(client)
        for informer in cache.owned:
            await informer.refresh()
        api.fault = broken_conversion
        assert await adopt(client, cache, backoff=Backoff(0.05, 0.1)) == frozenset()
        assert cache.job_sets.store.keys() == [("team", "job-0")]


async def test_an_optional_kind_whose_lists_are_not_answered_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(FakeApi):
        async def handle(self, request: web.Request) -> web.StreamResponse:
            if request.path.startswith("/apis/scheduling.x-k8s.io/"):
                await asyncio.sleep(60)
            return await super().handle(request)

    monkeypatch.setattr(adoption, "_OPTIONAL_SECONDS", 0.2)
    async with serving(Silent()) as api:
        unlabeled_job_sets(api, 1)
        async with api.client(patience=0) as client:
            cache = ClusterCache(client)
            await cache.train_jobs.refresh()
            assert await adopt(client, cache) == frozenset()
            assert cache.job_sets.store.keys() == [("team", "job-0")]
