"""The supervisor's process: one a cluster, found by its lock, ended by SIGTERM without ending what it supervises."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from functools import partial

from trainyard.cluster.controlplane import ControlPlaneProcess, control_plane
from trainyard.cluster.files import ClusterFolder
from trainyard.cluster.health import Probe, probe
from trainyard.cluster.ports import taken
from trainyard.cluster.process import HEARTBEAT, rotate
from trainyard.cluster.stages import HOST_PROCESS_LABEL
from trainyard.cluster.state import ClusterState, load_state
from trainyard.cluster.supervisor.bootstrap import bootstrap
from trainyard.cluster.supervisor.deployment import programs
from trainyard.cluster.supervisor.host import HostProcess, mark
from trainyard.cluster.supervisor.keeper import Keeper
from trainyard.cluster.supervisor.recipes import RECIPES
from trainyard.kube import ApiError, Client, Resource, TransportError, WatchBrokenError
from trainyard.kube.kinds import DEPLOYMENTS, PODS
from trainyard.problem import TrainyardError

__all__ = ["run"]

_BEAT = 5.0
_UNSETTLED, _SETTLED = 0.5, 2.0
"""Seconds until the next look while something is not healthy yet, and otherwise."""
_API_FAILURES = (ApiError, TransportError, WatchBrokenError, OSError)

_log = logging.getLogger(__name__)


def run(folder: ClusterFolder) -> int:
    """Supervise a cluster until SIGTERM; return the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
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
    """Supervise until SIGTERM, then leave at once: a build that a thread waits for must not delay the end."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    loop.add_signal_handler(signal.SIGHUP, lambda: None)
    processes = control_plane(folder, state)
    tasks = [loop.create_task(_beat(folder)), loop.create_task(_platform(folder, state, processes))]
    probes = {process.spec.name: process.probe for process in processes}
    for process in processes:
        keeper = Keeper(folder.processes, process.spec.name, ready_to_start=partial(_may_start, process, probes))
        keeper.want(process.spec)
        tasks.append(loop.create_task(keeper.run()))
    waiter = loop.create_task(_until(ended))
    done, _ = await asyncio.wait([waiter, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in done - {waiter}:
        task.result()
    _log.info("supervisor ends; what it supervised runs on")
    logging.shutdown()
    os._exit(0)


async def _until(event: asyncio.Event) -> None:
    await event.wait()


async def _may_start(process: ControlPlaneProcess, probes: dict[str, Probe]) -> str | None:
    if why := await taken(process.ports):
        return why
    if process.after is not None and (why := await asyncio.to_thread(probe, probes[process.after])):
        return f"waits for {process.after}, which {why}"
    return None


async def _beat(folder: ClusterFolder) -> None:
    while True:
        (folder.processes / HEARTBEAT).touch(mode=0o600)
        for log in folder.logs.glob("*.log"):
            rotate(log)
        await asyncio.sleep(_BEAT)


async def _platform(folder: ClusterFolder, state: ClusterState, processes: tuple[ControlPlaneProcess, ...]) -> None:
    hosts = {program: HostProcess(program, recipe, folder, state) for program, recipe in RECIPES.items()}
    keepers = [asyncio.create_task(host.keeper.run()) for host in hosts.values()]
    apiserver = next(process.probe for process in processes if process.spec.name == "kube-apiserver")
    try:
        while True:
            try:
                if await asyncio.to_thread(probe, apiserver) is None:
                    await _session(folder, hosts)
            except _API_FAILURES as error:
                _log.warning("the API server: %s", error)
            await asyncio.sleep(_UNSETTLED)
    finally:
        for task in keepers:
            task.cancel()
        await asyncio.gather(*keepers, *(host.close() for host in hosts.values()), return_exceptions=True)


async def _session(folder: ClusterFolder, hosts: dict[str, HostProcess]) -> None:
    async with Client.from_kubeconfig(folder.kubeconfig, user_agent="trainyard-cluster") as administrator:
        await bootstrap(administrator)
    wake = asyncio.Event()
    async with Client.from_kubeconfig(folder.kubeconfigs / "supervisor", user_agent="trainyard-supervisor") as client:
        watches = [asyncio.create_task(_watch(client, resource, wake.set)) for resource in (DEPLOYMENTS, PODS)]
        try:
            while True:
                wake.clear()
                await _reconcile(client, hosts)
                pause = _SETTLED if all(host.settled for host in hosts.values()) else _UNSETTLED
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(wake.wait(), pause)
        finally:
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*watches, return_exceptions=True)


async def _reconcile(client: Client, hosts: dict[str, HostProcess]) -> None:
    deployments = await client.list(DEPLOYMENTS, label_selector=HOST_PROCESS_LABEL)
    pods = await client.list(PODS, label_selector=HOST_PROCESS_LABEL)
    living = [body for body in deployments if not body["metadata"].get("deletionTimestamp")]
    living.sort(key=lambda body: body["metadata"]["creationTimestamp"])
    for program, host in hosts.items():
        await _tolerant(program, host.reconcile(client, next((b for b in living if program in programs(b)), None)))
    for program in hosts:
        body = next((b for b in living if programs(b)[0] == program), None)
        if body is not None:
            healthy = all(name in hosts and hosts[name].healthy for name in programs(body))
            own = [pod for pod in pods if pod["metadata"]["labels"][HOST_PROCESS_LABEL] == program]
            await _tolerant(program, mark(client, body, own, healthy=healthy))


async def _tolerant(program: str, work: Awaitable[None]) -> None:
    """Do something for one program, whose trouble must not end the supervision of the others."""
    try:
        await work
    except ApiError as error:
        if error.status not in (403, 404, 409, 422):
            raise
        _log.warning("%s: %s", program, error)
    except (TransportError, WatchBrokenError, OSError):
        raise
    except TrainyardError as error:
        _log.warning("%s: %s", program, error)
    except Exception:
        _log.exception("%s cannot be supervised", program)


async def _watch(client: Client, resource: Resource, notify: Callable[[], None]) -> None:
    while True:
        with contextlib.suppress(*_API_FAILURES):
            version = (await client.page(resource, label_selector=HOST_PROCESS_LABEL, limit=0)).resource_version
            notify()
            async for _ in client.watch(resource, resource_version=version, label_selector=HOST_PROCESS_LABEL):
                notify()
        await asyncio.sleep(_UNSETTLED)
