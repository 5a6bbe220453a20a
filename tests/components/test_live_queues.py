"""Live queues: gangs of all namespaces are read only where a change of the queues may hurt them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

import components.hooks.queues
from components.hooks.queue_drain import removed_queues
from components.hooks.queues import live_queues, reject_changes
from trainyard.api.constants import PLATFORM_NAME
from trainyard.errors import TrainyardError
from trainyard.kube.training_kinds import PLATFORMS, POD_GROUPS, QUEUES
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.settings.tenancy import QueueSettings

ACCESS = ClusterAccess("c", Path("kubeconfig"))
GANG = {"metadata": {"name": "job", "namespace": "vision"}, "spec": {"queue": "vision"}}


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"parent": "root", **spec}, "status": {"state": "Open"}}


class Cluster:
    """An API server that records what is read."""

    def __init__(self, *queues: dict[str, Any], retired: tuple[str, ...] = ()) -> None:
        self.read: list[str] = []
        self.names = [each["metadata"]["name"] for each in queues]
        self._objects = {QUEUES.kind: queues, POD_GROUPS.kind: (GANG,)}
        self._platform = {"metadata": {"name": PLATFORM_NAME}, "spec": {"retiredQueues": list(retired)}}

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def list(self, resource: Any) -> tuple[dict[str, Any], ...]:
        self.read.append(resource.kind)
        return self._objects[resource.kind]

    async def find(self, resource: Any, name: str) -> dict[str, Any]:
        self.read.append(resource.kind)
        return self._platform


def test_a_repeated_removal_is_accepted_while_the_platform_lists_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first attempt may have written the Platform, and deleted some of the queues."""
    closed = {**queue("old"), "status": {"state": "Closed"}}
    for cluster in (Cluster(closed, queue("vision"), retired=("gone", "old")), Cluster(queue("vision"))):
        monkeypatch.setattr(components.hooks.queues.Client, "from_kubeconfig", lambda *_, each=cluster: each)
        owned = {each["metadata"]["name"] for each in (closed, queue("vision"))} & set(cluster.names)
        live = live_queues(ACCESS, [queue("vision")], owned)
        reject_changes(live, [queue("vision")], owned)
        assert removed_queues(live, {"vision": QueueSettings()}, owned) == sorted(owned - {"vision"})


STANDING = [queue("vision", weight=1), queue("language", weight=1)]


def desired(*change: Any) -> list[dict[str, Any]]:
    return [*copy.deepcopy(STANDING), *change]


def read(cluster: Cluster, manifests: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(components.hooks.queues.Client, "from_kubeconfig", lambda *_: cluster)
    owned = {"vision", "language"}
    reject_changes(live_queues(ACCESS, manifests, owned), manifests, owned)
    return cluster.read


@pytest.mark.parametrize("changed", [desired(), desired(queue("new")), [queue("vision", weight=3), STANDING[1]]])
def test_no_gang_is_read_where_no_job_could_be_hurt(
    changed: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(Cluster(*STANDING), changed, monkeypatch) == [QUEUES.kind, PLATFORMS.kind]


@pytest.mark.parametrize(
    ("changed", "rule"),
    [(STANDING[1:], "queue-removed-in-use"), (desired(queue("child", parent="vision")), "queue-parent-in-use")],
)
def test_gangs_are_read_where_a_queue_goes_or_becomes_a_parent(
    changed: list[dict[str, Any]], rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(*STANDING, retired=("vision",))
    with pytest.raises(TrainyardError) as raised:
        read(cluster, changed, monkeypatch)
    assert POD_GROUPS.kind in cluster.read
    assert [finding.rule for finding in raised.value.findings] == [rule]
    assert "vision/job" in raised.value.findings[0].message
