"""Reads of a takeover: dry runs only, the records of Helm releases, and the parts of an installation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.kube.fake_api import FakeApi, error, serving
from tests.kube.kubeconfigs import kubeconfig
from trainyard.kube.kinds import DEPLOYMENTS
from trainyard.platform.takeover.takeover import Observation
from trainyard.platform.takeover.takeover_reader import TakeoverReader

NAMESPACE, NAME = "volcano-system", "volcano-scheduler"
RELEASE = {"meta.helm.sh/release-name": "volcano", "meta.helm.sh/release-namespace": NAMESPACE}
INVALID = "spec.selector: Invalid value: {}: field is immutable"


def deployment(**metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": NAMESPACE, **metadata},
    }


def record(api: FakeApi, name: str, labels: dict[str, str]) -> None:
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
    api.put("/api/v1/secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": metadata})


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with serving(FakeApi()) as server:
        yield server


@pytest.fixture
def reader(api: FakeApi, tmp_path: Path) -> TakeoverReader:
    return TakeoverReader(kubeconfig(tmp_path, api.connection.server, {}), None, "trainyard")


async def observed(reader: TakeoverReader) -> Observation | None:
    def observe() -> Observation | None:
        with reader:
            return reader.observe(DEPLOYMENTS, deployment())

    return await asyncio.to_thread(observe)


async def test_every_write_is_a_dry_run(api: FakeApi, reader: TakeoverReader) -> None:
    api.put("/apis/apps/v1/deployments", deployment())
    written: list[tuple[str, str]] = []

    def rejects_changes(_: FakeApi, request: Any) -> Any:
        if request.method == "GET":
            return None
        assert request.query["dryRun"] == "All"
        written.append((request.method, request.query.get("force", "")))
        return error(422, "Invalid", INVALID)

    api.fault = rejects_changes
    seen = await observed(reader)
    assert seen is not None
    assert written == [("PATCH", "true"), ("POST", "")]
    assert (seen.error is None, seen.creation_error is None) == (False, False)
    assert seen.live["metadata"]["uid"]


async def test_an_object_that_is_gone_is_none(api: FakeApi, reader: TakeoverReader) -> None:
    assert await observed(reader) is None
    assert api.writes == []


async def test_only_records_of_its_own_helm_release_count(api: FakeApi, reader: TakeoverReader) -> None:
    api.put("/apis/apps/v1/deployments", deployment(annotations=RELEASE))
    record(api, "sh.helm.release.v1.other.v1", {"owner": "helm", "name": "other"})
    seen = await observed(reader)
    assert seen is not None
    assert seen.releases == ()


async def test_the_records_of_its_helm_release_are_named(api: FakeApi, reader: TakeoverReader) -> None:
    api.put("/apis/apps/v1/deployments", deployment(annotations=RELEASE))
    record(api, "sh.helm.release.v1.volcano.v1", {"owner": "helm", "name": "volcano"})
    seen = await observed(reader)
    assert seen is not None
    assert seen.releases == ("Secret sh.helm.release.v1.volcano.v1",)


@pytest.mark.parametrize("forbidden", [False, True])
async def test_secrets_are_parts_as_far_as_they_may_be_listed(
    api: FakeApi, reader: TakeoverReader, forbidden: bool
) -> None:
    record(api, "old", {})
    api.put("/api/v1/configmaps", {"metadata": {"name": "conf", "namespace": NAMESPACE}})

    def rejects(_: FakeApi, request: Any) -> Any:
        return error(403, "Forbidden", "secrets is forbidden") if "secrets" in request.path and forbidden else None

    api.fault = rejects

    def listed() -> list[Any]:
        with reader:
            return reader.parts([NAMESPACE])

    parts = await asyncio.to_thread(listed)
    expected = [] if forbidden else [("Secret", "old")]
    assert sorted((each["kind"], each["metadata"]["name"]) for each in parts) == [("ConfigMap", "conf"), *expected]


async def test_parts_are_listed_in_the_namespaces_of_the_installation(api: FakeApi, reader: TakeoverReader) -> None:
    api.put("/apis/apps/v1/deployments", deployment())
    elsewhere = deployment()
    elsewhere["metadata"]["namespace"] = "other"
    api.put("/apis/apps/v1/deployments", elsewhere)

    def listed() -> list[Any]:
        with reader:
            return reader.parts([NAMESPACE])

    parts = await asyncio.to_thread(listed)
    assert [each["metadata"]["namespace"] for each in parts] == [NAMESPACE]
