"""API servers of their own, one a contender, and the programs that belong to them."""

from __future__ import annotations

import base64
import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from trainyard import pki
from trainyard.kube.blocking import BlockingSession
from trainyard.kube.client import Client
from trainyard.local.cluster import ports, process
from trainyard.local.cluster.control_plane_certificates import ensure_certificates, read_pair
from trainyard.local.cluster.controlplane import CONTROL_PLANE_PROGRAMS, control_plane, write_configuration
from trainyard.local.cluster.folders import ClusterFolder
from trainyard.local.cluster.health_probes import Probe, probe
from trainyard.local.cluster.state import ClusterState, ProgramFile
from trainyard.local.cluster.toolchain import Toolchain

TENANT_USER, TENANT_GROUP = "ann@example.com", "tenants"
_STARTED = 120.0
_DAY = datetime.timedelta(days=1)


@dataclass
class Plane:
    """etcd, an API server, and what reviews its requests.

    Parameters
    ----------
    name
        The contender.
    folder
        Files of the control plane.
    port
        Port of the API server.
    processes
        Every process by the name of its program.
    """

    name: str
    folder: ClusterFolder
    port: int
    processes: dict[str, psutil.Process] = field(default_factory=dict)

    def client(self) -> Client:
        """Return a client with the administrator's rights."""
        return Client.from_kubeconfig(self.folder.kubeconfig, timeout=120)

    def session(self) -> BlockingSession:
        """Return a plain connection with the administrator's rights."""
        return BlockingSession(self.folder.kubeconfig)

    def tenant_certificate(self) -> Path:
        """Return the file with certificate and key of a user with a tenant's rights."""
        file = self.folder.root / "tenant.pem"
        if not file.is_file():
            pair = self._issued(TENANT_USER, organizations=(TENANT_GROUP,), client=True)
            file.write_bytes(pair.certificate + pair.key)
        return file

    def serving_certificate(self, folder: Path) -> str:
        """Write a serving certificate for 127.0.0.1; return what webhook configurations trust it by."""
        pair = self._issued("webhook", dns_names=("localhost",), ip_addresses=("127.0.0.1",), server=True)
        folder.mkdir(parents=True)
        (folder / "tls.crt").write_bytes(pair.certificate)
        (folder / "tls.key").write_bytes(pair.key)
        return base64.b64encode(read_pair(self.folder.pki, "ca").certificate).decode()

    def memory(self) -> dict[str, float]:
        """Return resident MiB by program."""
        return {name: round(each.memory_info().rss / 2**20, 1) for name, each in self.processes.items()}

    def processor(self) -> dict[str, float]:
        """Return the processor seconds so far by program."""
        return {name: sum(each.cpu_times()[:2]) for name, each in self.processes.items()}

    def _issued(self, name: str, **options: Any) -> pki.KeyPair:
        now = datetime.datetime.now(datetime.UTC)
        return pki.issue(read_pair(self.folder.pki, "ca"), name, now=now, lifetime=_DAY, **options)


class Machine:
    """Starts planes and programs, and stops everything at the end.

    Parameters
    ----------
    folder
        Where their files lie; its path is short, because sockets lie there too.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._taken: set[int] = set()
        self._running = ExitStack()

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *error: object) -> None:
        self._running.close()

    def ports(self, count: int) -> list[int]:
        """Return free ports that no other process of this machine has."""
        seed = f"{self._folder}/{len(self._taken)}"
        found = list(ports.allocate(seed, {}, self._taken).values())[:count]
        self._taken.update(found)
        return found

    def plane(self, name: str) -> Plane:
        """Start etcd and an API server."""
        folder = ClusterFolder(self._folder / name)
        folder.root.mkdir(parents=True)
        ensure_certificates(folder.pki, datetime.datetime.now(datetime.UTC))
        found = {program.name: program for program in Toolchain().ensure() if program.name in CONTROL_PLANE_PROGRAMS}
        programs = {each: ProgramFile(found[each].version, str(found[each].path)) for each in CONTROL_PLANE_PROGRAMS}
        allocated = ports.allocate(str(folder.root), {}, self._taken)
        self._taken.update(allocated.values())
        state = ClusterState(allocated, programs)
        write_configuration(folder, state)
        plane = Plane(name, folder, allocated["kube-apiserver/secure"])
        for part in control_plane(folder, state)[:2]:
            # Production servers have no such ceilings of memory, and some contenders need more than others.
            self.run(plane, replace(part.spec, environment={}), part.probe)
        return plane

    def run(self, plane: Plane, spec: process.ProcessSpec, health: Probe) -> None:
        """Start a program of a plane and wait until it is healthy."""
        spec.log.parent.mkdir(parents=True, exist_ok=True)
        _, record = process.start(spec)
        self._running.callback(process.stop, record, grace=5)
        assert record.pid is not None
        plane.processes[spec.name] = psutil.Process(record.pid)

        def healthy() -> bool:
            if not process.alive(record):
                raise SystemExit(f"{spec.name} of {plane.name} ended: {process.last_lines(spec.log, 20)}")
            return probe(health) is None

        awaited(f"{spec.name} of {plane.name}", healthy, log=spec.log)


def awaited(what: str, condition: Callable[[], bool], *, timeout: float = _STARTED, log: Path | None = None) -> None:
    """Return once a condition holds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not within {timeout:g} s; {process.last_lines(log, 20) if log else ''}")
        time.sleep(0.1)


def program(
    plane: Plane,
    name: str,
    command: Sequence[str | Path],
    environment: Mapping[str, str] | None = None,
) -> process.ProcessSpec:
    """Return how a program of a plane is started."""
    home = plane.folder.root / name
    home.mkdir(exist_ok=True)
    log = home / "program.log"
    return process.ProcessSpec(name, "", tuple(map(str, command)), log, environment=dict(environment or {}))
