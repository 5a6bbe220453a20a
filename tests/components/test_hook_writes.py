"""Writes of the hooks appear in the preview and in the log, and stay out of targeted runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi
import pytest

from components.hooks import migration
from components.hooks.hypernodes import HyperNodeMigration
from components.hooks.migration import MigrationHook
from components.hooks.queues import QueueMigration, QueuePatchHook
from tests.components.test_hypernodes import manifests as hyper_nodes
from trainyard.cluster import ClusterAccess
from trainyard.errors import TrainyardError
from trainyard.kube import TransportError
from trainyard.kube.training_kinds import HYPER_NODES, QUEUES

ACCESS = ClusterAccess("c", Path("kubeconfig"))


def queue(name: str, parent: str, gpus: int) -> dict[str, Any]:
    spec = {"parent": parent, "deserved": {"nvidia.com/gpu": str(gpus)}}
    return {"metadata": {"name": name}, "spec": spec}


class Cluster:
    """Live objects; keeps what is written."""

    def __init__(self, *, reachable: bool = True) -> None:
        fabric = [
            {**each, "metadata": {**each["metadata"], "labels": {"trainyard.dev/stack": "local"}}}
            for each in hyper_nodes({"s": ["a", "b"], "t": ["c"]})
        ]
        self.live = {QUEUES: [queue("a", "root", 8), queue("b", "root", 4)], HYPER_NODES: fabric}
        self.reachable, self.writes = reachable, list[Any]()

    async def __aenter__(self) -> Cluster:
        if not self.reachable:
            raise TransportError("connection refused")
        return self

    async def __aexit__(self, *details: object) -> None: ...

    async def list(self, resource: Any) -> Any:
        return self.live[resource]

    async def find(self, resource: Any, name: str) -> Any:
        return {"metadata": {"name": name}, "spec": {"deserved": {"nvidia.com/gpu": "64"}}}

    async def apply(self, resource: Any, body: Any, **options: Any) -> None:
        self.writes.append(body["metadata"]["name"])

    async def merge_patch(self, resource: Any, name: str, patch: Any, **options: Any) -> None:
        self.writes.append(name)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()
    monkeypatch.setattr(migration.Client, "from_kubeconfig", lambda *arguments, **options: cluster)
    return cluster


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the hooks report, as warnings of a preview and as log lines of an update."""
    texts: list[str] = []
    for level in ("warn", "info"):
        monkeypatch.setattr(pulumi.log, level, lambda text, *component, level=level: texts.append(f"{level} {text}"))
    return texts


@pytest.fixture
def targeted(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    return lambda given: monkeypatch.setattr(migration, "has_targets", lambda: given)


QUEUE = lambda: QueueMigration(ACCESS, [queue("a", "root", 4), queue("b", "a", 4)], {"a", "b"})  # noqa: E731
ROOM = lambda: QueuePatchHook(  # noqa: E731
    ACCESS, {"metadata": {"name": "root"}, "spec": {"capability": {"nvidia.com/gpu": "32"}}}
)
FABRIC = lambda: HyperNodeMigration(ACCESS, hyper_nodes({"s": ["a"], "t": ["c", "b"]}), "local")  # noqa: E731
HOOKS = pytest.mark.parametrize(
    ("hook", "writes", "text"),
    [
        (QUEUE, ["a"], 'Queue/a {}: deserved {{"nvidia.com/gpu":"8"}} -> {{"nvidia.com/gpu":"4"}}'),
        (ROOM, ["root"], 'Queue/root {}: deserved {{"nvidia.com/gpu":"64"}} -> {{"cpu":"0","memory":"0"'),
        (FABRIC, ["s"], "HyperNode/s {}: members ["),
    ],
    ids=["queues", "root", "fabric"],
)


@HOOKS
async def test_each_write_is_logged(
    cluster: Cluster, said: list[str], hook: Callable[[], MigrationHook], writes: list[str], text: str
) -> None:
    client: Any = cluster
    await hook().prepare(client)
    assert cluster.writes == writes
    (line,) = said
    assert line.startswith("info " + text.format("was written before the update"))


@HOOKS
def test_a_preview_shows_each_write_and_makes_none(
    cluster: Cluster,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
    hook: Callable[[], MigrationHook],
    writes: list[str],
    text: str,
) -> None:
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    component: Any = None
    hook().announce(component)
    assert cluster.writes == []
    (line,) = said
    assert line.startswith("warn " + text.format("is written first, so that each update is accepted"))
    cluster.reachable = False
    hook().announce(component)
    assert "is unknown: connection refused" in said[-1]


def test_an_update_reports_nothing_in_advance(cluster: Cluster, said: list[str]) -> None:
    component: Any = None
    QUEUE().announce(component)
    assert said == []


async def test_a_targeted_run_writes_no_other_object(
    cluster: Cluster, said: list[str], targeted: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    targeted(True)
    client: Any = cluster
    for hook in (QUEUE(), FABRIC()):
        with pytest.raises(TrainyardError, match="--target and --exclude would not limit"):
            await hook.prepare(client)
    assert cluster.writes == []
    await ROOM().prepare(client)
    assert cluster.writes == ["root"], "the object that is updated may be prepared"
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    said.clear()
    component: Any = None
    QUEUE().announce(component)
    assert said == [], "a targeted run writes nothing in advance"
