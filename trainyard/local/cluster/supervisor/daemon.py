"""The supervisor's process: one per cluster (file lock); SIGTERM ends it without ending the supervised processes."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from trainyard.kube.change_watch import API_FAILURES, watch_changes
from trainyard.kube.client import Client
from trainyard.kube.kinds import DEPLOYMENTS, NAMESPACES, PODS
from trainyard.local.cluster.cluster_processes import cluster_processes
from trainyard.local.cluster.controlplane import ControlPlaneProcess
from trainyard.local.cluster.folders import ClusterFolder
from trainyard.local.cluster.health_probes import Probe, probe
from trainyard.local.cluster.kwok_stages import HOST_PROCESS_LABEL
from trainyard.local.cluster.node.node_plan import machine_name, plan_nodes
from trainyard.local.cluster.node.policy_enforcer import enforce
from trainyard.local.cluster.ports import find_conflict
from trainyard.local.cluster.process import HEARTBEAT, rotate_log
from trainyard.local.cluster.state import ClusterState, load_state
from trainyard.local.cluster.supervisor.bootstrap import bootstrap, release_nodes
from trainyard.local.cluster.supervisor.kubelet import Kubelet
from trainyard.local.cluster.supervisor.process_supervisor import ProcessSupervisor
from trainyard.logs import write_logs

_KWOK = "kwok"
_TENANT_LABEL = "trainyard.dev/tenant"
"""Label of the namespaces of tenants."""
_HEARTBEAT_SECONDS = 5.0
_OPEN_FILES = 16384
"""Desired limit of open files; a forwarded connection needs two."""
_THREADS = 32
"""Maximum concurrent probes."""
_UNSETTLED, _SETTLED = 0.5, 2.0
"""Seconds between two reconciliations while something is not healthy, and otherwise."""

_log = logging.getLogger(__name__)


def run(folder: ClusterFolder) -> int:
    """Supervise a cluster until SIGTERM; return the exit code."""
    write_logs(logging.INFO, "%(asctime)s %(levelname)s %(message)s")
    descriptor = os.open(folder.root / "supervisor.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _log.error("another supervisor runs for cluster %s", folder.name)
        return 1
    state = load_state(folder)
    if state is None:
        _log.error("cluster %s was never created", folder.name)
        return 1
    asyncio.run(_supervise(folder, state))
    return 0


async def _supervise(folder: ClusterFolder, state: ClusterState) -> None:
    """Supervise until SIGTERM, then exit at once, without waiting for builds in other threads."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(max_workers=_THREADS))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    loop.add_signal_handler(signal.SIGHUP, lambda: None)
    processes = cluster_processes(folder, state)
    prepared = asyncio.Event()
    tasks = [loop.create_task(_heartbeat(folder)), loop.create_task(_platform(folder, state, processes, prepared))]
    probes = {process.spec.name: process.probe for process in processes}
    for process in processes:
        supervisor = ProcessSupervisor(
            folder.processes, process.spec.name, ready_to_start=partial(_may_start, process, probes, prepared)
        )
        supervisor.set_desired(process.spec)
        tasks.append(loop.create_task(supervisor.run()))
    waiter = loop.create_task(_until(ended))
    done, _ = await asyncio.wait([waiter, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in done - {waiter}:
        task.result()
    _log.info("supervisor exits; supervised processes continue")
    logging.shutdown()
    os._exit(0)


async def _until(event: asyncio.Event) -> None:
    await event.wait()


async def _may_start(process: ControlPlaneProcess, probes: dict[str, Probe], prepared: asyncio.Event) -> str | None:
    if why := await find_conflict(process.ports, process.probe.host):
        return why
    if process.spec.name == _KWOK and not prepared.is_set():
        return "waiting for its roles and node leases"
    if process.depends_on is not None and (why := await asyncio.to_thread(probe, probes[process.depends_on])):
        return f"waiting for {process.depends_on}, which {why}"
    return None


async def _heartbeat(folder: ClusterFolder) -> None:
    while True:
        (folder.processes / HEARTBEAT).touch(mode=0o600)
        for log in folder.logs.glob("*.log"):
            await asyncio.to_thread(rotate_log, log)  # In a thread: copying a large log must not block forwarders.
        await asyncio.sleep(_HEARTBEAT_SECONDS)


async def _platform(
    folder: ClusterFolder, state: ClusterState, processes: tuple[ControlPlaneProcess, ...], prepared: asyncio.Event
) -> None:
    probes = {process.spec.name: process.probe for process in processes}
    if state.kubelets:  # The platform's programs are pods.
        await _prepared(folder, probes, prepared)
        await enforce(folder.kubeconfig, plan_nodes(machine_name(folder.root), state.kubelets))
    kubelet = Kubelet(folder, state, connections=_connections())
    running = asyncio.create_task(kubelet.run())
    try:
        while True:
            try:
                if await asyncio.to_thread(probe, probes["kube-apiserver"]) is None:
                    await _prepare(folder, probes[_KWOK], prepared, simulated=True)
                    await _session(folder, kubelet)
            except API_FAILURES as error:
                _log.warning("API server: %s", error)
            except Exception:
                _log.exception("supervision of the platform failed")
            await asyncio.sleep(_UNSETTLED)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _prepared(folder: ClusterFolder, probes: dict[str, Probe], prepared: asyncio.Event) -> None:
    """Prepare the API server once."""
    while not prepared.is_set():
        try:
            if await asyncio.to_thread(probe, probes["kube-apiserver"]) is None:
                await _prepare(folder, probes[_KWOK], prepared, simulated=False)
        except API_FAILURES as error:
            _log.warning("API server: %s", error)
        await asyncio.sleep(_UNSETTLED)


def _connections() -> int:
    """Raise the limit of open files, and return the maximum connections of a forwarder."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(wanted, soft) // 8


async def _prepare(folder: ClusterFolder, kwok: Probe, prepared: asyncio.Event, *, simulated: bool) -> None:
    """Apply the bootstrap objects and, before KWOK starts, delete the node leases of its predecessor."""
    async with Client.from_kubeconfig(folder.kubeconfig, user_agent="trainyard-cluster") as administrator:
        await bootstrap(administrator, storage=simulated)
        if simulated and not prepared.is_set() and await asyncio.to_thread(probe, kwok) is not None:
            await release_nodes(administrator)
    prepared.set()


async def _session(folder: ClusterFolder, kubelet: Kubelet) -> None:
    wake = kubelet.changed
    async with (
        Client.from_kubeconfig(folder.kubeconfigs / "supervisor", user_agent="trainyard-supervisor") as client,
        watch_changes(client, (DEPLOYMENTS, PODS), wake.set, label_selector=HOST_PROCESS_LABEL),
    ):
        while True:
            wake.clear()
            deployments = await client.list(DEPLOYMENTS, label_selector=HOST_PROCESS_LABEL)
            pods = await client.list(PODS, label_selector=HOST_PROCESS_LABEL)
            tenants = {each["metadata"]["name"] for each in await client.list(NAMESPACES, label_selector=_TENANT_LABEL)}
            await kubelet.reconcile(client, deployments, pods, tenants)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SETTLED if kubelet.settled else _UNSETTLED):
                    await wake.wait()
