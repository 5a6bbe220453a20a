"""The local kubelet against a fake API server, with real processes: pods in, processes, targets and annotations out."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from trainyard.errors import TrainyardError
from trainyard.local.cluster.folders import ClusterFolder, write_private
from trainyard.local.cluster.health_probes import Probe
from trainyard.local.cluster.host_address import HOST
from trainyard.local.cluster.ports import PORT_NAMES, SLOTS, allocate
from trainyard.local.cluster.process import NOT_INSTALLED, alive, read_record, stop
from trainyard.local.cluster.state import ClusterState
from trainyard.local.cluster.supervisor import kubelet as module
from trainyard.local.cluster.supervisor.host_programs.base import HostProgram, RunContext
from trainyard.local.cluster.supervisor.kubelet import Kubelet

PROGRAM, SIDECAR = "jobset", "opa"
TENANTS = ("vision",)
SERVER = """
import http.server, socket, sys
health, webhook = int(sys.argv[1]), int(sys.argv[2])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"ok")
    def log_message(self, *_): pass
if webhook:
    listener = socket.create_server(("127.0.0.1", webhook))
http.server.HTTPServer(("127.0.0.1", health), Handler).serve_forever()
"""


def host_program(program: str, *, listens: bool) -> HostProgram:
    def command(context: RunContext, arguments: list[str]) -> list[str]:
        webhook = context.ports[f"{program}/webhook"] if listens else 0
        return [sys.executable, "-c", SERVER, str(context.ports[f"{program}/health"]), str(webhook)]

    return HostProgram(
        command=command,
        health=lambda context: Probe(context.ports[f"{program}/health"], "/"),
        upstream=False,
        serving_port=f"{program}/webhook" if listens else None,
    )


class FakeClient:
    """Knows the ServiceAccounts and keeps the annotations of pods."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.deployments: list[dict[str, Any]] = []

    async def find(self, resource: Any, name: str, *, namespace: str | None = None) -> dict[str, Any]:
        return {"metadata": {"name": name, "uid": f"uid-{name}"}}

    async def create_subresource(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {"status": {"token": "t", "expirationTimestamp": "2999-01-01T00:00:00Z"}}

    async def merge_patch(self, _: Any, name: str, patch: Mapping[str, Any], *, namespace: str) -> None:
        annotations = self.pods[name]["metadata"].setdefault("annotations", {})
        annotations.update(patch["metadata"]["annotations"])

    def add(
        self, name: str, *, program: str = PROGRAM, sidecars: tuple[str, ...] = (), node: str = "n"
    ) -> dict[str, Any]:
        self.pods[name] = {
            "metadata": {
                "name": name,
                "namespace": "home",
                "uid": f"uid-{name}",
                "creationTimestamp": f"2026-01-01T00:00:{len(self.pods):02}Z",
                "labels": {"app": "x", "trainyard.dev/host-process": program},
                "ownerReferences": [{"kind": "ReplicaSet", "name": "x-1", "controller": True}],
            },
            "spec": pod_spec(*sidecars) | {"nodeName": node, "terminationGracePeriodSeconds": 5},
            "status": {"phase": "Running"},
        }
        return self.pods[name]

    def annotations(self, name: str) -> dict[str, str]:
        return {
            key.removeprefix("trainyard.dev/host-process-"): value for key, value in self._annotations(name).items()
        }

    def _annotations(self, name: str) -> dict[str, str]:
        return dict(self.pods[name]["metadata"].get("annotations", {}))


def pod_spec(*sidecars: str) -> dict[str, Any]:
    containers = [{"name": name, "image": "x:1", "readinessProbe": {"periodSeconds": 0.1}} for name in ("c", *sidecars)]
    return {"containers": containers}


def deployment(replicas: int, *sidecars: str, **status: Any) -> dict[str, Any]:
    labels = {"app": "x", "trainyard.dev/host-process": PROGRAM}
    return {
        "metadata": {"name": "x", "namespace": "home", "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec(*sidecars)},
        },
        "status": status,
    }


class Machine:
    """A kubelet, the API server it talks to, and its records."""

    def __init__(self, folder: ClusterFolder, state: ClusterState) -> None:
        self.folder, self.state, self.client = folder, state, FakeClient()
        self.kubelet = Kubelet(folder, state)
        self.running = asyncio.create_task(self.kubelet.run())

    async def settle(self, what: str, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while True:
                self.kubelet.changed.clear()
                pods = list(self.client.pods.values())
                await self.kubelet.reconcile(self.client, self.client.deployments, pods, TENANTS)  # type: ignore[arg-type]
                if condition():
                    return
                try:
                    await asyncio.wait_for(self.kubelet.changed.wait(), 0.05)
                except TimeoutError:
                    continue

    def port(self, slot: int) -> int:
        return self.state.ports[f"{slot}.{PROGRAM}/webhook"]

    def targets(self) -> tuple[int, ...]:
        return self.kubelet._forwarders[PROGRAM].targets

    def pid(self, name: str) -> int | None:
        record = read_record(self.folder.processes, name)
        return record.pid if record is not None and alive(record) else None

    def waiting(self, name: str) -> str:
        record = read_record(self.folder.processes, name)
        return record.waiting if record is not None else NOT_INSTALLED

    def healthy(self, *names: str) -> bool:
        return all(self.client.annotations(name).get("healthy") == "true" for name in names)

    async def leave(self) -> None:
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)


@pytest.fixture
async def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Machine]:
    recipes = {PROGRAM: host_program(PROGRAM, listens=True), SIDECAR: host_program(SIDECAR, listens=False)}
    monkeypatch.setattr(module, "HOST_PROGRAMS", recipes)
    folder = ClusterFolder(tmp_path / "c")
    write_private(folder.pki / "ca.crt", "x")
    folder.logs.mkdir(mode=0o700)
    ports = allocate(str(tmp_path), {}, ())
    assert set(ports) == set(PORT_NAMES)
    machine = Machine(folder, ClusterState(ports))
    yield machine
    await machine.leave()
    for file in folder.processes.glob("*.json"):
        record = read_record(folder.processes, file.stem)
        assert record is not None
        stop(record)


