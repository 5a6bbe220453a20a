"""Providers: what they write, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from trainyard.errors import TrainyardError
from trainyard.local.cluster import cluster_name, provider
from trainyard.local.cluster.embedded import EmbeddedProvider
from trainyard.local.cluster.folders import cluster_folder
from trainyard.local.cluster.ports import PORT_NAMES
from trainyard.local.cluster.provider import ClusterAccess
from trainyard.local.cluster.simulated_nodes import desired_nodes
from trainyard.local.cluster.state import ClusterState, save_state
from trainyard.progress import SilentProgress
from trainyard.settings.cluster import ClusterSettings
from trainyard.settings.fabric import FabricSettings
from trainyard.settings.stack_loader import parse_stack

FABRIC = FabricSettings.model_validate(
    {
        "tierNames": ["rack"],
        "nodeShape": {"labels": {"node.kubernetes.io/instance-type": "gpu"}},
        "domains": [{"name": "rack-0", "nodes": 2}],
    }
)


@pytest.fixture(autouse=True)
def _own_homes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRAINYARD_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TRAINYARD_CACHE_HOME", str(tmp_path / "cache"))


def test_existing_is_refused_without_a_context() -> None:
    settings = ClusterSettings(provider="embedded").model_copy(update={"provider": "existing"})
    with pytest.raises(TrainyardError, match="context"):
        provider(settings, "production")


def kubeconfig_of(context: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
            "contexts": [{"name": context, "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
    )


def test_existing_never_stops_a_cluster(tmp_path: Path) -> None:
    settings = ClusterSettings(provider="existing", context="prod", kubeconfig=str(tmp_path / "config"))
    existing = provider(settings, "production")
    with pytest.raises(TrainyardError, match="not managed by Trainyard"):
        existing.down(delete=True, progress=SilentProgress())
    assert "does not exist" in existing.status().detail
    (tmp_path / "config").write_text(kubeconfig_of("prod"))
    assert existing.access() == ClusterAccess("production", tmp_path / "config", "prod", None)


def test_a_cluster_is_named_after_its_stack_unless_it_has_a_name() -> None:
    assert cluster_name(parse_stack({"cluster": {"provider": "embedded"}}, source="x"), "local") == "local"
    assert cluster_name(parse_stack({"cluster": {"provider": "embedded", "name": "own"}}, source="x"), "local") == "own"


def test_webhooks_are_reached_by_service_or_by_host_port() -> None:
    wanted = {"service": "s", "namespace": "n", "path": "/p"}
    service = ClusterAccess("c", Path("k")).client_config("jobset", **wanted)
    assert service == {"service": {"name": "s", "namespace": "n", "path": "/p", "port": 443}}
    local = ClusterAccess("c", Path("k"), None, {"jobset": 20001}).client_config("jobset", **wanted)
    assert local == {"url": "https://127.0.0.1:20001/p"}


def test_a_control_plane_of_an_older_version_names_the_command_that_restarts_it() -> None:
    folder = cluster_folder("older")
    ports = {use: 20000 + number for number, use in enumerate(PORT_NAMES)}
    save_state(folder, ClusterState(ports, {}))
    folder.kubeconfig.touch()
    assert EmbeddedProvider("older").access().webhook_ports is not None
    ports.popitem()
    save_state(folder, ClusterState(ports, {}))
    with pytest.raises(TrainyardError, match="Cluster older was started by an older Trainyard") as raised:
        EmbeddedProvider("older").access()
    assert "trainyard cluster up --name older" in raised.value.fix


def test_simulated_nodes_are_those_of_the_fabric_and_one_for_the_platform() -> None:
    nodes = desired_nodes(FABRIC)
    assert list(nodes) == ["rack-0-node-0", "rack-0-node-1", "platform-0"]
    gpu = nodes["rack-0-node-0"]
    assert gpu["metadata"]["labels"]["topology.trainyard.dev/rack"] == "rack-0"
    assert gpu["metadata"]["annotations"]["kwok.x-k8s.io/node"] == "fake"
    assert gpu["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert "nvidia.com/gpu" not in nodes["platform-0"]["status"]["capacity"]
    assert nodes["platform-0"]["metadata"]["labels"]["trainyard.dev/platform"] == "true"


def test_a_mistyped_context_is_refused_with_the_context(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(kubeconfig_of("production"))

    def access(context: str) -> ClusterAccess:
        settings = ClusterSettings(provider="existing", context=context, kubeconfig=str(file))
        return provider(settings, "c").access()

    assert access("production").context == "production"
    with pytest.raises(TrainyardError, match="prodution") as raised:
        access("prodution")
    assert str(file) in raised.value.message
