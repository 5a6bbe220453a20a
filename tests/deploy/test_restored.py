"""Result of `destroy` after a takeover: what was restored, what was not, and the exit code."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from tests.components.recording import stack_config
from tests.kube.fake_api import FakeApi, error, serving
from tests.support import in_process
from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError
from trainyard.kube.kinds import CONFIG_MAPS, DEPLOYMENTS
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.platform.deploy import interrupted_run, operations, takeover_restoration
from trainyard.platform.deploy.engine_events import EventLog
from trainyard.platform.deploy.operation_result import OperationResult
from trainyard.platform.deploy.takeover_restoration import _restore, read_former, restore_former
from trainyard.platform.takeover.former_objects import FormerObject, read_record, save_record
from trainyard.progress import SilentProgress
from trainyard.settings.stack_loader import parse_stack

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


SERVED = {"/api/v1": ("secrets", "Secret"), "/apis/apps/v1": ("deployments", "Deployment")}


def discovered(request: web.Request) -> web.StreamResponse | None:
    """Answer a request for what the API server serves."""
    if request.path == "/apis":
        return web.json_response({"groups": [{"versions": [{"groupVersion": "apps/v1"}]}]})
    if request.path not in SERVED:
        return None
    name, kind = SERVED[request.path]
    return web.json_response({"resources": [{"name": name, "kind": kind, "namespaced": True, "verbs": ["list"]}]})


@pytest.fixture
def empty_state(monkeypatch: pytest.MonkeyPatch, api: FakeApi) -> Callable[[], OperationResult]:
    """`destroy` with a state without resources."""

    @contextlib.contextmanager
    def opened(*_: Any, **__: Any) -> Iterator[Any]:
        exported = SimpleNamespace(deployment={})
        stack = SimpleNamespace(export_stack=lambda: exported, destroy=lambda **_: None)
        with SilentProgress().step("Removal") as step:
            yield SimpleNamespace(stack=stack, events=EventLog(step), options={})

    monkeypatch.setattr(operations, "engine_run", opened)
    monkeypatch.setattr(operations, "provider", lambda *_: SimpleNamespace(access=lambda: ACCESS))
    monkeypatch.setattr(operations, "cluster_name", lambda *_: "c")
    monkeypatch.setattr(interrupted_run.Client, "from_kubeconfig", lambda *_, **options: api.client(**options))
    settings = parse_stack(stack_config(), source="stack")
    return lambda: operations.destroy(settings, "local", Path("Pulumi.local.yaml"), SilentProgress())


@pytest.mark.parametrize("denied", ["", "/apis/apps/v1/deployments"])
async def test_a_running_platform_that_the_state_lacks_is_not_overwritten(
    denied: str, api: FakeApi, empty_state: Callable[[], OperationResult]
) -> None:
    """The engine has deleted nothing: what was taken over is in use."""
    metadata = {"name": "volcano-scheduler", "namespace": "volcano-system", "uid": "former"}
    async with api.client() as client:
        await save_record(client, "local", [FormerObject.of(DEPLOYMENTS, {"metadata": metadata, "spec": {"a": 1}})])
    managed = [{"manager": "trainyard", "operation": "Apply"}]
    labels = {"trainyard.dev/stack": "local"}
    running = {**metadata, "uid": "ours", "labels": labels, "managedFields": managed}
    api.put("/apis/apps/v1/deployments", {"kind": "Deployment", "metadata": running, "spec": {"a": 2}})

    def answer(_: FakeApi, request: web.Request) -> web.StreamResponse | None:
        return error(403, "Forbidden", "no") if request.path == denied else discovered(request)

    api.fault = answer
    written = list(api.writes)
    with pytest.raises(TrainyardError, match="cannot be listed" if denied else "1 objects of stack local remain"):
        await asyncio.to_thread(empty_state)
    assert api.writes == written


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
    result = OperationResult(
        "destroy", "local", {"delete": 3}, (), 1.0, restored=("Queue a was restored",), unrestored=unrestored
    )
    destroyed: Callable[..., Any] = lambda *_, **__: result  # noqa: E731
    monkeypatch.setattr("trainyard.platform.deploy.operations.destroy", destroyed)
    ended = in_process("destroy", "--yes", "--stack", "local")
    assert ended.returncode == code
    assert "~ Queue a was restored" in ended.stdout
    assert ("Error: Service a/b: denied (run it again)" in ended.stderr) == bool(code)
