"""Provider of a control plane on this machine: etcd, Kubernetes and KWOK as supervised processes, simulated nodes."""

from __future__ import annotations

import asyncio
import datetime
import os
import shutil
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil

from trainyard.errors import TrainyardError
from trainyard.listening import has_address
from trainyard.local.cluster.build_records import KEY_VARIABLE
from trainyard.local.cluster.cluster_processes import cluster_processes
from trainyard.local.cluster.code_digest import sources_digest
from trainyard.local.cluster.control_plane_certificates import (
    WEBHOOK_CLIENT,
    WEBHOOK_CLIENT_AUTHORITY,
    ensure_certificates,
)
from trainyard.local.cluster.controlplane import (
    CONTROL_PLANE_PROGRAMS,
    ControlPlaneProcess,
    authenticated_webhooks,
    write_configuration,
)
from trainyard.local.cluster.environment import LOCAL_PASSPHRASE, local_environment
from trainyard.local.cluster.folders import (
    HOME_VARIABLES,
    ClusterFolder,
    cluster_folder,
    exclusive,
    private_folder,
    require_ownership,
    state_home,
    write_private,
)
from trainyard.local.cluster.host_address import ADDRESSES, DEFAULT_FAMILY, IpFamily
from trainyard.local.cluster.inspection import host_processes, inspect, log_file
from trainyard.local.cluster.ports import PORT_NAMES, WEBHOOK_PROGRAMS, allocate, require_free_ports, reserved_by_others
from trainyard.local.cluster.process import (
    HEARTBEAT,
    NOT_INSTALLED,
    ProcessSpec,
    alive,
    last_lines,
    read_record,
    start,
    stop,
    stopped,
    write_record,
)
from trainyard.local.cluster.provider import ClusterAccess, ClusterStatus, NodeChanges, ProcessStatus, WebhookClient
from trainyard.local.cluster.sizing import size_class
from trainyard.local.cluster.state import ClusterState, ProgramFile, load_state, save_state
from trainyard.local.cluster.toolchain import Toolchain
from trainyard.progress import Progress, Step
from trainyard.settings.fabric import FabricSettings

_MEMORY_NEEDED = 2 << 30
_DISK_NEEDED = 1 << 30
_START_TIMEOUT = 120.0
_PLATFORM_TIMEOUT = 45.0
_MAX_CRASHES = 4
_PARALLEL_STOPS = 16