async def test_each_pod_is_a_process_and_the_forwarder_knows_the_ready_ones(machine: Machine) -> None:
    client = machine.client
    client.deployments = [deployment(2)]
    client.add("a"), client.add("b")
    await machine.settle("both ready", lambda: machine.healthy("a", "b"))
    assert machine.targets() == (machine.port(0), machine.port(1))
    assert machine.pid("jobset") != machine.pid("jobset.1")
    _, writer = await asyncio.open_connection(HOST, machine.state.ports[f"{PROGRAM}/webhook"])
    writer.close()
    assert machine.kubelet.settled


async def test_what_a_tenant_labels_starts_nothing_and_displaces_nothing(machine: Machine) -> None:
    client = machine.client
    foreign = deployment(1)
    foreign["metadata"] |= {"namespace": "vision", "creationTimestamp": "2025-01-01T00:00:00Z"}
    client.deployments = [foreign]
    planted = client.add("planted")
    planted["metadata"]["namespace"] = "vision"
    await machine.settle("nothing to run", lambda: machine.kubelet.settled)
    assert machine.waiting("jobset") == NOT_INSTALLED
    assert client.annotations("planted") == {"healthy": "false"}
    client.deployments = [foreign, deployment(1)]
    client.add("own")
    await machine.settle("the platform's own", lambda: machine.healthy("own"))
    assert client.annotations("planted") == {"healthy": "false"}
    assert machine.targets() == (machine.port(0),)


async def test_a_rollout_runs_both_and_a_deleted_pod_ends_when_its_process_has(machine: Machine) -> None:
    client = machine.client
    client.deployments = [deployment(1)]
    old = client.add("old")
    await machine.settle("old ready", lambda: machine.healthy("old"))
    client.add("new")
    await machine.settle("new ready", lambda: machine.healthy("old", "new"))
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    await machine.settle("old ended", lambda: "ended" in client.annotations("old"))
    assert machine.pid("jobset") is None
    assert machine.targets() == (machine.port(1),)
    del client.pods["old"]
    client.add("next")
    await machine.settle("next in the free slot", lambda: machine.healthy("new", "next"))
    assert machine.targets() == (machine.port(0), machine.port(1))


async def test_a_further_container_ends_after_the_first(machine: Machine) -> None:
    client = machine.client
    client.deployments = [deployment(1, SIDECAR)]
    pod = client.add("a", sidecars=(SIDECAR,))
    await machine.settle("ready", lambda: machine.healthy("a"))
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    await machine.settle("first ended", lambda: machine.pid("jobset") is None or machine.pid("opa") is None)
    assert machine.pid("jobset") is None
    await machine.settle("both ended", lambda: client.annotations("a").get("ended") == "true")
    assert machine.pid("opa") is None


