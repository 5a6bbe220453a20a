"""Writes of the hooks appear in the preview and in the log, and stay out of targeted runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pulumi
import pytest

from components.common.threads import run_with_client
from components.hooks import migration
from components.hooks.hypernodes import HyperNodeMigration
from components.hooks.migration import MigrationHook
from components.hooks.queues import QueueMigration, QueuePatchHook
from tests.components.conftest import event_loop
from tests.components.recording import record, stack_config
from tests.components.test_hypernodes import manifests as hyper_nodes
from tests.components.test_stack import live
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.training_kinds import HYPER_NODES, QUEUES
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.settings.stack_loader import parse_stack

STACK = parse_stack(stack_config(), source="stack")
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

    async def apply(self, resource: Any, body: Any, *, dry_run: bool = False, **options: Any) -> None:
        if not dry_run:
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


def test_the_writes_of_a_first_takeover_are_shown(
    cluster: Cluster, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def foreign(name: str, parent: str, gpus: int) -> Any:
        return {**queue(name, parent, gpus), "apiVersion": QUEUES.api_version, "kind": "Queue"}

    async def root(*_: Any) -> Any:
        return {"metadata": {"name": "root"}, "spec": {"deserved": {"nvidia.com/gpu": "128"}}}

    monkeypatch.setattr(cluster, "find", root)
    cluster.live[QUEUES] = [foreign("vision", "root", 8), foreign("research", "vision", 64)]
    spine = next(each for each in compile_fabric(STACK.fabric).hyper_nodes if each["metadata"]["name"] == "spine-0")
    cluster.live[HYPER_NODES] = [{**spine, "spec": {**spine["spec"], "tier": 1}}]
    found = live(*(("scheduling.volcano.sh/v1beta1", "Queue", name, {}) for name in ("vision", "research")))
    limited = {"root": {"capability": {"cpu": "768", "memory": "8Ti", "nvidia.com/gpu": "64"}}}
    config = stack_config(adopt=True, queues={**stack_config()["queues"], **limited})
    with event_loop():
        record(config, monkeypatch, live=found, preview=True, planned=run_with_client)
    for written in ("Queue/research", "Queue/root", "HyperNode/spine-0"):
        assert any(line.startswith(f"warn {written} is written first") for line in said), (written, said)
    assert cluster.writes == []


def test_a_kind_that_the_cluster_lacks_plans_nothing(
    cluster: Cluster, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def missing(*_: Any) -> Any:
        raise ApiError(404, "NotFound", "the server could not find the requested resource")

    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    monkeypatch.setattr(cluster, "list", missing)
    component: Any = None
    QUEUE().announce(component)
    FABRIC().announce(component)
    assert said == []


def test_an_update_reports_nothing_in_advance(
    cluster: Cluster, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
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
    assert said == [
        'warn Queue/a must be written first (deserved {"nvidia.com/gpu":"8"} -> {"nvidia.com/gpu":"4"}): `up` with '
        "--target or --exclude is rejected if it changes a Queue"
    ]


@pytest.mark.parametrize("limited", [False, True])
def test_a_preview_fails_where_the_update_does(
    cluster: Cluster,
    said: list[str],
    targeted: Callable[[bool], None],
    monkeypatch: pytest.MonkeyPatch,
    limited: bool,
) -> None:
    """It fails there at the HyperNodes, after other objects were written."""
    targeted(limited)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    cluster.live[HYPER_NODES] = hyper_nodes({"discovered": ["s"]})[-1:]
    assert cluster.live[HYPER_NODES][0]["metadata"]["name"] == "discovered"
    component: Any = None
    with pytest.raises(TrainyardError, match="HyperNodes of another owner list") if not limited else nullcontext():
        FABRIC().announce(component)
    assert [line for line in said if "lists s, which would then have two parents" in line] == said
    assert len(said) == limited