class EmbeddedProvider:
    """A control plane on this machine.

    Parameters
    ----------
    name
        Name of the cluster.
    """

    kubelets: tuple[str, ...] = ()
    """Names of the nodes that have a kubelet on this machine."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ip_family: IpFamily | None = None
        self.folder: ClusterFolder = cluster_folder(name)

    def up(self, fabric: FabricSettings, progress: Progress, *, expected_nodes: int = 0) -> ClusterAccess:
        """Start the processes that do not run, and synchronize the nodes; healthy processes are not restarted.

        Parameters
        ----------
        fabric
            The nodes.
        progress
            Receives progress.
        expected_nodes
            Number of nodes to size the processes for, if larger than the fabric's.

        Raises
        ------
        TrainyardError
            A program, a port, disk space or memory is not available, or the state file is invalid.
        """
        programs = Toolchain().ensure(progress=progress)
        with (
            progress.step("Control plane") as step,
            exclusive(self.folder.lock, on_wait=lambda: step.update("waiting for another command to finish")),
        ):
            state = self._prepare(
                {program.name: ProgramFile(program.version, str(program.path)) for program in programs},
                max(fabric.node_count, expected_nodes),
            )
            began = time.monotonic()
            started = self._start(state, step)
            step.done(f"ready after {time.monotonic() - began:.1f} s" if started else "already running")
        with progress.step("Nodes") as step:
            step.done(str(self.sync_nodes(fabric)))
        return self.access()

    def _prepare(self, programs: dict[str, ProgramFile], nodes: int) -> ClusterState:
        known = load_state(self.folder)
        if known is not None and bool(known.kubelets) != bool(self.kubelets):
            raise TrainyardError(
                f"Cluster {self.name} was created with {'kubelets' if known.kubelets else 'simulated nodes'}",
                fix="use its provider, another --name, or `trainyard cluster down --delete` first",
            )
        family = self._family(known)
        self._require_disk_space()
        private_folder(self.folder.root)
        with exclusive(state_home() / "clusters" / ".ports.lock"):
            ports = {} if known is None else {use: port for use, port in known.ports.items() if use in PORT_NAMES}
            state = ClusterState(
                allocate(
                    str(self.folder.root),
                    ports,
                    reserved_by_others(state_home() / "clusters", self.name),
                    ADDRESSES[family].host,
                ),
                programs,
                max(size_class(nodes), 0 if known is None else known.nodes),
                self.kubelets,
                family,
            )
            if state != known:
                save_state(self.folder, state)
        ensure_certificates(self.folder.pki, datetime.datetime.now(datetime.UTC))
        write_configuration(self.folder, state)
        private_folder(self.folder.pulumi)
        if not (self.folder.pulumi / "passphrase").is_file():
            write_private(self.folder.pulumi / "passphrase", LOCAL_PASSPHRASE)
        return state

    def _family(self, known: ClusterState | None) -> IpFamily:
        """Return the address family: that of the cluster, or for a new one the chosen one."""
        if known is not None and self.ip_family in (None, known.ip_family):
            return known.ip_family
        if known is not None:
            raise TrainyardError(
                f"Cluster {self.name} was created with {known.ip_family}",
                fix="leave out --ip-family, use another --name, or run `trainyard cluster down --delete` first",
            )
        family = self.ip_family or DEFAULT_FAMILY
        if not has_address(ADDRESSES[family].host):
            raise TrainyardError(
                f"This machine has no address {ADDRESSES[family].host}",
                fix="enable it for the loopback interface, or use the other --ip-family",
            )
        return family

    def _require_disk_space(self) -> None:
        existing = next(path for path in (self.folder.root, *self.folder.root.parents) if path.exists())
        free = shutil.disk_usage(existing).free
        if free < _DISK_NEEDED:
            raise TrainyardError(
                f"The disk has too little free space: {free >> 20} MiB in {existing}, "
                f"the control plane needs {_DISK_NEEDED >> 20} MiB",
                fix="free space, or set TRAINYARD_STATE_HOME to a folder on a larger disk",
            )

    def _require_memory(self) -> None:
        available = psutil.virtual_memory().available
        if available < _MEMORY_NEEDED:
            raise TrainyardError(
                f"The control plane needs about {_MEMORY_NEEDED >> 20} MiB of memory; {available >> 20} MiB are free",
                fix="stop other programs, or another cluster with `trainyard cluster down --name …`",
            )

    def _start(self, state: ClusterState, step: Step) -> bool:
        processes = cluster_processes(self.folder, state)
        supervisor = self._supervisor([process.spec.digest for process in processes])
        running = read_record(self.folder.processes, "supervisor")
        if running is not None and alive(running):
            if running.digest == supervisor.digest:
                complete = all(self._current(process.spec) for process in processes)
                self._await_healthy(processes, step)
                return not complete
            stop(running)
        stale = [p for p in processes if not alive(read_record(self.folder.processes, p.spec.name))]
        for process in stale:
            require_free_ports(process.ports, self.name, process.probe.host)
            self._forget_failures(process.spec.name)
        if len(stale) == len(processes):
            self._require_memory()
        (self.folder.processes / HEARTBEAT).unlink(missing_ok=True)
        write_record(self.folder.processes, start(supervisor)[1])
        self._await_healthy(processes, step)
        return True

    def _forget_failures(self, name: str) -> None:
        """Reset the record of a process that does not run: failures under a former supervisor do not count."""
        record = read_record(self.folder.processes, name)
        if record is not None:
            write_record(self.folder.processes, replace(stopped(record), restarts=0))

    def _current(self, spec: ProcessSpec) -> bool:
        record = read_record(self.folder.processes, spec.name)
        return record is not None and record.digest == spec.digest and alive(record)

    def _supervisor(self, digests: list[str]) -> ProcessSpec:
        keep = {name: os.environ[name] for name in (*HOME_VARIABLES, KEY_VARIABLE) if name in os.environ}
        package = Path(__file__).resolve().parents[2]
        return ProcessSpec(
            name="supervisor",
            version="",
            command=(sys.executable, "-m", "trainyard.local.cluster.supervisor", "--name", self.name),
            log=self.folder.log("supervisor"),
            environment={**keep, "PYTHONPATH": str(package.parent), "PYTHONUNBUFFERED": "1"},
            inputs=f"{sources_digest()}{digests}",
        )

    def _await_healthy(self, processes: tuple[ControlPlaneProcess, ...], step: Step) -> None:
        """Wait for the control plane, then for a shorter time for the programs installed on it."""
        specs = {process.spec.name: process.spec for process in processes}
        deadline = time.monotonic() + _START_TIMEOUT
        installed_deadline: float | None = None
        while True:
            now, found = time.monotonic(), inspect(self.folder).processes
            own = [process for process in found if process.name == "supervisor" or process.name in specs]
            waiting = [p for p in own if not p.ok or (p.name in specs and not self._current(specs[p.name]))]
            late = [process for process in found if process not in own and process.pending]
            for process in waiting:
                self._raise_if_failed(process, out_of_time=now > deadline)
            if not waiting:
                installed_deadline = installed_deadline or now + _PLATFORM_TIMEOUT
                if not late or now > installed_deadline:
                    return
            step.update(
                f"waiting for {', '.join(process.name for process in (*waiting, *late))}",
                fraction=1 - len(waiting) / len(own),
            )
            time.sleep(0.1)

    def _raise_if_failed(self, process: ProcessStatus, *, out_of_time: bool) -> None:
        record = read_record(self.folder.processes, process.name)
        failed = record is not None and (record.restarts >= _MAX_CRASHES or record.waiting.startswith("port "))
        if process.name == "supervisor":
            failed = not alive(record)
        if failed or out_of_time:
            raise TrainyardError(
                f"{process.name} of cluster {self.name} does not become healthy: {process.detail}",
                fix=f"read {process.log}; `trainyard cluster status --name {self.name}` shows the other processes",
            )

    def down(self, *, delete: bool, progress: Progress) -> None:
        """Stop every process, the supervisor first; with ``delete``, remove all files, including the Pulumi state."""
        require_ownership(self.folder.root)
        with progress.step("Stop the control plane") as step, exclusive(self.folder.lock):
            running = int(self._stop("supervisor", step))
            running += self._stop_nodes(step)
            with ThreadPoolExecutor(max_workers=_PARALLEL_STOPS) as pool:
                platform = (
                    partial(self._stop, name, step, program.fast_stop_signal) for name, program in host_processes()
                )
                running += sum(pool.map(lambda stopping: stopping(), platform))
            running += sum(self._stop(name, step) for name in reversed(CONTROL_PLANE_PROGRAMS))
            step.done(f"{running} processes stopped" if running else "nothing was running")
            if delete and self.folder.root.exists():
                shutil.rmtree(self.folder.root)
                step.done(f"{running} processes stopped, {self.folder.root} removed")

    def _stop_nodes(self, step: Step) -> int:
        """Stop the processes of nodes, and return their number; simulated ones have none.

        A cluster of provider node is stopped completely whatever the provider of the command is. A damaged state does
        not tell whether it is one; the processes are found without it.
        """
        try:
            state = load_state(self.folder)
        except TrainyardError:
            pass
        else:
            if state is None or not state.kubelets:
                return 0
        from trainyard.local.cluster.node.cleanup import stop_nodes

        return stop_nodes(self.folder, step)

    def _stop(self, name: str, step: Step, request: signal.Signals = signal.SIGTERM) -> bool:
        record = read_record(self.folder.processes, name)
        if record is None:
            return False
        running = alive(record)
        if running:
            step.update(f"stopping {name}")
            stop(record, request=request)
        if running or record.waiting != NOT_INSTALLED:
            write_record(self.folder.processes, stopped(record, "stopped"))
        return running

    def status(self) -> ClusterStatus:
        """Return the status of every process."""
        return inspect(self.folder)

    def logs(self, process: str, lines: int) -> str:
        """Return the last lines of the log of a process.

        Raises
        ------
        TrainyardError
            The process does not exist, or it has never run.
        """
        log = log_file(self.folder, process)
        if log is None:
            known = [each.name for each in self.status().processes]
            raise TrainyardError(f"Process {process!r} does not exist", fix=f"use one of {', '.join(known)}")
        if not log.is_file():
            raise TrainyardError(
                f"{process} of cluster {self.name} has no log, because it has never run",
                fix="see `trainyard cluster status`",
            )
        return last_lines(log, lines)

    def sync_nodes(self, fabric: FabricSettings) -> NodeChanges:
        """Synchronize the simulated nodes with the fabric."""
        # Imported here, because the HTTP client is slow to import and most commands do not need it.
        from trainyard.kube.api_errors import ApiError, TransportError
        from trainyard.local.cluster import simulated_nodes as nodes

        try:
            return asyncio.run(nodes.sync(self.access().kubeconfig, fabric))
        except (ApiError, TransportError) as error:
            raise TrainyardError(
                f"The nodes of cluster {self.name} cannot be synchronized: {error}",
                fix="see `trainyard cluster status`",
            ) from error

    def has_room_for(self, nodes: int) -> bool:
        """Whether the processes are sized for that many nodes."""
        state = load_state(self.folder)
        return state is not None and state.nodes >= size_class(nodes)

    def environment(self) -> dict[str, str]:
        """Return the variables that point tools at this control plane."""
        return local_environment(self.access().kubeconfig, self.folder.pulumi, Toolchain().folders())

    def keep_access(self) -> None:
        """Do nothing: the folder of the cluster has the kubeconfig."""

    def access(self) -> ClusterAccess:
        """Return the access to the control plane.

        Raises
        ------
        TrainyardError
            The cluster does not exist, or was started by an older Trainyard, whose programs had fewer ports.
        """
        state = load_state(self.folder)
        if state is None or not self.folder.kubeconfig.is_file():
            raise TrainyardError(
                f"Cluster {self.name} does not exist", fix=f"run `trainyard cluster up --name {self.name}`"
            )
        if any(use not in state.ports for use in PORT_NAMES):
            raise TrainyardError(
                f"Cluster {self.name} was started by an older Trainyard",
                fix=f"run `trainyard cluster up --name {self.name}`, which restarts its processes and keeps objects",
            )
        ports = {program: state.ports[f"{program}/webhook"] for program in WEBHOOK_PROGRAMS}
        return ClusterAccess(
            self.name, self.folder.kubeconfig, None, ports, self._webhook_client(state), state.addresses.host
        )

    def _webhook_client(self, state: ClusterState) -> WebhookClient | None:
        """Return what the API server shows to webhooks; nothing if an earlier version has started it last."""
        authority = self.folder.pki / f"{WEBHOOK_CLIENT_AUTHORITY}.crt"
        if not authority.is_file():
            return None
        return WebhookClient(authority.read_text(), WEBHOOK_CLIENT, authenticated_webhooks(state))
