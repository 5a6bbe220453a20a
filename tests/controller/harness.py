"""A controller on an API server in memory, driven until nothing changes any more."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.kube.fake_api import FakeApi, Fault, error, eventually
from trainyard.controller.adoption import adopt
from trainyard.controller.cluster_cache import ClusterCache
from trainyard.controller.manager import Manager
from trainyard.controller.metrics import Metrics
from trainyard.controller.policy_review import PolicyReviewer
from trainyard.controller.reconcile import Reconciler
from trainyard.kube.event_recorder import EventRecorder
from trainyard.kube.informer import Informer
from trainyard.policy.gate import PolicyGate

Body = dict[str, Any]
TRAINER = "/apis/trainer.kubeflow.org/v1alpha1"
TRAIN_JOBS = f"{TRAINER}/trainjobs"
CLUSTER_RUNTIMES = f"{TRAINER}/clustertrainingruntimes"
JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"
POD_GROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
COSCHEDULING_POD_GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
PLATFORMS = "/apis/trainyard.dev/v1alpha1/platforms"
CONFIG_MAPS = "/api/v1/configmaps"
POLICIES = "/apis/trainyard.dev/v1alpha1/tenantpolicies"


class Clock:
    def __init__(self) -> None:
        self.now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

    def __call__(self) -> datetime.datetime:
        return self.now


def runtime(name: str = "torch", *, gang: bool = True, image: str = "image:1") -> Body:
    container = {"name": "node", "image": image, "resources": {"limits": {"nvidia.com/gpu": 8}}}
    job = {
        "name": "node",
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"template": {"spec": {"containers": [container]}}},
        },
    }
    spec: Body = {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {"replicatedJobs": [job]}}}
    if gang:
        spec["podGroupPolicy"] = {"volcano": {}}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name, "uid": f"uid-of-{name}"},
        "spec": spec,
    }


def train_job(name: str = "job", **spec: Any) -> Body:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 2}, **spec},
    }


class Controller:
    """One process of the controller."""

    def __init__(
        self, api: FakeApi, clock: Clock, gate: PolicyGate | None = None, *, record_seconds: float = 0.1
    ) -> None:
        self.api = api
        self.client = api.client(patience=0)
        self.cache = ClusterCache(self.client, namespaces=gate is not None)
        policies = PolicyReviewer(self.cache, gate) if gate is not None else None
        self.events = EventRecorder(self.client, component="trainjob_controller", clock=clock)
        self.metrics = Metrics()
        self.reconciler = Reconciler(
            self.client, self.cache, self.events, policies=policies, clock=clock, record_seconds=record_seconds
        )
        self.manager = Manager(self.cache, self.reconciler, self.metrics, workers=4)
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self.tasks = [asyncio.create_task(informer.run()) for informer in self.cache.informers]
        self.tasks.append(asyncio.create_task(self.events.run()))
        await self.cache.wait_settled()
        self.reconciler.search_by_name(await adopt(self.client, self.cache))
        self.tasks.append(asyncio.create_task(self.manager.run()))
        await eventually(lambda: self.manager.queue.enabled)

    async def kill(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.client.close()

    async def settle(self) -> None:
        """Wait until everything written was seen and there is nothing to do; work due in a moment counts."""
        await eventually(self._settled)
        await self.events.flush()

    def _settled(self) -> bool:
        queue = self.manager.queue
        soon = any(due - queue._clock() < 0.2 for due in queue._due.values())
        return self._current() and not (len(queue) or queue.processing or soon)

    def _current(self) -> bool:
        return all(self._delivered(informer) for informer in self.cache.informers)

    def _delivered(self, informer: Informer) -> bool:
        path = informer.resource.path()
        return informer.store.observed >= self.api.last.get(path, 0)


@asynccontextmanager
async def controller(
    api: FakeApi, clock: Clock | None = None, gate: PolicyGate | None = None, **options: float
) -> AsyncIterator[Controller]:
    process = Controller(api, clock or Clock(), gate, **options)
    await process.start()
    try:
        yield process
    finally:
        await process.kill()


@asynccontextmanager
async def settled(
    api: FakeApi, clock: Clock | None = None, gate: PolicyGate | None = None, **options: float
) -> AsyncIterator[Controller]:
    """Run a controller that has nothing to do any more when the block begins."""
    async with controller(api, clock, gate, **options) as process:
        await process.settle()
        yield process


async def reconciled(api: FakeApi, *arguments: Any, **options: Any) -> None:
    """Run a controller until it has nothing to do any more."""
    async with settled(api, *arguments, **options):
        pass


def submit(api: FakeApi, *, gang: bool = True, **spec: Any) -> Body:
    """Put a runtime and TrainJob job, which uses it; return the TrainJob."""
    api.put(CLUSTER_RUNTIMES, runtime(gang=gang))
    return api.put(TRAIN_JOBS, train_job(**spec))


def change(api: FakeApi, path: str, plural: str, name: str, namespace: str = "team", **parts: Any) -> Body:
    """Merge changes into an object's spec or status as another client would."""
    body = existing(api, plural, name, namespace)
    new = {**body, **{part: {**(body.get(part) or {}), **values} for part, values in parts.items()}}
    return api.put(path, new)


def existing(api: FakeApi, plural: str, name: str, namespace: str = "") -> Body:
    """Return an object that exists."""
    body = api.find(plural, name, namespace)
    assert body is not None
    return body


def job_set(api: FakeApi) -> Body:
    """Return the JobSet of TrainJob job, which exists."""
    return existing(api, "jobsets", "job", "team")


def refusing(method: str, part: str, status: int, reason: str, message: str) -> Fault:
    """Return a fault that refuses requests with a method and a part of their path."""

    def refuse(_: FakeApi, request: web.Request) -> web.StreamResponse | None:
        return error(status, reason, message) if request.method == method and part in request.path else None

    return refuse


def conditions(api: FakeApi, name: str = "job") -> dict[str, tuple[str, str]]:
    body = existing(api, "trainjobs", name, "team")
    found = (body.get("status") or {}).get("conditions") or []
    return {entry["type"]: (entry["status"], entry["reason"]) for entry in found}


def job_set_status(kind: str, reason: str, message: str) -> Body:
    condition = {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:05:00Z",
    }
    counts = {"name": "node", "ready": 0, "succeeded": 1, "failed": 0, "active": 0, "suspended": 0}
    return {"conditions": [condition], "replicatedJobsStatus": [counts]}
