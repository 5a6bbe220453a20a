"""The local kubelet: runs the pods of the platform's Deployments as host processes.

The Deployment and ReplicaSet controllers create and delete the pods, so scaling, roll-outs and the replacement of
deleted pods work as in any cluster. Each pod gets a slot with its own ports, files and token. It is ready while all its
processes are, and the forwarder of a program's webhooks uses ready pods only. A deleted pod first gets no new
connections. Then its first process is stopped, then those of its sidecars, which the first may need until it exits. The
pod is removed when all have stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Collection, Mapping, Sequence
from typing import Any

from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError, WatchBrokenError
from trainyard.kube.client import Client
from trainyard.kube.kinds import PODS
from trainyard.local.cluster.folders import ClusterFolder, write_private
from trainyard.local.cluster.kwok_stages import ENDED_ANNOTATION, HEALTHY_ANNOTATION, HOST_PROCESS_LABEL
from trainyard.local.cluster.ports import SLOTS, slot_name
from trainyard.local.cluster.process import NOT_INSTALLED
from trainyard.local.cluster.state import ClusterState
from trainyard.local.cluster.supervisor.forwarder import Forwarder
from trainyard.local.cluster.supervisor.host import HostProcess
from trainyard.local.cluster.supervisor.host_programs import HOST_PROGRAMS
from trainyard.local.cluster.supervisor.pod_requirements import ended, ending, grace_period, owned, parse, programs
from trainyard.local.cluster.supervisor.slots import SlotPlacement, place, shortage

_POD_FILE = "pod"
"""File with the uid of a slot's pod, so that a new supervisor keeps the process."""

Body = Mapping[str, Any]

_log = logging.getLogger(__name__)


class Kubelet:
    """Slots of all platform programs, and the forwarders of their webhooks.

    Parameters
    ----------
    folder, state
        The cluster.
    connections
        Maximum concurrent connections of a forwarder.

    Attributes
    ----------
    changed
        Set when a process has started or exited.
    settled
        Whether every pod that exists is ready.
    """

    def __init__(self, folder: ClusterFolder, state: ClusterState, *, connections: int = 4096) -> None:
        self.changed = asyncio.Event()
        self.settled = False
        self._folder, self._host = folder, state.addresses.host
        self._hosts = {
            (program, slot): HostProcess(program, host_program, slot, folder, state, self.changed.set)
            for program, host_program in HOST_PROGRAMS.items()
            for slot in range(SLOTS)
        }
        self._forwarders = {
            program: Forwarder(state.ports[host_program.serving_port], limit=connections, host=state.addresses.host)
            for program, host_program in HOST_PROGRAMS.items()
            if host_program.serving_port
        }
        self._assigned = {program: self._load_assignments(program) for program in HOST_PROGRAMS}

    async def run(self) -> None:
        """Supervise processes and forward connections until cancelled; the processes continue to run."""
        supervisors = [asyncio.create_task(host.supervisor.run()) for host in self._hosts.values()]
        try:
            await asyncio.gather(*supervisors)
        finally:
            for task in supervisors:
                task.cancel()
            hosts = [host.close() for host in self._hosts.values()]
            forwarders = [forwarder.close() for forwarder in self._forwarders.values()]
            await asyncio.gather(*supervisors, *hosts, *forwarders, return_exceptions=True)

    async def reconcile(
        self, client: Client, deployments: Sequence[Body], pods: Sequence[Body], tenants: Collection[str] = ()
    ) -> None:
        """Reconcile processes with pods, and annotate the pods.

        Parameters
        ----------
        deployments, pods
            Deployments and pods with the host-process label.
        tenants
            Namespaces of tenants, whose Deployments start nothing: the label is the platform's own.
        """
        deployments = [each for each in deployments if each["metadata"]["namespace"] not in tenants]
        owners = _owners(deployments)
        placements = {program: self._place(program, owners.get(program), pods) for program in HOST_PROGRAMS}
        self._route(placements)
        used: set[tuple[str, int]] = set()
        work: list[Awaitable[None]] = []
        for program, placement in placements.items():
            for slot, pod in placement.slots.items():
                for each in _known(programs(pod)):
                    used.add((each, slot))
                    work.append(_log_failure(slot_name(each, slot), self._run(client, pod, each, slot)))
            self._explain(program, owners.get(program), placement, used)
        for key, host in self._hosts.items():
            if key not in used:
                host.stop(NOT_INSTALLED)
        await _all(work)
        await self._forward(placements)
        self._route(placements)
        await _all([_log_failure(_name(pod), self._report(client, pod, placements)) for pod in pods])
        self.settled = all(
            ending(pod) or self._ready(pod, slot) for each in placements.values() for slot, pod in each.slots.items()
        )

    def _place(self, program: str, owner: Body | None, pods: Sequence[Body]) -> SlotPlacement:
        assigned = self._assigned[program]
        own = [
            pod
            for pod in pods
            if pod["metadata"]["uid"] in assigned.values()
            or (owner is not None and _program(pod) == program and owned(pod, owner))
        ]
        beside = _known(programs(owner["spec"]["template"])) if owner is not None else (program,)
        new = {pod["metadata"]["uid"] for pod in own}.difference(assigned.values())
        placement = place(own, assigned, self._busy(beside) if new else (), SLOTS)
        self._save_assignments(program, {slot: pod["metadata"]["uid"] for slot, pod in placement.slots.items()})
        return placement

    def _busy(self, beside: Sequence[str]) -> set[int]:
        return {
            slot for slot in range(SLOTS) if any(not self._hosts[each, slot].supervisor.inactive for each in beside)
        }

    async def _run(self, client: Client, pod: Body, program: str, slot: int) -> None:
        host, first = self._hosts[program, slot], self._hosts[_program(pod), slot]
        host.supervisor.grace = grace_period(pod)
        if ending(pod):
            if host is first or first.supervisor.inactive:
                host.stop(NOT_INSTALLED)
            return
        try:
            if unknown := set(programs(pod)) - HOST_PROGRAMS.keys():
                raise TrainyardError(
                    f"Pod {_name(pod)}: container {', '.join(sorted(unknown))} cannot run as a host process",
                    fix=f"rename it to one of {', '.join(HOST_PROGRAMS)}, or remove it from the Deployment",
                )
            container = parse(pod, program, self._host)
        except TrainyardError as error:
            host.stop(str(error))
            return
        await host.run(client, container)

    def _explain(self, program: str, owner: Body | None, placement: SlotPlacement, used: set[tuple[str, int]]) -> None:
        """Record in free slots why desired replicas do not run."""
        if owner is None:
            return
        reasons = shortage(owner, placement)
        if not placement.slots and not reasons:
            reasons = ("scaled to 0 replicas",)
        beside = _known(programs(owner["spec"]["template"]))
        free = [slot for slot in range(SLOTS) if slot not in placement.slots]
        for slot, why in zip(free, reasons, strict=False):
            for each in beside:
                self._hosts[each, slot].stop(why)
                used.add((each, slot))

    async def _forward(self, placements: Mapping[str, SlotPlacement]) -> None:
        """Listen on the webhook ports of programs that have pods."""
        for program, forwarder in self._forwarders.items():
            if not placements[program].slots:
                await forwarder.close()
                continue
            try:
                await forwarder.start()
            except OSError as error:
                _log.warning("cannot listen on port %s of %s: %s", forwarder.port, program, error.strerror)

    def _route(self, placements: Mapping[str, SlotPlacement]) -> None:
        for program, forwarder in self._forwarders.items():
            forwarder.targets = [
                self._hosts[program, slot].ports[str(HOST_PROGRAMS[program].serving_port)]
                for slot, pod in placements[program].slots.items()
                if not ending(pod) and self._ready(pod, slot)
            ]

    def _ready(self, pod: Body, slot: int) -> bool:
        return all((each, slot) in self._hosts and self._hosts[each, slot].ready for each in programs(pod))

    async def _report(self, client: Client, pod: Body, placements: Mapping[str, SlotPlacement]) -> None:
        """Annotate a pod; KWOK's stages derive its status from the annotations."""
        uid = pod["metadata"]["uid"]
        running = {
            body["metadata"]["uid"]: slot for program in placements for slot, body in placements[program].slots.items()
        }
        slot = running.get(uid)
        if ending(pod):
            stopped = slot is None or all(self._hosts[each, slot].supervisor.inactive for each in _known(programs(pod)))
            if stopped and not ended(pod):
                await _annotate(client, pod, ENDED_ANNOTATION, "true")
            return
        forwarder = self._forwarders.get(_program(pod))
        ready = slot is not None and self._ready(pod, slot) and (forwarder is None or forwarder.listening)
        await _annotate(client, pod, HEALTHY_ANNOTATION, "true" if ready else "false")

    def _load_assignments(self, program: str) -> dict[int, str]:
        found: dict[int, str] = {}
        for slot in range(SLOTS):
            with contextlib.suppress(OSError):
                found[slot] = (self._folder.processes / slot_name(program, slot) / _POD_FILE).read_text().strip()
        return found

    def _save_assignments(self, program: str, assigned: dict[int, str]) -> None:
        before, self._assigned[program] = self._assigned[program], assigned
        for slot in before.keys() | assigned.keys():
            file = self._folder.processes / slot_name(program, slot) / _POD_FILE
            try:
                if slot not in assigned:
                    file.unlink(missing_ok=True)
                elif before.get(slot) != assigned[slot]:
                    write_private(file, assigned[slot] + "\n")
            except (OSError, TrainyardError) as error:
                _log.warning("%s: %s", slot_name(program, slot), error)


