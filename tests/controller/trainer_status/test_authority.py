"""Jobs that run while the webhook authority is renewed get the new CA bundle; other jobs are not read."""

from __future__ import annotations

import asyncio
import base64
import datetime
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.controller.harness import CONFIG_MAPS, JOB_SETS, PLATFORMS, TRAIN_JOBS, Body, train_job
from tests.controller.trainer_status.test_server import job_set, platform
from tests.kube.fake_api import FakeApi, error, eventually
from trainyard import pki
from trainyard.controller.cluster_cache import ClusterCache
from trainyard.controller.trainer_status.authority import AuthorityUpdater, authority_of
from trainyard.kube.backoff import Backoff
from trainyard.kube.informer import Informer
from trainyard.kube.kinds import SECRETS as SECRET_RESOURCE

SECRETS = "/api/v1/secrets"
MADE = datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC)
BEFORE, AFTER = "2026-05-31T00:00:00Z", "2026-06-02T00:00:00Z"


def authority() -> str:
    return pki.authority("test", now=MADE, lifetime=datetime.timedelta(days=700)).certificate.decode()


def secret(authority: bytes | None) -> Body:
    data = {} if authority is None else {"ca.crt": base64.b64encode(authority).decode()}
    return {"metadata": {"name": "cert", "namespace": "system"}, "data": data}


class Scene:
    def __init__(self, api: FakeApi, client: Any) -> None:
        self.api = api
        self.secrets = Informer(client, SECRET_RESOURCE, namespace="system", field_selector="metadata.name=cert")
        self.cache = ClusterCache(client, authority=lambda: authority_of(self.secrets))
        self.updater = AuthorityUpdater(client, self.cache, self.secrets, backoff=Backoff(0.01, 0.02))

    def job(self, name: str, *, started: str = BEFORE, owner: str | None = None, **status: Any) -> None:
        """Store a job with its JobSet and its ConfigMap."""
        job = self.api.put(TRAIN_JOBS, {**train_job(name), "status": status})
        body = job_set(name)
        body["metadata"]["creationTimestamp"] = started
        self.api.put(JOB_SETS, body)
        reference = {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "name": name,
            "uid": owner or job["metadata"]["uid"],
            "controller": True,
        }
        metadata = {"name": f"{name}-tls-config", "namespace": "team", "ownerReferences": [reference]}
        self.api.put(CONFIG_MAPS, {"metadata": metadata, "data": {"ca.crt": "old"}})

    def trusted(self, name: str) -> str:
        body = self.api.find("configmaps", f"{name}-tls-config", "team")
        assert body is not None
        return str(body["data"]["ca.crt"])


@pytest.fixture
async def scene(api: FakeApi) -> AsyncIterator[Scene]:
    api.put(PLATFORMS, platform(statusServer={"service": "s", "namespace": "n"}))
    async with api.client(patience=0) as client:
        found = Scene(api, client)
        running = [asyncio.create_task(informer.run()) for informer in (*found.cache.informers, found.secrets)]
        running.append(asyncio.create_task(found.updater.run()))
        yield found
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def test_running_jobs_learn_of_a_new_authority(scene: Scene) -> None:
    scene.job("running")
    scene.job("late", started=AFTER)
    scene.job("foreign", owner="somebody-else")
    scene.job("over", conditions=[{"type": "Complete", "status": "True"}])
    scene.api.put(TRAIN_JOBS, train_job("waiting"))
    await eventually(lambda: scene.cache.job_sets.store.get("team", "over"))
    new = authority()
    scene.api.put(SECRETS, secret(new.encode()))
    await eventually(lambda: scene.trusted("running") == new)
    assert [scene.trusted(name) for name in ("late", "foreign", "over")] == ["old"] * 3
    assert len(scene.api.writes) == 1
    assert await scene.updater.step() == 0
    assert len(scene.api.writes) == 1


async def test_what_fails_is_retried(scene: Scene) -> None:
    scene.job("running")
    await eventually(lambda: scene.cache.job_sets.store.get("team", "running"))
    failures = iter([409, 500])
    scene.api.fault = lambda api, request: (
        error(code, "Error", "not now") if request.method == "PATCH" and (code := next(failures, 0)) else None
    )
    new = authority()
    scene.api.put(SECRETS, secret(new.encode()))
    await eventually(lambda: scene.trusted("running") == new)


async def test_a_rejected_job_keeps_no_other_from_learning_of_a_new_authority(scene: Scene) -> None:
    for name in ("first", "second", "third"):
        scene.job(name)
    await eventually(lambda: scene.cache.job_sets.store.get("team", "third"))
    path = "/api/v1/namespaces/team/configmaps/first-tls-config"
    scene.api.fault = lambda api, request: (
        error(403, "Forbidden", "no") if request.method == "PATCH" and request.path == path else None
    )
    new = authority()
    scene.api.put(SECRETS, secret(new.encode()))
    await eventually(lambda: scene.trusted("second") == scene.trusted("third") == new)
    assert scene.trusted("first") == "old"
    scene.api.fault = None
    await eventually(lambda: scene.trusted("first") == new)


async def test_a_job_set_that_cannot_be_read_keeps_no_other_job_from_learning_of_a_new_authority(scene: Scene) -> None:
    for name in ("first", "second"):
        scene.job(name, started="no date" if name == "first" else BEFORE)
    await eventually(lambda: scene.cache.job_sets.store.get("team", "second"))
    new = authority()
    scene.api.put(SECRETS, secret(new.encode()))
    await eventually(lambda: scene.trusted("second") == new)
    assert scene.trusted("first") == "old"


@pytest.mark.parametrize("content", [None, b"", b"no certificate", b"\xff"])
async def test_a_secret_that_holds_no_authority_ends_nothing(scene: Scene, content: bytes | None) -> None:
    scene.job("running")
    scene.api.put(SECRETS, secret(content))
    await eventually(lambda: scene.secrets.store.get("system", "cert"))
    await eventually(lambda: scene.cache.settled)
    assert await scene.updater.step() == 0
    assert scene.trusted("running") == "old"


async def test_where_nothing_takes_reports_nothing_is_looked_at(scene: Scene) -> None:
    scene.api.put(PLATFORMS, platform())
    scene.job("running")
    await eventually(lambda: scene.cache.job_sets.store.get("team", "running"))
    await eventually(lambda: not scene.cache.serves_status)
    scene.api.put(SECRETS, secret(authority().encode()))
    await eventually(lambda: authority_of(scene.secrets))
    assert await scene.updater.step() == 0
    assert not [path for _, path in scene.api.requests if "tls-config" in path]
