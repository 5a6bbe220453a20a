"""Address family of a control plane on this machine."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

import pytest
import yaml

from tests.cluster_provider.test_control_plane import state
from tests.support import in_process
from trainyard.errors import TrainyardError
from trainyard.local.cluster import embedded
from trainyard.local.cluster.control_plane_certificates import ensure_certificates
from trainyard.local.cluster.controlplane import control_plane, write_configuration
from trainyard.local.cluster.embedded import EmbeddedProvider
from trainyard.local.cluster.folders import ClusterFolder
from trainyard.local.cluster.host_address import ADDRESSES
from trainyard.local.cluster.node.node_provider import NodeProvider
from trainyard.local.cluster.state import ClusterState, load_state, save_state
from trainyard.progress import SilentProgress
from trainyard.settings.fabric import FabricSettings


def six() -> ClusterState:
    four = state()
    return ClusterState(four.ports, four.programs, ip_family="ipv6")


def test_no_process_of_an_ipv6_cluster_gets_an_ipv4_address(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path / "six")
    ensure_certificates(folder.pki, datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC))
    write_configuration(folder, six())
    for process in control_plane(folder, six()):
        given = " ".join(process.spec.command)
        assert "127.0.0.1" not in given
        assert "10." not in given.replace("fd00:10:", "")
        assert process.probe.host == "::1"
        assert process.spec.address.startswith("[::1]:")
    server = yaml.safe_load(folder.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    assert server.startswith("https://[::1]:")


@pytest.mark.parametrize("family", ADDRESSES)
def test_addresses_are_of_their_family_and_in_their_ranges(family: str) -> None:
    at = ADDRESSES[family]
    version = {"ipv4": 4, "ipv6": 6}[family]
    assert ipaddress.ip_address(at.host).is_loopback
    assert ipaddress.ip_address(at.api_service) == ipaddress.ip_network(at.services)[1]
    found = {ipaddress.ip_address(each).version for each in (at.host, at.node)}
    assert found | {ipaddress.ip_network(at.pods).version} == {version}


def test_the_family_is_recorded_and_kept(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path / "six")
    folder.root.mkdir()
    save_state(folder, six())
    assert load_state(folder) == six()
    folder.state.write_text(folder.state.read_text().replace('"ipv6"', '"ipx"'))
    with pytest.raises(TrainyardError, match="damaged"):
        load_state(folder)


def test_a_cluster_has_the_family_with_which_it_was_created(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "has_address", lambda _: True)
    provider = EmbeddedProvider("six")
    assert (provider._family(None), provider._family(six())) == ("ipv4", "ipv6")
    provider.ip_family = "ipv6"
    assert (provider._family(None), provider._family(six())) == ("ipv6", "ipv6")
    with pytest.raises(TrainyardError, match="was created with ipv4"):
        provider._family(state())
    monkeypatch.setattr(embedded, "has_address", lambda _: False)
    with pytest.raises(TrainyardError, match="no address ::1"):
        provider._family(None)


def test_provider_node_and_those_of_other_clusters_say_that_they_have_no_such_option() -> None:
    node = NodeProvider("six")
    node.ip_family = "ipv6"
    with pytest.raises(TrainyardError, match="IPv4 only"):
        node.up(FabricSettings(), SilentProgress())
    refused = in_process("cluster", "up", "--provider", "kind", "--ip-family", "ipv6")
    assert (refused.returncode, "for provider embedded only" in refused.stderr) == (2, True)
