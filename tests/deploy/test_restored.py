"""Result of `destroy` after a takeover: what was restored, what was not, and the exit code."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kube.fake_api import FakeApi, error, serving
from tests.support import in_process
from trainyard.checks.finding import Finding
from trainyard.cluster import ClusterAccess
from trainyard.deploy import takeover_restoration
from trainyard.deploy.operation_result import Result
from trainyard.deploy.takeover_restoration import _restore, read_former, restore_former
from trainyard.errors import TrainyardError
from trainyard.kube import ApiError
from trainyard.kube.kinds import CONFIG_MAPS
from trainyard.live.former_objects import FormerObject, read_record, save_record
from trainyard.progress import SilentProgress

ACCESS = ClusterAccess("c", Path("kubeconfig"))


@pytest.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeApi]:
    async with serving(FakeApi()) as server:
        monkeypatch.setattr(
            takeover_restoration.Client, "from_kubeconfig", lambda *_, **options: server.client(**options)
        )
        async with server.client() as client:
            metadata = {"name": "volcano-controller-configmap", "namespace": "volcano-system"}
            former = FormerObject.of(CONFIG_MAPS, {"metadata": metadata, "data": {"a": "b"}})
            await save_record(client, "local", [former])
        yield server


async def test_the_record_is_deleted_when_everything_is_restored(api: FakeApi) -> None:
    async with api.client() as client:
        former = await read_record(client, "local")
    found = await _restore(ACCESS, "local", former, SilentProgress())
    assert (found.messages, found.failures) == (
        ["ConfigMap volcano-system/volcano-controller-configmap was created again"],
        [],
    )
    async with api.client() as client:
        assert await read_record(client, "local") == []


async def test_the_record_is_kept_while_an_object_is_missing(api: FakeApi) -> None:
    api.fault = lambda fake, request: error(403, "Forbidden", "no") if request.method == "POST" else None
    async with api.client() as client:
        former = await read_record(client, "local")
    found = await _restore(ACCESS, "local", former, SilentProgress())
    (failure,) = found.failures
    assert failure.path == "ConfigMap volcano-system/volcano-controller-configmap"
    assert "trainyard destroy --stack local" in failure.fix
    async with api.client() as client:
        assert await read_record(client, "local") != []


def test_a_record_that_cannot_be_read_stops_destroy_before_the_first_deletion(monkeypatch: pytest.MonkeyPatch) -> None:
    async def denied(*_: Any) -> list[FormerObject]:
        raise ApiError(403, "Forbidden", "secrets is forbidden")

    monkeypatch.setattr(takeover_restoration, "read_record", denied)
    monkeypatch.setattr(takeover_restoration.Client, "from_kubeconfig", lambda *_, **__: contextlib.nullcontext())
    with pytest.raises(TrainyardError, match="so nothing is deleted: 403 Forbidden"):
        read_former(ACCESS, "local")
    assert restore_former(ACCESS, "local", [], SilentProgress()).messages == []


@pytest.mark.parametrize(("unrestored", "code"), [((), 0), ((Finding("Service a/b", "denied", "run it again"),), 1)])
def test_the_exit_code_says_whether_everything_is_restored(
    unrestored: tuple[Finding, ...], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = Result(
        "destroy", "local", {"delete": 3}, (), 1.0, restored=("Queue a was restored",), unrestored=unrestored
    )
    destroyed: Callable[..., Any] = lambda *_, **__: result  # noqa: E731
    monkeypatch.setattr("trainyard.deploy.destroy", destroyed)
    ended = in_process("destroy", "--yes", "--stack", "local")
    assert ended.returncode == code
    assert "~ Queue a was restored" in ended.stdout
    assert ("Error: Service a/b: denied (run it again)" in ended.stderr) == bool(code)
