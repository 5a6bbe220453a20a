"""Ports: chosen once, kept, never those of another cluster."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from trainyard.errors import TrainyardError
from trainyard.local.cluster import ports
from trainyard.local.cluster.folders import ClusterFolder
from trainyard.local.cluster.state import ClusterState, save_state


def test_every_use_gets_its_own_port_and_known_ones_stay() -> None:
    first = ports.allocate("local", {}, ())
    assert set(first) == set(ports.PORT_NAMES)
    assert len(set(first.values())) == len(first)
    kept = {"etcd/client": first["etcd/client"]}
    assert ports.allocate("other", kept, ())["etcd/client"] == first["etcd/client"]


def test_each_slot_has_ports_of_its_own_and_webhooks_one_for_all() -> None:
    found = ports.allocate("local", {}, ())
    slots = [ports.slot_ports(found, slot) for slot in range(ports.SLOTS)]
    assert all(set(each) == set(slots[0]) for each in slots)
    assert len({each["jobset/webhook"] for each in slots} | {found["jobset/webhook"]}) == ports.SLOTS + 1
    assert "etcd/client" not in slots[0]
    assert [ports.slot_name("jobset", slot) for slot in (0, 1)] == ["jobset", "jobset.1"]


def test_ports_of_stopped_clusters_are_not_given_to_others(tmp_path: Path) -> None:
    mine = ports.allocate("local", {}, ())
    save_state(ClusterFolder(tmp_path / "local"), ClusterState(mine))
    reserved = ports.reserved_by_others(tmp_path, "second")
    assert reserved == set(mine.values())
    assert not set(ports.allocate("local", {}, reserved).values()) & reserved
    assert ports.reserved_by_others(tmp_path, "local") == set()


def test_a_taken_port_is_refused_with_its_number_use_and_holder() -> None:
    with socket.socket() as server:
        server.bind((ports.HOST, 0))
        server.listen()
        port = server.getsockname()[1]
        assert not ports.is_free(port)
        with pytest.raises(TrainyardError, match=rf"Port {port} .* kube-apiserver/secure, is taken") as raised:
            ports.require_free_ports({"kube-apiserver/secure": port}, "local")
    assert f"pid {os.getpid()}" in raised.value.message
    assert "--name local" in raised.value.fix
    ports.require_free_ports({"kube-apiserver/secure": port}, "local")
