"""The embedded control plane for real: start, crash, stop, two side by side."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import awaited, environment, in_process, require, run, trainyard

pytestmark = pytest.mark.cluster

CONTROL_PLANE = {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"}


class Embedded:
    """One cluster, driven through the command line."""

    def __init__(self, name: str, state: Path) -> None:
        self.name, self.env = name, environment(state)
        self.root = state / "clusters" / name

    def command(self, *arguments: str, env: dict[str, str] | None = None) -> Any:
        return trainyard("cluster", *arguments, "--name", self.name, env=env or self.env)

    def up(self) -> str:
        result = self.command("up")
        require(result)
        return str(result.stderr)

    def status(self) -> dict[str, Any]:
        printed = in_process("cluster", "status", "-o", "json", "--name", self.name, env=self.env)
        found: dict[str, Any] = json.loads(printed.stdout)
        return found

    def processes(self) -> dict[str, dict[str, Any]]:
        return {process["name"]: process for process in self.status()["processes"]}

    def pids(self) -> dict[str, int]:
        return {name: process["pid"] for name, process in self.processes().items() if process["pid"]}

    def record(self, process: str, **fields: Any) -> None:
        """Change the record of a process."""
        file = self.root / "processes" / f"{process}.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | fields))

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        exported = json.loads(require(in_process("cluster", "env", "-o", "json", "--name", self.name, env=self.env)))
        return require(run("kubectl", *arguments, env=self.env | exported, stdin=stdin))


@pytest.fixture(scope="module")
def first(state_home: Path) -> Iterator[Embedded]:
    embedded = Embedded("first", state_home)
    try:
        embedded.up()
        yield embedded
    finally:
        embedded.command("down", "--delete")


def test_everything_is_healthy_and_nothing_is_installed_yet(first: Embedded) -> None:
    status = first.status()
    assert status["healthy"]
    assert Path(status["kubeconfig"]).stat().st_mode & 0o777 == 0o600
    health = {process["name"]: process["health"] for process in status["processes"]}
    assert {name for name, found in health.items() if found == "healthy"} == {"supervisor", *CONTROL_PLANE}
    assert {found for name, found in health.items() if name not in {"supervisor", *CONTROL_PLANE}} == {"not installed"}
    assert first.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}") == "trainyard:admin"


def test_starting_twice_changes_nothing(first: Embedded) -> None:
    before = first.pids()
    assert "already running" in first.up()
    assert first.pids() == before


def test_nodes_are_those_of_the_fabric_and_ready(first: Embedded) -> None:
    first.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=60s")
    nodes = json.loads(first.kubectl("get", "nodes", "-o", "json"))["items"]
    gpus = {n["metadata"]["name"]: n["status"]["allocatable"].get("nvidia.com/gpu") for n in nodes}
    assert gpus.pop("platform-0") is None
    assert set(gpus.values()) == {"8"}
    first.kubectl("delete", "node", "rack-0-node-0")
    first.kubectl("label", "node", "rack-0-node-1", "topology.trainyard.dev/rack=wrong", "--overwrite")
    assert require(first.command("nodes")).startswith("1 created, 1 updated")


def test_nothing_is_answered_to_a_stranger(first: Embedded) -> None:
    address = first.processes()["kube-apiserver"]["address"]
    result = run("curl", "-sk", "-o", "/dev/null", "-w", "%{http_code}", f"https://{address}/api", env=first.env)
    assert result.stdout == "401"
    etcd = first.processes()["etcd"]["address"]
    assert run("curl", "-sk", f"https://{etcd}/health", env=first.env).returncode != 0


@pytest.mark.parametrize("process", ["kube-apiserver", "etcd", "supervisor"])
def test_a_killed_process_runs_again(first: Embedded, process: str) -> None:
    before = first.pids()
    os.kill(before[process], signal.SIGKILL)
    if process == "supervisor":
        result = first.command("status")
        assert result.returncode == 1
        assert "supervisor: pid" in result.stdout
        first.up()
    awaited("health", lambda: first.status()["healthy"], timeout=60)
    after = first.pids()
    assert after.pop(process) != before.pop(process)
    assert {name: after[name] for name in ("kwok", "kube-scheduler")} == {
        name: before[name] for name in ("kwok", "kube-scheduler")
    }


def test_a_job_runs_for_its_simulated_time_and_completes(first: Embedded) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "simulated", "namespace": "default"},
        "spec": {
            "template": {
                "metadata": {"annotations": {"trainyard.dev/simulated-duration": "1s"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]},
            }
        },
    }
    first.kubectl("create", "-f", "-", stdin=json.dumps(job))
    first.kubectl("wait", "--for=condition=Complete", "job/simulated", "--timeout=60s")
    first.kubectl("delete", "job", "simulated", "--cascade=foreground", "--timeout=60s")


def test_objects_and_ports_survive_a_stop_and_two_clusters_run_side_by_side(first: Embedded, state_home: Path) -> None:
    first.kubectl("create", "configmap", "kept", "--from-literal=a=b")
    ports = json.loads((first.root / "cluster.json").read_text())["ports"]
    second = Embedded("second", state_home)
    try:
        second.up()
        assert first.status()["healthy"]
        assert not set(first.pids().values()) & set(second.pids().values())
        require(first.command("down"))
        assert first.command("status").returncode == 1
        assert not first.pids()
        assert second.status()["healthy"]
    finally:
        require(second.command("down", "--delete"))
    assert not second.root.exists()
    first.up()
    assert json.loads((first.root / "cluster.json").read_text())["ports"] == ports
    assert first.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}") == "b"


def test_a_stale_pid_is_not_taken_for_a_process_and_failures_before_a_stop_do_not_count(first: Embedded) -> None:
    require(first.command("down"))
    first.record("etcd", pid=os.getpid(), identity="another-boot:1", waiting="")
    first.record("kube-apiserver", restarts=9, waiting="stopped")
    assert first.processes()["etcd"]["health"] == "unhealthy"
    first.up()
    assert first.pids()["etcd"] != os.getpid()


def test_a_taken_port_is_named_before_anything_starts_and_is_forgotten_when_it_is_free(first: Embedded) -> None:
    require(first.command("down"))
    first.record("kube-apiserver", waiting="port 1 is taken")
    port = json.loads((first.root / "cluster.json").read_text())["ports"]["kube-apiserver/secure"]
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", port))
        server.listen()
        result = first.command("up")
    assert result.returncode == 2
    assert f"Port {port} of 127.0.0.1" in result.stderr
    assert "Traceback" not in result.stderr
    assert not first.pids()
    first.up()


def test_a_half_written_state_is_refused_and_can_be_removed(state_home: Path) -> None:
    broken = Embedded("broken", state_home)
    broken.root.mkdir(parents=True)
    (broken.root / "cluster.json").write_text('{"format": 1,')
    for command in ("up", "status"):
        result = broken.command(command)
        assert result.returncode == 2
        assert "is damaged" in result.stderr
    require(broken.command("down", "--delete"))
    assert not broken.root.exists()


def test_logs_are_shown_and_an_unknown_process_is_refused(first: Embedded) -> None:
    assert require(first.command("logs", "kube-apiserver", "-n", "5")).count("\n") <= 6
    result = first.command("logs", "nobody")
    assert result.returncode == 2
    assert "kube-apiserver" in result.stderr
