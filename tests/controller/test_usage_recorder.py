"""The record of usage: what counts, for whom, and what survives restarts, two writers and a day without any."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from tests.kube.fake_api import FakeApi, error, eventually
from trainyard.controller.cluster_cache import ClusterCache
from trainyard.controller.metrics import Metrics
from trainyard.controller.usage_recorder import UsageRecorder
from trainyard.insight.usage.account import Gap, Span, Sums, Usage
from trainyard.insight.usage.ledger import Ledger
from trainyard.insight.usage.levels import UsageGang
from trainyard.insight.usage.month_usage import MonthUsage
from trainyard.insight.usage.record import HEAD, LABEL, Head, name_of, names_of, read_month, read_record
from trainyard.kube.api_errors import ApiError
from trainyard.kube.informer import Informer

Body = dict[str, Any]
GPU, HOME = "nvidia.com/gpu", "kubeflow-system"
PODS, CONFIG_MAPS = "/api/v1/pods", "/api/v1/configmaps"
VOLCANO = "/apis/scheduling.volcano.sh/v1beta1"
TRAIN_JOBS = "/apis/trainer.kubeflow.org/v1alpha1/trainjobs"
START = 1_700_000_000
MONTH = "2023-11"
JOB = UsageGang("team", "TrainJob", "train", "vision", "torch-2.8")


class Clock:
    now = START

    def __call__(self) -> float:
        return self.now


def iso(at: int) -> str:
    return datetime.datetime.fromtimestamp(START + at, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def owner(kind: str, name: str) -> list[Body]:
    return [{"apiVersion": "v1", "kind": kind, "name": name, "uid": f"uid-of-{name}", "controller": True}]


def pod(
    name: str = "train-node-0-0",
    *,
    created: int = 0,
    bound: int | None = None,
    ended: int | None = None,
    gpus: int = 8,
    evicted: bool = False,
    job_set: str = "train",
    group: str = "train",
) -> Body:
    status: Body = {"phase": "Pending" if bound is None else "Running" if ended is None else "Succeeded"}
    conditions = []
    if bound is not None:
        conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": iso(bound)})
    if evicted:
        conditions.append({"type": "Ready", "status": "False", "reason": "Evict", "message": "because of reclaim"})
    status["conditions"] = conditions
    if ended is not None:
        status["containerStatuses"] = [{"name": "node", "state": {"terminated": {"finishedAt": iso(ended)}}}]
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-of-{name}",
            "creationTimestamp": iso(created),
            "annotations": {"scheduling.k8s.io/group-name": group} if group else {},
            "labels": {"jobset.sigs.k8s.io/jobset-name": job_set} if job_set else {},
            "ownerReferences": owner("Job", "train-node-0"),
        },
        "spec": {
            "containers": [{"name": "node", "resources": {"requests": {GPU: str(gpus), "cpu": "4"}}}],
            **({"nodeName": "n0"} if bound is not None else {}),
        },
        "status": status,
    }


def pod_group(
    name: str = "train", *, created: int = 0, gpus: int = 16, kind: str = "TrainJob", phase: str = ""
) -> Body:
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "creationTimestamp": iso(created),
            "ownerReferences": owner(kind, name),
        },
        "spec": {"queue": "vision", "minMember": 2, "minResources": {GPU: str(gpus)}},
        "status": {"phase": phase},
    }


def train_job(**spec: Any) -> Body:
    metadata = {"name": "train", "namespace": "team"}
    return {"metadata": metadata, "spec": {"runtimeRef": {"name": "torch-2.8"}, **spec}}


class Recorder:
    """One process that leads."""

    def __init__(self, api: FakeApi, clock: Clock) -> None:
        self.api, self.clock = api, clock
        self.client = api.client(patience=0)
        self.cache = ClusterCache(self.client)
        self.recorder = UsageRecorder(self.client, self.cache, namespace=HOME, clock=clock)

    @property
    def informers(self) -> list[Informer]:
        shared = (self.cache.train_jobs, self.cache.platforms, self.cache.tenant_policies)
        return [*self.recorder.observer.informers, *shared]

    async def at(self, at: int) -> None:
        """Let the time pass, and every object be seen."""
        self.clock.now = START + at
        await eventually(
            lambda: all(
                informer.store.observed >= self.api.last.get(informer.resource.path(), 0) for informer in self.informers
            )
        )

    async def flush(self, at: int) -> None:
        await self.at(at)
        await self.recorder.flush()


@asynccontextmanager
async def leading(api: FakeApi, clock: Clock, at: int | None = None) -> AsyncIterator[Recorder]:
    """Let a process lead; with a time, it has written the record once when the block begins."""
    recorder = Recorder(api, clock)
    async with recorder.client:
        tasks = [asyncio.create_task(informer.run()) for informer in recorder.informers]
        try:
            await asyncio.gather(*(informer.wait_settled() for informer in recorder.informers))
            if at is not None:
                await recorder.flush(at)
            yield recorder
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def usage(api: FakeApi, start: int = 0, end: int = 1_000_000) -> Usage:
    bodies = [each for each in api.of("configmaps") if LABEL in each["metadata"]["labels"]]
    record = read_record(bodies)
    assert record is not None
    return record.usage(Span(START + start, START + end))


def month(api: FakeApi, tenant: str = "team") -> MonthUsage:
    body = api.find("configmaps", name_of(tenant, MONTH), HOME)
    found = read_month(body) if body is not None else None
    assert found is not None
    return found


def device_seconds(found: Usage, gang: UsageGang = JOB) -> dict[str, int]:
    sums = found.jobs.get((gang, GPU), Sums())
    return {
        name: getattr(sums, name) // 1000
        for name in ("asked", "waited", "allocated", "borrowed", "taken_back")
        if getattr(sums, name)
    }


@pytest.fixture
def clock() -> Clock:
    return Clock()


def install(api: FakeApi, deserved: int = 100) -> None:
    api.put(f"{VOLCANO}/queues", {"metadata": {"name": "vision"}, "spec": {"deserved": {GPU: str(deserved)}}})
    api.put(TRAIN_JOBS, train_job())
    api.put(f"{VOLCANO}/podgroups", pod_group())


async def test_a_train_job_that_ended_and_is_deleted_is_counted(api: FakeApi, clock: Clock) -> None:
    install(api, deserved=4)
    async with leading(api, clock, 0) as recorder:
        api.put(PODS, pod(created=10))
        await recorder.at(11)
        api.put(PODS, pod(created=10, bound=20))
        await recorder.at(21)
        api.put(PODS, pod(created=10, bound=20, ended=120))
        await recorder.at(125)
        for path, name in ((PODS, "train-node-0-0"), (f"{VOLCANO}/podgroups", "train"), (TRAIN_JOBS, "train")):
            api.remove(path, "team", name)
        await recorder.flush(130)
    # For 10 s, the minimum of 16 of the gang without pods.
    expected = {"asked": 160 + 8 * 110, "waited": 160 + 80, "allocated": 800, "borrowed": 400}
    assert device_seconds(usage(api)) == expected


async def test_what_the_scheduler_evicts_is_taken_back(api: FakeApi, clock: Clock) -> None:
    install(api)
    async with leading(api, clock, 0) as recorder:
        api.put(PODS, pod(bound=10))
        api.put(PODS, pod("train-node-0-1", bound=10))
        await recorder.at(15)
        api.put(PODS, pod(bound=10, evicted=True))
        await recorder.at(20)
        api.put(PODS, pod(bound=10))  # the kubelet's own condition
        await recorder.at(30)
        api.remove(PODS, "team", "train-node-0-0")
        api.remove(PODS, "team", "train-node-0-1")
        await recorder.flush(30)
    assert device_seconds(usage(api))["taken_back"] == 8 * 20


async def test_a_suspended_train_job_asks_for_nothing(api: FakeApi, clock: Clock) -> None:
    install(api)
    async with leading(api, clock, 0) as recorder:
        await recorder.at(10)
        api.put(TRAIN_JOBS, train_job(suspend=True))
        await recorder.at(10)
        await recorder.flush(50)
    assert device_seconds(usage(api)) == {"asked": 160, "waited": 160}


async def test_a_volcano_job_that_waits_without_pods_asks_for_its_minimum(api: FakeApi, clock: Clock) -> None:
    api.put(f"{VOLCANO}/queues", {"metadata": {"name": "vision"}, "spec": {}})
    waiting = pod_group("old", kind="Job", phase="Pending")
    waiting["metadata"]["ownerReferences"][0]["apiVersion"] = "batch.volcano.sh/v1alpha1"
    api.put(f"{VOLCANO}/podgroups", waiting)
    async with leading(api, clock, 0) as recorder:
        await recorder.flush(30)
    assert device_seconds(usage(api), UsageGang("team", "Job", "old", "vision")) == {"asked": 480, "waited": 480}


@pytest.mark.parametrize("kind", ["JobSet", "Job"])
async def test_a_suspended_job_without_pods_asks_for_nothing(api: FakeApi, clock: Clock, kind: str) -> None:
    """Their controllers create the pods of a job that is not suspended at once."""
    api.put(f"{VOLCANO}/podgroups", pod_group("old", kind=kind, phase="Pending"))
    async with leading(api, clock, 0) as recorder:
        await recorder.flush(30)
    assert usage(api).jobs == {}


async def test_a_finished_gang_without_pods_asks_for_nothing(api: FakeApi, clock: Clock) -> None:
    api.put(TRAIN_JOBS, {**train_job(), "status": {"conditions": [{"type": "Complete", "status": "True"}]}})
    api.put(f"{VOLCANO}/podgroups", pod_group())
    async with leading(api, clock, 0) as recorder:
        await recorder.flush(30)
    assert usage(api).jobs == {}


async def test_other_jobs_count_for_their_namespace_and_queue(api: FakeApi, clock: Clock) -> None:
    async with leading(api, clock, 0) as recorder:
        api.put(PODS, pod(bound=0, job_set="", group=""))
        await recorder.flush(0)
        await recorder.flush(10)
    assert [key for key, _ in usage(api).jobs] == [UsageGang("team", "Job", "train-node-0", "")]
    assert usage(api).jobs[UsageGang("team", "Job", "train-node-0", ""), GPU].borrowed == 0, "there is no share"


async def test_pods_without_devices_are_not_recorded(api: FakeApi, clock: Clock) -> None:
    async with leading(api, clock, 0) as recorder:
        api.put(PODS, pod(bound=0, gpus=0))
        await recorder.flush(10)
    assert {each["metadata"]["name"] for each in api.of("configmaps")} == {HEAD}


async def test_the_record_begins_when_it_is_first_written(api: FakeApi, clock: Clock) -> None:
    install(api)
    api.put(PODS, pod(bound=0))
    async with leading(api, clock, 100) as recorder:
        await recorder.flush(150)
    found = usage(api)
    assert found.recorded == Span(START + 100, START + 150)
    assert device_seconds(found) == {"asked": 400, "allocated": 400}


async def test_a_restart_loses_nothing_of_a_job_that_goes_on(api: FakeApi, clock: Clock) -> None:
    install(api)
    api.put(PODS, pod(bound=0))
    async with leading(api, clock, 0) as recorder:
        await recorder.flush(60)
    async with leading(api, clock, 100) as recorder:
        await recorder.flush(160)
    found = usage(api)
    assert device_seconds(found) == {"asked": 1280, "allocated": 1280}
    assert found.gaps == (Gap(START + 60, START + 100),)


async def test_finished_pods_are_not_counted_again_by_the_next_leader(api: FakeApi, clock: Clock) -> None:
    install(api)
    async with leading(api, clock, 0) as recorder:
        api.put(PODS, pod(bound=0))
        await recorder.flush(10)
        api.put(PODS, pod(bound=0, ended=50))
        await recorder.flush(60)
        api.put(PODS, pod("train-node-0-1", created=70, bound=70, job_set="other", group=""))
        await recorder.flush(80)
    for at in (100, 130):
        async with leading(api, clock, at):
            pass
    assert device_seconds(usage(api))["allocated"] == 8 * 50
    other = UsageGang("team", "JobSet", "other", "")
    assert device_seconds(usage(api), other) == {"asked": 8 * 60, "allocated": 8 * 60}


async def test_of_a_day_without_a_controller_nothing_is_invented(api: FakeApi, clock: Clock) -> None:
    install(api)
    api.put(PODS, pod(bound=0))
    async with leading(api, clock, 0) as recorder:
        await recorder.flush(60)
    api.remove(PODS, "team", "train-node-0-0")
    api.put(PODS, pod("train-node-0-1", created=70_000, bound=80_000))
    async with leading(api, clock, 86_400) as recorder:
        await recorder.flush(86_500)
    found = usage(api)
    # What is gone counts until the last write, what exists since its own times.
    assert device_seconds(found)["allocated"] == 8 * 60 + 8 * 6500
    assert device_seconds(found)["waited"] == 8 * 10_000
    assert found.gaps == (Gap(START + 60, START + 86_400),)


async def test_what_happened_after_the_last_write_is_known_by_the_times_of_pods(api: FakeApi, clock: Clock) -> None:
    install(api)
    async with leading(api, clock, 0) as recorder:
        api.put(PODS, pod(created=10, bound=20))
        await recorder.at(30)  # and it crashes
    api.put(PODS, pod(created=10, bound=20, ended=90))
    async with leading(api, clock, 100):
        pass
    assert device_seconds(usage(api))["allocated"] == 8 * 70


async def test_of_two_writers_one_fails_and_reads_the_record_again(api: FakeApi, clock: Clock) -> None:
    install(api)
    api.put(PODS, pod(bound=0))
    async with leading(api, clock) as first, leading(api, clock) as second:
        await first.flush(0)
        await second.flush(10)
        with pytest.raises(ApiError):
            await first.flush(20)
        await first.flush(30)
        with pytest.raises(ApiError):
            await second.flush(40)
        await second.flush(50)
    assert device_seconds(usage(api)) == {"asked": 400, "allocated": 400}


async def test_metrics_count_up_and_never_down(api: FakeApi, clock: Clock) -> None:
    install(api, deserved=4)
    metrics = Metrics()
    labels = {"namespace": "team", "queue": "vision", "runtime": "torch-2.8", "resource": GPU}

    def allocated() -> float | None:
        return metrics.registry.get_sample_value("trainyard_device_seconds_total", {"measure": "allocated", **labels})

    async with leading(api, clock) as recorder:
        metrics.watch_usage(recorder.recorder.totals)
        assert allocated() is None
        await recorder.flush(0)
        api.put(PODS, pod(bound=0))
        await recorder.at(10)
        assert allocated() == 80
        api.put(PODS, pod(bound=0, ended=5))
        await recorder.at(20)
        assert allocated() == 80
        await recorder.flush(30)
        assert allocated() == 80


async def test_a_leader_whose_clock_is_behind_counts_nothing_twice(api: FakeApi, clock: Clock) -> None:
    install(api)
    async with leading(api, clock, 0) as recorder:
        api.put(PODS, pod(bound=0))
        await recorder.flush(100)
    async with leading(api, clock, 40) as recorder:
        api.put(PODS, pod("train-node-0-1", created=50, bound=50))
        await recorder.flush(50)
        await recorder.flush(120)
    assert device_seconds(usage(api))["allocated"] == 8 * 120 + 8 * 20


async def test_without_its_head_the_record_begins_again(api: FakeApi, clock: Clock) -> None:
    install(api)
    async with leading(api, clock, 0) as recorder:
        api.put(PODS, pod(bound=0))
        await recorder.flush(100)
    api.remove(CONFIG_MAPS, HOME, HEAD)
    async with leading(api, clock, 200) as recorder:
        await recorder.flush(300)
    found = usage(api)
    assert found.recorded == Span(START + 200, START + 300)
    assert device_seconds(found) == {"asked": 800, "allocated": 800}


async def test_a_proxy_that_finds_no_head_deletes_no_record(api: FakeApi, clock: Clock) -> None:
    install(api)
    api.put(PODS, pod(bound=0))
    async with leading(api, clock, 0) as recorder:
        await recorder.flush(100)
    read = ("GET", f"{CONFIG_MAPS.replace('/api/v1', f'/api/v1/namespaces/{HOME}')}/{HEAD}")
    api.fault = lambda _, request: web.Response(status=404) if (request.method, request.path) == read else None
    async with leading(api, clock) as recorder:
        with pytest.raises(ApiError, match="cannot be read"):
            await recorder.flush(150)
        api.fault = None
        await recorder.flush(200)
    assert device_seconds(usage(api))["allocated"] == 8 * 200


async def test_of_very_many_jobs_the_last_ones_are_summed_without_names(
    api: FakeApi, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainyard.controller.open_jobs.MAX_JOBS", 2)
    async with leading(api, clock, 0) as recorder:
        for index in range(4):
            api.put(PODS, pod(f"pod-{index}", bound=0, job_set=f"job-{index}", group=""))
            await recorder.at(0)
        await recorder.flush(10)
        api.remove(PODS, "team", "pod-0")
        api.remove(PODS, "team", "pod-3")
        await recorder.at(10)
        api.put(PODS, pod("pod-4", created=10, bound=10, job_set="job-4", group=""))
        await recorder.flush(20)
    assert {gang.name: sums.allocated // 1000 for (gang, _), sums in usage(api).jobs.items()} == {
        **{"job-0": 80, "job-1": 160, "(others)": 80 + 160, "job-4": 80},
    }


async def test_a_runtime_of_a_tenant_is_not_the_one_of_the_platform(api: FakeApi, clock: Clock) -> None:
    reference = {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": "torch-2.8"}
    api.put(TRAIN_JOBS, train_job(runtimeRef=reference))
    api.put(f"{VOLCANO}/podgroups", pod_group())
    async with leading(api, clock, 0) as recorder:
        api.put(PODS, pod(bound=0))
        await recorder.flush(0)
        await recorder.flush(10)
        totals = recorder.recorder.totals()
    assert [gang.runtime for gang, _ in usage(api).jobs] == ["team/torch-2.8"]
    assert totals is not None
    assert [gang.runtime for gang, _ in totals.jobs] == ["team/*"], "a tenant chooses no labels of metrics"


async def test_a_queue_that_does_not_exist_is_none(api: FakeApi, clock: Clock) -> None:
    install(api)
    async with leading(api, clock, 0) as recorder:
        for name in ("vision", "invented"):
            body = pod(name, bound=0, job_set=name, group="")
            body["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = name
            api.put(PODS, body)
        await recorder.flush(0)
        await recorder.flush(10)
    queues = {gang.name: gang.queue for gang, _ in usage(api).jobs if gang.kind == "JobSet"}
    assert queues == {"vision": "vision", "invented": ""}


async def test_an_inner_queue_lends_nothing_of_what_its_leaves_deserve(api: FakeApi, clock: Clock) -> None:
    install(api, deserved=4)
    for name, parent, amount in (("research", "root", 100), ("vision", "research", 4), ("language", "research", 2)):
        spec = {"parent": parent, "deserved": {GPU: str(amount)}, "guarantee": {"resource": {GPU: "1"}}}
        api.put(f"{VOLCANO}/queues", {"metadata": {"name": name}, "spec": spec})
    async with leading(api, clock, 0) as recorder:
        api.put(PODS, pod(bound=0))
        await recorder.flush(0)
        await recorder.flush(10)
    assert device_seconds(usage(api))["borrowed"] == 40
    assert usage(api).lent == {("language", GPU): 1000 * 10}


async def test_a_pod_whose_node_has_a_clock_ahead_ends_when_it_has_ended(api: FakeApi, clock: Clock) -> None:
    install(api)
    async with leading(api, clock, 0) as recorder:
        api.put(PODS, pod(bound=0))
        await recorder.at(10)
        api.put(PODS, pod(bound=0, ended=500))
        await recorder.flush(20)
        await recorder.flush(100)
    assert device_seconds(usage(api))["allocated"] == 8 * 20


async def test_a_record_that_was_deleted_begins_again(api: FakeApi, clock: Clock) -> None:
    install(api)
    api.put(PODS, pod(bound=0))
    async with leading(api, clock, 0) as recorder:
        for body in api.of("configmaps"):
            api.remove(CONFIG_MAPS, HOME, body["metadata"]["name"])
        with pytest.raises(ApiError):
            await recorder.flush(10)
        await recorder.flush(20)
        await recorder.flush(30)
    assert device_seconds(usage(api))["allocated"] == 80


async def test_an_unreadable_document_begins_again(api: FakeApi, clock: Clock) -> None:
    labels = {LABEL: MONTH}
    broken = {"metadata": {"name": name_of("team", MONTH), "namespace": HOME, "labels": labels}}
    api.put(CONFIG_MAPS, {**broken, "data": {"usage.json": '{"format": "2", "tenant": "team"}'}})
    api.put(CONFIG_MAPS, {"metadata": {**broken["metadata"], "name": HEAD}, "data": Head(START, START + 50).data()})
    install(api)
    api.put(PODS, pod(created=100, bound=100))
    async with leading(api, clock, 100) as recorder:
        await recorder.flush(150)
    found = usage(api)
    assert device_seconds(found)["allocated"] == 8 * 50
    assert found.gaps == (Gap(START, START + 100), Gap(START + 50, START + 100))


async def test_a_record_of_a_former_version_is_removed(api: FakeApi, clock: Clock) -> None:
    install(api)
    api.put(PODS, pod(bound=0))
    for name in (HEAD, f"{HEAD}.queues.3", f"{HEAD}.namespace.team.11", "another"):
        metadata = {"name": name, "namespace": HOME, "labels": {LABEL: "0"}}
        api.put(CONFIG_MAPS, {"metadata": metadata, "data": {"format": "1"}})
    async with leading(api, clock, 100) as recorder:
        await recorder.flush(150)
    assert {each["metadata"]["name"] for each in api.of("configmaps")} == {HEAD, name_of("team", MONTH), "another"}
    assert device_seconds(usage(api)) == {"asked": 400, "allocated": 400}


async def test_a_month_follows_another_one_and_the_oldest_are_removed(api: FakeApi, clock: Clock) -> None:
    install(api)
    day = 86_400
    api.put(PODS, pod(bound=0))
    async with leading(api, clock, 0) as recorder:
        for number in range(1, 47):
            await recorder.flush(number * 10 * day)
        api.put(PODS, pod(bound=0, ended=460 * day))
        await recorder.flush(460 * day)
    names = {each["metadata"]["name"] for each in api.of("configmaps")}
    assert names == {HEAD, *names_of("team")}
    found = usage(api, end=500 * day)
    assert found.recorded is not None
    start = found.recorded.start - START
    assert start > 460 * day - 366 * day
    assert sum(each.allocated for each in found.jobs.values()) == 8000 * (460 * day - start)
    kept = [each["metadata"]["name"] for each in api.of("configmaps") if "jobs.json" in each["data"]]
    assert sorted(kept) == [name_of("team", "2025-01"), name_of("team", "2025-02")]


@pytest.mark.parametrize("kind", ["containerStatuses", "initContainerStatuses"])
async def test_a_job_has_its_history(api: FakeApi, clock: Clock, kind: str) -> None:
    install(api)
    group = pod_group()
    group["spec"]["priorityClassName"] = "high"
    api.put(f"{VOLCANO}/podgroups", group)
    async with leading(api, clock, 0) as recorder:
        api.put(PODS, pod(bound=10))
        await recorder.at(10)
        failed = pod(bound=10, ended=40)
        failed["status"] |= {"phase": "Failed"}
        failed["status"]["containerStatuses"][0]["state"]["terminated"] |= {"exitCode": 137, "reason": "OOMKilled"}
        failed["status"][kind] = failed["status"].pop("containerStatuses")
        await recorder.at(40)
        api.put(PODS, failed)
        await recorder.flush(40)
        api.remove(PODS, "team", "train-node-0-0")
        await recorder.at(45)
        api.put(PODS, pod("train-node-0-1", created=45, bound=50))
        await recorder.at(50)
        await recorder.flush(50)
    async with leading(api, clock, 60) as recorder:
        api.put(PODS, pod("train-node-0-1", created=45, bound=50, ended=70))
        await recorder.at(70)
        condition = {"type": "Failed", "status": "True", "reason": "JobSetFailed"}
        api.put(TRAIN_JOBS, {**train_job(), "status": {"conditions": [condition]}})
        await recorder.flush(80)
    (job,) = month(api).jobs
    assert (job.kind, job.name, job.priority_class) == ("TrainJob", "train", "high")
    assert (job.outcome, job.reason) == ("Failed", "JobSetFailed")
    assert [(each.at - START, each.cause) for each in job.restarts] == [(50, "OOMKilled (exit code 137)")]
    assert (job.created, job.started, job.ended) == (START, START + 10, START + 70)
    assert job.restart_count == 1


async def test_no_tenant_reads_the_name_of_another_one(api: FakeApi, clock: Clock) -> None:
    install(api)
    queues = {"team": ["vision", "shared"], "rival": ["secret", "shared"]}
    policies = "/apis/trainyard.dev/v1alpha1/tenantpolicies"
    for tenant, own in queues.items():
        api.put(policies, {"metadata": {"name": "tenant", "namespace": tenant}, "spec": {"queues": own}})
    async with leading(api, clock, 0) as recorder:
        assert usage(api).tenants == {"vision": ("team",), "secret": ("rival",)}
        api.put(policies, {"metadata": {"name": "tenant", "namespace": "rival"}, "spec": {"queues": ["vision"]}})
        await recorder.flush(10)
        assert usage(api).tenants == {"shared": ("team",)}
        api.put(policies, {"metadata": {"name": "tenant", "namespace": "team"}, "spec": {"queues": []}})
    async with leading(api, clock, 20):
        pass
    assert usage(api).tenants == {"vision": ("rival",)}
    for body in api.of("configmaps"):
        readable = body["metadata"]["name"] in {HEAD, *names_of(""), *names_of("team")}
        assert not (readable and "rival" in str(body["data"]))


@pytest.mark.parametrize("status", [413, 422, 500])
async def test_a_namespace_that_cannot_be_written_stops_no_other(api: FakeApi, clock: Clock, status: int) -> None:
    install(api)
    other = UsageGang("other", "JobSet", "large", "")

    def pods_of_the_other(name: str) -> Body:
        body = pod(name, bound=0, job_set=name, group="")
        body["metadata"]["namespace"] = "other"
        return body

    def refused(_: FakeApi, request: web.Request) -> web.Response | None:
        return error(status, "Refused", "no") if stopped and request.path.endswith(name_of("other", MONTH)) else None

    stopped = False
    async with leading(api, clock, 0) as recorder:
        for body in (pod(bound=0), pods_of_the_other("large"), pods_of_the_other("gone")):
            api.put(PODS, body)
        await recorder.flush(10)
    async with leading(api, clock, 10) as recorder:
        stopped, api.fault = True, refused
        api.remove(PODS, "other", "gone")
        await recorder.flush(20)
        await recorder.flush(30)
        found = usage(api)
        assert device_seconds(found)["allocated"] == 8 * 30, "others are written"
        assert found.gaps == (Gap(START + 10, START + 30),)
        assert device_seconds(found, other)["allocated"] == 8 * 30
        stopped = False
        await recorder.flush(40)
        await recorder.flush(50)
    found = usage(api)
    assert found.gaps == (), "nothing is lost"
    assert device_seconds(found)["allocated"] == 8 * 50
    assert device_seconds(found, other)["allocated"] == 8 * 50
    assert device_seconds(found, other._replace(name="gone"))["allocated"] == 8 * 20


async def test_a_config_map_that_lost_its_label_is_found_again(api: FakeApi, clock: Clock) -> None:
    install(api)
    async with leading(api, clock, 0) as recorder:
        api.put(PODS, pod(bound=0))
        await recorder.flush(100)
    for body in api.of("configmaps"):
        api.put(CONFIG_MAPS, {**body, "metadata": {**body["metadata"], "labels": {}}})
    async with leading(api, clock) as recorder:
        with pytest.raises(ApiError):
            await recorder.flush(110)
        await recorder.flush(120)
        await recorder.flush(130)
    assert device_seconds(usage(api))["allocated"] == 8 * 130
    assert usage(api).recorded == Span(START, START + 130)


async def test_what_happened_while_no_watch_ran_is_known_by_the_times_of_pods(api: FakeApi, clock: Clock) -> None:
    install(api)
    async with leading(api, clock, 0) as recorder:
        api.put(PODS, pod(bound=0))
        await recorder.flush(10)
        api.freeze_watches()
        api.put(PODS, pod(bound=0, ended=30))
        api.put(PODS, pod("train-node-0-1", created=20, bound=40, ended=60))
        clock.now = START + 100
        await recorder.informers[0].refresh()
        api.thaw_watches()
        await recorder.flush(100)
        await recorder.flush(110)
    assert device_seconds(usage(api))["allocated"] == 8 * 30 + 8 * 20
    assert usage(api).gaps == (Gap(START + 10, START + 100),), "a pod that came and went is unknown"


async def test_a_queue_counts_from_when_it_exists(api: FakeApi, clock: Clock) -> None:
    api.put(TRAIN_JOBS, train_job())
    api.put(f"{VOLCANO}/podgroups", pod_group())
    async with leading(api, clock, 0) as recorder:
        api.put(PODS, pod(bound=0))
        await recorder.flush(10)
        api.put(f"{VOLCANO}/queues", {"metadata": {"name": "vision"}, "spec": {}})
        await recorder.flush(10)
        await recorder.flush(30)
    allocated = {gang.queue: sums.allocated // 1000 for (gang, _), sums in usage(api).jobs.items()}
    assert allocated == {"": 80, "vision": 160}


async def test_a_pod_that_ended_at_an_unknown_time_is_not_counted_by_the_next_leader(
    api: FakeApi, clock: Clock
) -> None:
    install(api)
    ended = pod(bound=0, ended=20)
    del ended["status"]["containerStatuses"]
    async with leading(api, clock, 0) as recorder:
        api.put(PODS, pod(bound=0))
        await recorder.at(20)
        api.put(PODS, ended)
        await recorder.at(20)
        await recorder.flush(30)
    for at in (100, 200):
        async with leading(api, clock, at):
            pass
    assert device_seconds(usage(api))["allocated"] == 8 * 20


async def test_a_share_of_the_record_is_within_the_capability(api: FakeApi, clock: Clock) -> None:
    install(api)
    spec = {"deserved": {GPU: "100"}, "capability": {GPU: "4"}}
    api.put(f"{VOLCANO}/queues", {"metadata": {"name": "vision"}, "spec": spec})
    async with leading(api, clock, 0) as recorder:
        api.put(PODS, pod(bound=0))
        await recorder.flush(10)
    assert device_seconds(usage(api))["borrowed"] == 4 * 10


@pytest.mark.slow
async def test_the_first_sum_lets_the_rest_of_the_process_run(
    api: FakeApi, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(api)
    for number in range(2_000):
        api.put(PODS, pod(f"train-node-0-{number}", bound=0, gpus=1))
    hold, changes, longest = Ledger.hold, 0, 0

    def counted(*arguments: Any, **options: Any) -> None:
        nonlocal changes, longest
        hold(*arguments, **options)
        changes += 1
        longest = max(longest, changes)
        if changes == 150 and not api.of("configmaps"):  # In the midst of it, a pod ends and another one comes.
            api.put(PODS, pod("train-node-0-0", bound=0, ended=4, gpus=1))
            api.put(PODS, pod("late", created=4, bound=4, gpus=1))

    async def others() -> None:
        nonlocal changes
        while True:
            await asyncio.sleep(0)
            changes = 0

    monkeypatch.setattr(Ledger, "hold", counted)
    async with leading(api, clock) as recorder:
        await recorder.at(5)
        running = asyncio.create_task(others())
        await recorder.recorder.flush()
        running.cancel()
        assert longest < 500
        await recorder.flush(5)
        await recorder.flush(10)
    assert device_seconds(usage(api))["allocated"] == 1_999 * 5 + 5, "from when the record begins"


def names(api: FakeApi) -> set[str]:
    """Return the names of the segments."""
    return {each["metadata"]["name"] for each in api.of("configmaps")} - {HEAD}