def _known(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in HOST_PROGRAMS)


async def _all(work: Sequence[Awaitable[None]]) -> None:
    """Await all concurrently; raise the first error only after all have finished."""
    for result in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


def _owners(deployments: Sequence[Body]) -> dict[str, Body]:
    """Return the Deployment of each program; the oldest one, if there are several."""
    found: dict[str, Body] = {}
    taken: set[str] = set()
    for body in sorted(deployments, key=lambda each: each["metadata"]["creationTimestamp"]):
        wanted = programs(body["spec"]["template"]) if _program(body["spec"]["template"]) else ()
        if body["metadata"].get("deletionTimestamp") or not wanted or taken.intersection(wanted):
            continue
        taken.update(wanted)
        found[wanted[0]] = body
    return found


def _program(body: Body) -> str:
    """Return the program in the host-process label; empty without the label."""
    return str((body["metadata"].get("labels") or {}).get(HOST_PROCESS_LABEL, ""))


def _name(body: Body) -> str:
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


async def _annotate(client: Client, pod: Body, key: str, value: str) -> None:
    metadata = pod["metadata"]
    if (metadata.get("annotations") or {}).get(key) != value:
        patch = {"metadata": {"uid": metadata["uid"], "annotations": {key: value}}}
        await client.merge_patch(PODS, metadata["name"], patch, namespace=metadata["namespace"])


async def _log_failure(name: str, work: Awaitable[None]) -> None:
    """Await work for one process or pod, and log its errors, which must not affect the others."""
    try:
        await work
    except ApiError as error:
        if error.status not in (403, 404, 409, 422):
            raise
        _log.warning("%s: %s", name, error)
    except (TransportError, WatchBrokenError, OSError):
        raise
    except TrainyardError as error:
        _log.warning("%s: %s", name, error)
    except Exception:
        _log.exception("supervision of %s failed", name)
