"""A preview may go without its cluster; nothing else may."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from components.common.offline import OFFLINE_KUBECONFIG, access_or_offline
from trainyard.errors import TrainyardError
from trainyard.kube.credentials import kubeconfig
from trainyard.local.cluster.environment import NO_CLUSTER_VARIABLE
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.settings.stack_loader import parse_stack


class Absent:
    def access(self) -> ClusterAccess:
        raise TrainyardError("/home/ann/.kube/config does not exist", fix="set KUBECONFIG")


CLUSTERS = {
    "existing": {"provider": "existing", "context": "production"},
    "kind": {"provider": "kind"},
    "embedded": {"provider": "embedded"},
}


def access(kind: str, cluster: Any = None) -> ClusterAccess:
    return access_or_offline(cluster or Absent(), "c", parse_stack({"cluster": CLUSTERS[kind]}, source="x"))


@pytest.mark.parametrize("kind", ["existing", "kind"])
def test_a_preview_goes_without_cluster_where_that_is_requested(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setenv(NO_CLUSTER_VARIABLE, "true")
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    monkeypatch.setattr(pulumi.log, "warn", said.append)
    assert access(kind) == ClusterAccess("c", OFFLINE_KUBECONFIG, "offline")
    assert "every resource is planned as a creation" in said[0]


@pytest.mark.parametrize("kind", CLUSTERS)
@pytest.mark.parametrize("value", ["", "false", None])
def test_a_cluster_that_is_missing_is_an_error_otherwise(
    kind: str, value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is None:
        monkeypatch.delenv(NO_CLUSTER_VARIABLE, raising=False)
    else:
        monkeypatch.setenv(NO_CLUSTER_VARIABLE, value)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    with pytest.raises(TrainyardError, match="does not exist"):
        access(kind)


def test_an_embedded_cluster_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NO_CLUSTER_VARIABLE, "true")
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    with pytest.raises(TrainyardError, match="chooses the webhook ports") as raised:
        access("embedded")
    assert "trainyard cluster up" in raised.value.fix


def test_nothing_is_made_without_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NO_CLUSTER_VARIABLE, "true")
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    with pytest.raises(TrainyardError, match="only a preview"):
        access("existing")


def test_nowhere_is_a_kubeconfig_of_no_server() -> None:
    assert kubeconfig(OFFLINE_KUBECONFIG, "offline").server == "https://127.0.0.1:1"
