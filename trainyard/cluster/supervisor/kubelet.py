"""The local kubelet: runs the pods of the platform's Deployments as processes of this machine.

The Deployment and ReplicaSet controllers of the control plane decide which pods there are, so that scaling, roll-outs
and the replacement of a deleted pod are those of any cluster. Each pod gets a slot with ports, files and a token of its
own. It is ready while all its processes are, and the forwarder in front of a program's webhooks knows only ready pods.
A deleted pod first gets no new connections, then its processes are asked to stop, those of further containers after the
first, which may need them to its end. The pod goes when they have stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from trainyard.cluster.files import ClusterFolder, write_private
from trainyard.cluster.kwok_stages import ENDED_ANNOTATION, HEALTHY_ANNOTATION, HOST_PROCESS_LABEL
from trainyard.cluster.ports import SLOTS, slot_name
from trainyard.cluster.process import NOT_INSTALLED
from trainyard.cluster.state import ClusterState
from trainyard.cluster.supervisor.forwarder import Forwarder
from trainyard.cluster.supervisor.host import HostProcess
from trainyard.cluster.supervisor.host_programs import RECIPES
from trainyard.cluster.supervisor.placement import Placement, place, shortage
from trainyard.cluster.supervisor.pods import ended, ending, grace_period, owned, parse, programs
from trainyard.kube import ApiError, Client, TransportError, WatchBrokenError
from trainyard.kube.kinds import PODS
from trainyard.problem import TrainyardError

__all__ = ["Kubelet"]

_POD = "pod"
"""File of a slot with the uid of its pod, so that a new supervisor leaves the process to it."""

Body = Mapping[str, Any]

_log = logging.getLogger(__name__)


class Kubelet:
    """Slots of every platform program, and the forwarders in front of them.

    Parameters
    ----------
    folder, state
        The cluster.
    connections
        Connections at the same time through one forwarder.

    Attributes
    ----------
    changed
        Set when a process started or ended.
    settled
        Whether every pod that exists is ready.
    """

    def __init__(self, folder: ClusterFolder, state: ClusterState, *, connections: int = 4096) -> None:
        self.changed = asyncio.Event()
        self.settled = False
        self._folder = folder
        self._hosts = {
            (program, slot): HostProcess(program, recipe, slot, folder, state, self.changed.set)
            for program, recipe in RECIPES.items()
            for slot in range(SLOTS)
        }
        self._forwarders = {
            program: Forwarder(state.ports[recipe.listens], limit=connections)
            for program, recipe in RECIPES.items()
            if recipe.listens
        }
        self._held = {program: self._remembered(program) for program in RECIPES}

    async def run(self) -> None:
        """Keep the processes and forward connections until cancelled; the processes outlive it."""
        keepers = [asyncio.create_task(host.keeper.run()) for host in self._hosts.values()]
        try:
            await asyncio.gather(*keepers)
        finally:
            for task in keepers:
                task.cancel()
            hosts = [host.close() for host in self._hosts.values()]
            forwarders = [forwarder.close() for forwarder in self._forwarders.values()]
            await asyncio.gather(*keepers, *hosts, *forwarders, return_exceptions=True)

    async def reconcile(self, client: Client, deployments: Sequence[Body], pods: Sequence[Body]) -> None:
        """Run what should run, and say on the pods what does.

        Parameters
        ----------
        deployments, pods
            Those with the label of host processes.
        """
        owners = _owners(deployments)
        placements = {program: self._place(program, owners.get(program), pods) for program in RECIPES}
        self._route(placements)
        used: set[tuple[str, int]] = set()
        work: list[Awaitable[None]] = []
        for program, placement in placements.items():
            for slot, pod in placement.slots.items():
                for each in _known(programs(pod)):
                    used.add((each, slot))
                    work.append(_tolerant(slot_name(each, slot), self._run(client, pod, each, slot)))
            self._explain(program, owners.get(program), placement, used)
        for key, host in self._hosts.items():
            if key not in used:
                host.rest(NOT_INSTALLED)
        await _all(work)
        await self._forward(placements)
        self._route(placements)
        await _all([_tolerant(_name(pod), self._report(client, pod, placements)) for pod in pods])
        self.settled = all(
            ending(pod) or self._ready(pod, slot) for each in placements.values() for slot, pod in each.slots.items()
        )

    def _place(self, program: str, owner: Body | None, pods: Sequence[Body]) -> Placement:
        held = self._held[program]
        own = [
            pod
            for pod in pods
            if pod["metadata"]["uid"] in held.values()
            or (owner is not None and _program(pod) == program and owned(pod, owner))
        ]
        beside = _known(programs(owner["spec"]["template"])) if owner is not None else (program,)
        new = {pod["metadata"]["uid"] for pod in own}.difference(held.values())
        placement = place(own, held, self._busy(beside) if new else (), SLOTS)
        self._remember(program, {slot: pod["metadata"]["uid"] for slot, pod in placement.slots.items()})
        return placement

    def _busy(self, beside: Sequence[str]) -> set[int]:
        return {slot for slot in range(SLOTS) if any(not self._hosts[each, slot].keeper.resting for each in beside)}

    async def _run(self, client: Client, pod: Body, program: str, slot: int) -> None:
        host, first = self._hosts[program, slot], self._hosts[_program(pod), slot]
        host.keeper.grace = grace_period(pod)
        if ending(pod):
            if host is first or first.keeper.resting:
                host.rest(NOT_INSTALLED)
            return
        try:
            if unknown := set(programs(pod)) - RECIPES.keys():
                raise TrainyardError(
                    f"Pod {_name(pod)}: this machine cannot run container {', '.join(sorted(unknown))}",
                    fix=f"name it after one of {', '.join(RECIPES)}, or take it out of the Deployment",
                )
            container = parse(pod, program)
        except TrainyardError as error:
            host.rest(str(error))
            return
        await host.run(client, container)

    def _explain(self, program: str, owner: Body | None, placement: Placement, used: set[tuple[str, int]]) -> None:
        """Say in free slots why replicas that a Deployment wants do not run."""
        if owner is None:
            return
        reasons = shortage(owner, placement)
        if not placement.slots and not reasons:
            reasons = ("scaled to 0 replicas",)
        beside = _known(programs(owner["spec"]["template"]))
        free = [slot for slot in range(SLOTS) if slot not in placement.slots]
        for slot, why in zip(free, reasons, strict=False):
            for each in beside:
                self._hosts[each, slot].rest(why)
                used.add((each, slot))

    async def _forward(self, placements: Mapping[str, Placement]) -> None:
        """Listen where a program's webhooks are called, as long as there are pods of it."""
        for program, forwarder in self._forwarders.items():
            if not placements[program].slots:
                await forwarder.close()
                continue
            try:
                await forwarder.start()
            except OSError as error:
                _log.warning("port %s of %s cannot be listened on: %s", forwarder.port, program, error.strerror)

    def _route(self, placements: Mapping[str, Placement]) -> None:
        for program, forwarder in self._forwarders.items():
            forwarder.targets = [
                self._hosts[program, slot].ports[f"{program}/webhook"]
                for slot, pod in placements[program].slots.items()
                if not ending(pod) and self._ready(pod, slot)
            ]

    def _ready(self, pod: Body, slot: int) -> bool:
        return all((each, slot) in self._hosts and self._hosts[each, slot].ready for each in programs(pod))

    async def _report(self, client: Client, pod: Body, placements: Mapping[str, Placement]) -> None:
        """Annotate a pod, for the stages that make its status."""
        uid = pod["metadata"]["uid"]
        running = {
            body["metadata"]["uid"]: slot for program in placements for slot, body in placements[program].slots.items()
        }
        slot = running.get(uid)
        if ending(pod):
            gone = slot is None or all(self._hosts[each, slot].keeper.resting for each in _known(programs(pod)))
            if gone and not ended(pod):
                await _annotate(client, pod, ENDED_ANNOTATION, "true")
            return
        forwarder = self._forwarders.get(_program(pod))
        ready = slot is not None and self._ready(pod, slot) and (forwarder is None or forwarder.listening)
        await _annotate(client, pod, HEALTHY_ANNOTATION, "true" if ready else "false")

    def _remembered(self, program: str) -> dict[int, str]:
        found: dict[int, str] = {}
        for slot in range(SLOTS):
            with contextlib.suppress(OSError):
                found[slot] = (self._folder.processes / slot_name(program, slot) / _POD).read_text().strip()
        return found

    def _remember(self, program: str, held: dict[int, str]) -> None:
        before, self._held[program] = self._held[program], held
        for slot in before.keys() | held.keys():
            file = self._folder.processes / slot_name(program, slot) / _POD
            try:
                if slot not in held:
                    file.unlink(missing_ok=True)
                elif before.get(slot) != held[slot]:
                    write_private(file, held[slot] + "\n")
            except (OSError, TrainyardError) as error:
                _log.warning("%s: %s", slot_name(program, slot), error)


def _known(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in RECIPES)


async def _all(work: Sequence[Awaitable[None]]) -> None:
    """Do all of it at the same time, and to its end, before the first failure is raised."""
    for result in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


def _owners(deployments: Sequence[Body]) -> dict[str, Body]:
    """Return the Deployment of each program: the oldest, where several ask for it."""
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
    """Return the program that the label names, empty without the label."""
    return str((body["metadata"].get("labels") or {}).get(HOST_PROCESS_LABEL, ""))


def _name(body: Body) -> str:
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


async def _annotate(client: Client, pod: Body, key: str, value: str) -> None:
    metadata = pod["metadata"]
    if (metadata.get("annotations") or {}).get(key) != value:
        patch = {"metadata": {"uid": metadata["uid"], "annotations": {key: value}}}
        await client.merge_patch(PODS, metadata["name"], patch, namespace=metadata["namespace"])


async def _tolerant(name: str, work: Awaitable[None]) -> None:
    """Do something for one process or pod, whose trouble must not end the supervision of the others."""
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
        _log.exception("%s cannot be supervised", name)
