"""After a killed run: deletions are awaited, and objects that the state lacks are no success of `destroy`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web

from tests.kube.fake_api import FakeApi, error, serving
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.platform.deploy import interrupted_run
from trainyard.platform.deploy.interrupted_run import follow_cluster, reject_remains
from trainyard.platform.deploy.recorded_state import RecordedState

ACCESS = ClusterAccess("local", Path("kubeconfig"), None, None)
Kind = tuple[str, str]
KINDS = {("v1", "Namespace")}
ENDING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def body(name: str, kind: str = "Namespace", **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **metadata}}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Collection[Kind] | None]]:
    """A cluster whose objects are read several times, each time others."""

    def cluster(*answers: list[dict[str, Any]] | Exception) -> list[Collection[Kind] | None]:
        pending, read = list(answers), []

        async def read_owned(_: object, stack: str, kinds: Collection[Kind] | None = None) -> list[dict[str, Any]]:
            assert stack == "local"
            read.append(kinds)
            answer = pending.pop(0) if len(pending) > 1 else pending[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

        async def read_blockers(*_: object) -> list[str]:
            return ["Pod vision/held has finalizer example.com/hold"]

        @asynccontextmanager
        async def client(*_: object) -> Any:
            yield None

        monkeypatch.setattr(interrupted_run, "read_owned", read_owned)
        monkeypatch.setattr(interrupted_run, "read_blockers", read_blockers)
        monkeypatch.setattr(interrupted_run, "Client", SimpleNamespace(from_kubeconfig=client))
        monkeypatch.setattr(interrupted_run, "_INTERVAL", 0.0)
        return read

    return cluster


class FakeStack:
    """Records its refreshes."""

    name = "local"

    def __init__(self, *, locked: bool = False) -> None:
        self.locked = locked
        self.refreshes: list[dict[str, Any]] = []

    def refresh(self, **options: Any) -> None:
        if self.locked:
            raise BlockingIOError("the stack is currently locked by 1 lock(s)")
        self.refreshes.append(options)


def follow(stack: FakeStack, *, unlocked: bool = True) -> list[str]:
    reports: list[str] = []
    follow_cluster(cast("Any", stack), KINDS, ACCESS, {"parallel": 2}, reports.append, unlocked=unlocked)
    return reports


def test_the_state_is_read_again_once_begun_deletions_have_ended(cluster: Callable[..., list[Any]]) -> None:
    read = cluster([body("vision", **ENDING), body("language")], [body("vision", **ENDING)], [body("language")])
    stack = FakeStack()
    waiting = "waiting for the deletion of Namespace/vision, which a killed run has begun"
    assert follow(stack) == [waiting, waiting, "reading the objects again after a killed run"]
    assert read == [KINDS] * 3
    assert stack.refreshes == [{"parallel": 2, "clear_pending_creates": True}]


def test_a_deletion_that_does_not_end_names_what_holds_it(
    cluster: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster([body("vision", **ENDING)])
    monkeypatch.setattr(interrupted_run, "_PATIENCE", 0.0)
    stack = FakeStack()
    with pytest.raises(TrainyardError, match=r"Namespace/vision: Pod vision/held has finalizer example\.com/hold"):
        follow(stack)
    assert stack.refreshes == []


def test_a_run_in_progress_is_not_taken_for_a_killed_one(cluster: Callable[..., list[Any]]) -> None:
    """Its state has pending operations too; only a write, which needs the lock, tells one from the other."""
    read = cluster([body("vision", **ENDING)], [body("vision", **ENDING)], [])
    stack = FakeStack(locked=True)
    with pytest.raises(BlockingIOError, match="currently locked"):
        follow(stack, unlocked=False)
    assert len(read) == 1, "its deletions are not awaited"
    stack = FakeStack()
    follow(stack, unlocked=False)
    assert len(stack.refreshes) == 2, "the state is read again once the deletions have ended"


def test_a_killed_run_without_deletions_is_read_once(cluster: Callable[..., list[Any]]) -> None:
    cluster([body("vision")])
    stack = FakeStack()
    follow(stack, unlocked=False)
    assert len(stack.refreshes) == 1


def test_an_unreadable_cluster_is_not_taken_for_an_empty_one(cluster: Callable[..., list[Any]]) -> None:
    cluster(ApiError(403, "Forbidden", "namespaces is forbidden"))
    with pytest.raises(TrainyardError, match="what it deleted cannot be read"):
        follow(FakeStack())


async def test_a_kind_that_the_state_lacks_need_not_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials that may not list Secrets continue after a killed run: a stack declares none."""

    def answer(_: FakeApi, request: web.Request) -> web.StreamResponse | None:
        if request.path == "/apis":
            return web.json_response({"groups": []})
        if request.path == "/api/v1":
            kinds = {"namespaces": "Namespace", "secrets": "Secret"}
            served = [{"name": name, "kind": kind, "namespaced": False} for name, kind in kinds.items()]
            return web.json_response({"resources": [{**each, "verbs": ["list"]} for each in served]})
        return error(403, "Forbidden", "secrets is forbidden") if request.path == "/api/v1/secrets" else None

    async with serving(FakeApi()) as api:
        api.fault = answer
        monkeypatch.setattr(interrupted_run.Client, "from_kubeconfig", lambda *_, **__: api.client())
        stack = FakeStack()
        await asyncio.to_thread(follow, stack)
    assert stack.refreshes == [{"parallel": 2, "clear_pending_creates": True}]


def test_objects_that_remain_after_a_removal_are_listed(cluster: Callable[..., list[Any]]) -> None:
    kept = body("kept", annotations={"trainyard.dev/adopted": "true"})
    cluster([kept, body("vision", **ENDING), body("runner", "ServiceAccount", namespace="vision")])
    with pytest.raises(TrainyardError) as caught:
        reject_remains(ACCESS, "local")
    assert [each.path for each in caught.value.findings] == ["ServiceAccount/vision/runner"]
    assert "trainyard up --stack local" in caught.value.fix
    assert "or remove the label trainyard.dev/stack from objects that `up` does not declare" in caught.value.fix


@pytest.mark.parametrize("answer", [[], [body("vision", **ENDING)], ApiError(403, "Forbidden", "no")])
def test_a_removal_without_remains_is_complete(
    answer: list[dict[str, Any]] | ApiError, cluster: Callable[..., list[Any]]
) -> None:
    cluster(answer)
    reject_remains(ACCESS, "local")


def test_the_state_tells_what_it_has() -> None:
    prefix = "urn:pulumi:local::trainyard::trainyard:tenants:Tenants$"
    namespace, program = "kubernetes:core/v1:Namespace", "kubernetes:apps/v1:Deployment"
    resources = [
        {"urn": f"{prefix}{namespace}::Namespace/vision", "type": namespace},
        {"urn": f"{prefix}{program}::Deployment/a/b", "type": program, "delete": True},
    ]
    deployment = {"resources": resources, "pending_operations": [{"type": "creating"}]}
    opened = SimpleNamespace(name="local", export_stack=lambda: SimpleNamespace(deployment=deployment))
    state = RecordedState(cast("Any", opened), None)
    assert state.names == {("kubernetes:core/v1:Namespace", "Namespace/vision")}
    assert state.kinds == {("v1", "Namespace"), ("apps/v1", "Deployment")}
    assert state.pending