async def test_a_new_supervisor_leaves_the_processes_to_their_pods(machine: Machine) -> None:
    client = machine.client
    client.deployments = [deployment(1)]
    client.add("old")
    await machine.settle("old ready", lambda: machine.healthy("old"))
    client.add("new")
    await machine.settle("new ready", lambda: machine.healthy("new"))
    del client.pods["old"]
    await machine.settle("old gone", lambda: machine.pid("jobset") is None)
    pid = machine.pid("jobset.1")
    await machine.leave()
    assert machine.pid("jobset.1") == pid
    again = Machine(machine.folder, machine.state)
    again.client = client
    client.pods["new"]["metadata"]["annotations"] = {}
    await again.settle("ready again", lambda: again.healthy("new"))
    assert again.pid("jobset.1") == pid
    assert again.pid("jobset") is None
    await again.leave()


async def test_a_dead_process_is_unready_at_once_and_starts_again(machine: Machine) -> None:
    client = machine.client
    client.deployments = [deployment(1)]
    client.add("a")
    await machine.settle("ready", lambda: machine.healthy("a"))
    pid = machine.pid("jobset")
    assert pid is not None
    record = read_record(machine.folder.processes, "jobset")
    assert record is not None
    stop(record, grace=0)
    await machine.settle("unready", lambda: machine.targets() == () and not machine.healthy("a"))
    await machine.settle("ready again", lambda: machine.healthy("a"))
    assert machine.pid("jobset") not in (None, pid)


async def test_a_process_that_restarts_while_the_api_server_is_away_is_unready(machine: Machine) -> None:
    client = machine.client
    client.deployments = [deployment(1)]
    client.add("a")
    await machine.settle("ready", lambda: machine.healthy("a"))
    pid, host = machine.pid("jobset"), machine.kubelet._hosts[PROGRAM, 0]
    record = read_record(machine.folder.processes, "jobset")
    assert record is not None
    stop(record, grace=0)
    async with asyncio.timeout(10):
        while machine.pid("jobset") in (None, pid):
            await machine.kubelet.changed.wait()
            machine.kubelet.changed.clear()
    assert not host.ready
    await machine.settle("ready again", lambda: machine.healthy("a"))
    assert host.ready


async def test_pods_of_tenants_are_never_started_and_can_be_deleted(machine: Machine) -> None:
    client = machine.client
    client.deployments = [deployment(1)]
    stranger = client.add("stranger")
    stranger["metadata"]["namespace"] = "vision"
    await machine.settle("looked at", lambda: "healthy" in client.annotations("stranger"))
    assert not machine.healthy("stranger")
    assert machine.pid("jobset") is None
    stranger["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    await machine.settle("let go", lambda: client.annotations("stranger").get("ended") == "true")


async def test_whatever_keeps_a_replica_from_running_is_in_its_record(machine: Machine) -> None:
    client = machine.client
    refused = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}
    client.deployments = [deployment(2, conditions=[refused])]
    client.add("a")
    await machine.settle("reported", lambda: "exceeded quota" in machine.waiting("jobset.1"))
    client.deployments = [deployment(1, "unknown")]
    client.pods.clear()
    client.add("b", sidecars=("unknown",))  # slot 0 is taken until the process of a has ended
    await machine.settle("reported", lambda: "container unknown cannot run" in machine.waiting("jobset.1"))
    client.deployments = [deployment(0)]
    client.pods.clear()
    await machine.settle("reported", lambda: machine.waiting("jobset") == "scaled to 0 replicas")
    client.deployments = []
    await machine.settle("reported", lambda: machine.waiting("jobset") == NOT_INSTALLED)
    assert not machine.kubelet._forwarders[PROGRAM].listening


async def test_a_full_disk_costs_the_memory_of_slots_only(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, _: str) -> None:
        raise TrainyardError(f"The disk is full: {path} cannot be written")

    monkeypatch.setattr(module, "write_private", full)
    machine.client.deployments = [deployment(1)]
    machine.client.add("a")
    await machine.settle("ready", lambda: machine.healthy("a"))


async def test_more_pods_than_slots_wait(machine: Machine) -> None:
    client = machine.client
    client.deployments = [deployment(SLOTS + 1)]
    for number in range(SLOTS + 1):
        client.add(f"p{number}")
    names = [f"p{number}" for number in range(SLOTS)]
    await machine.settle("all slots ready", lambda: machine.healthy(*names))
    assert client.annotations(f"p{SLOTS}").get("healthy") == "false"
