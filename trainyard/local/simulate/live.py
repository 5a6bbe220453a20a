"""A scenario on a real control plane: creates PodGroups and pods, and detects when the scheduler is idle.

The scheduler does not report that it is idle. A control pod shows it: a pod without requests in a gang of its own,
submitted after everything else. When it is bound, a whole scheduling session has processed all other pods. Several
controls in a row without any other change mean that the scheduler is idle, see `idle_sessions`.

A gang that loses pods is restarted as a whole, as JobSet does; if it still has minMember pods, only the lost ones are
replaced. Pods of Jobs and Volcano Jobs are created and replaced by their controllers.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from trainyard.errors import TrainyardError
from trainyard.insight.usage.bodies import is_evicted
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.informer import Informer
from trainyard.kube.kinds import NODES, PODS
from trainyard.kube.store import StoreChange
from trainyard.kube.training_kinds import POD_GROUPS, QUEUES
from trainyard.local.cluster.provider import ClusterStatus
from trainyard.local.cluster.simulated_nodes import desired_nodes
from trainyard.local.simulate.controlled_jobs import controlled_job
from trainyard.local.simulate.fleet import delete_pods, retried
from trainyard.local.simulate.gang_objects import JOB_LABEL, ROLE_LABEL, group_body, pod_body, pod_group_of, pod_of
from trainyard.local.simulate.idle_detection import idle_sessions
from trainyard.local.simulate.name_list import Names
from trainyard.local.simulate.replay import Settled
from trainyard.local.simulate.scenario_jobs import DEFAULT_NAMESPACE, JobKind, ScenarioGang
from trainyard.local.simulate.volcano_install import ON_PLATFORM_NODE, kill, wait_until
from trainyard.scheduling.queues.queue import DEFAULT
from trainyard.settings.fabric import FabricSettings

_CONTROL_TIMEOUT = 60.0
_ROUNDS = 60


@dataclass
class _Gang:
    """An active job: its current pods with their indexes, and the number of pods created so far."""

    job: ScenarioGang
    pods: dict[str, int] = field(default_factory=dict)
    made: int = 0
    lost: bool = False

    @property
    def controlled(self) -> bool:
        """Whether a controller creates its pods."""
        return self.job.kind is not JobKind.GANG

    @property
    def complete(self) -> bool:
        """Whether all its pods exist."""
        return len(self.pods) == self.job.pods


class LiveWorld:
    """`World` on a real control plane.

    Parameters
    ----------
    client
        Administrator's client.
    fabric
        Settings of the nodes, to recreate repaired ones.
    pods
        Informer of the replay's pods.
    status
        Returns the status of the cluster's processes.
    last_error
        Returns the last error in the scheduler's log.
    preempts
        Whether the scheduler's configuration has action preempt.
    """

    def __init__(
        self,
        client: Client,
        fabric: FabricSettings,
        pods: Informer,
        status: Callable[[], ClusterStatus],
        last_error: Callable[[], str],
        *,
        preempts: bool = False,
    ) -> None:
        self._client, self._fabric, self._pods = client, fabric, pods
        self._status, self._last_error, self._preempts = status, last_error, preempts
        self._gangs: dict[str, _Gang] = {}
        self._restarts: defaultdict[str, int] = defaultdict(int)
        self._evicted: set[str] = set()
        self._changes = 0
        # KWOK terminates deleted pods by name, also a new pod of the same name, so each replay uses its own names.
        self._mark = f"-{secrets.token_hex(3)}"
        self._controls = count()
        self._control: tuple[str, asyncio.Event] | None = None
        pods.subscribe(self._seen)

    def _seen(self, change: StoreChange) -> None:
        body = change.new or change.old
        assert body is not None  # noqa: S101
        metadata = body["metadata"]
        if metadata["labels"][ROLE_LABEL] == "control":
            bound = change.new is not None and change.new["spec"].get("nodeName")
            if self._control and metadata["name"] == self._control[0] and bound:
                self._control[1].set()
            return
        if _relevant_state(change.old) == _relevant_state(change.new):
            return
        self._changes += 1
        gang = self._gangs.get(metadata["labels"][JOB_LABEL])
        deleted = change.new is None or change.new["metadata"].get("deletionTimestamp")
        if gang is not None and deleted and metadata["name"] in gang.pods:
            del gang.pods[metadata["name"]]
            gang.lost = True
            if is_evicted(body):
                self._evicted.add(metadata["name"].replace(self._mark, ""))
        elif gang is not None and gang.controlled and not deleted:
            gang.pods.setdefault(metadata["name"], len(gang.pods))

    async def submit(self, job: ScenarioGang) -> None:
        """Create the objects of a job."""
        gang = self._gangs[job.name] = _Gang(job)
        if gang.controlled:
            resource, body = controlled_job(job, f"{job.name}{self._mark}")
            await retried(partial(self._client.create, resource, body))
            await self._await_complete(gang)
            return
        await self._create_group(pod_group_of(job))
        await self._create_pods(gang, job.pods)

    async def withdraw(self, name: str) -> None:
        """Delete the objects of a job."""
        gang = self._gangs.pop(name)
        if gang.controlled:
            resource, body = controlled_job(gang.job, f"{name}{self._mark}")
            await self._client.delete(resource, body["metadata"]["name"], namespace=gang.job.namespace)
            await delete_pods(self._client, gang.job.namespace, gang.pods)
            return
        await delete_pods(self._client, gang.job.namespace, gang.pods)
        await self._client.delete(POD_GROUPS, name, namespace=gang.job.namespace)

    async def restart(self, name: str) -> None:
        """Recreate all pods of a job, as JobSet does; the PodGroup is kept."""
        await self._restart_gang(self._gangs[name])

    async def fail(self, nodes: list[str]) -> None:
        """Delete nodes with their pods."""
        failed = set(nodes)
        await asyncio.gather(*(self._client.delete(NODES, name) for name in nodes))
        for gang in self._gangs.values():
            lost = [pod for pod, node in self._placed(gang) if node in failed]
            for pod in lost:
                gang.pods.pop(pod, None)
            gang.lost = gang.lost or bool(lost)
            await delete_pods(self._client, gang.job.namespace, lost)

    async def repair(self, nodes: list[str]) -> None:
        """Recreate nodes."""
        desired = desired_nodes(self._fabric)
        for name in nodes:
            with _ignore_existing():
                await self._client.create(NODES, desired[name])

        async def ready() -> bool:
            found = [await self._client.get(NODES, name) for name in nodes]
            return all(
                any(
                    each["type"] == "Ready" and each["status"] == "True"
                    for each in node["status"].get("conditions", ())
                )
                for node in found
            )

        await wait_until("the repaired nodes are ready", ready)

    async def cordon(self, nodes: list[str], *, on: bool) -> None:
        """Cordon or uncordon nodes; missing ones are ignored."""
        patch = {"spec": {"unschedulable": True if on else None}}
        for name in nodes:
            with _ignore_missing():
                await self._client.merge_patch(NODES, name, patch)

    async def kill(self, programs: Names) -> None:
        """Kill programs of Volcano, and wait until they have restarted."""
        await kill(programs, self._status)

    async def change_queue(self, body: Mapping[str, Any]) -> None:
        """Replace the amounts of a Queue; those that the new spec omits are removed."""
        name = body["metadata"]["name"]
        live = (await self._client.get(QUEUES, name))["spec"]
        removed = dict.fromkeys(key for key in ("deserved", "guarantee", "capability") if key in live)
        await self._client.json_patch(
            QUEUES,
            name,
            [
                *({"op": "remove", "path": f"/spec/{key}"} for key in removed),
                *({"op": "add", "path": f"/spec/{key}", "value": value} for key, value in body["spec"].items()),
            ],
        )

    async def settle(self) -> Settled:
        """Wait until enough controls in a row were bound without any other change.

        Raises
        ------
        TrainyardError
            The scheduler places nothing, or does not become idle.
        """
        quiet = 0
        for _ in range(_ROUNDS + self._sessions()):
            before = self._changes
            await self._run_control()
            await self._replace_lost_pods()
            quiet = quiet + 1 if self._changes == before and self._is_idle() else 0
            if quiet >= self._sessions():
                placed = {
                    name: {pod.replace(self._mark, ""): node for pod, node in self._placed(gang)}
                    for name, gang in self._gangs.items()
                }
                restarts, self._restarts = dict(self._restarts), defaultdict(int)
                evicted, self._evicted = frozenset(self._evicted), set()
                return Settled(placed, restarts, evicted)
        moving = ", ".join(f"{name} ({times} times)" for name, times in self._restarts.items()) or "pods"
        raise TrainyardError(
            f"The scheduler does not become idle: it keeps moving {moving}",
            fix="the jobs evict each other in turn: set priorities or queues that give one of them precedence",
        )

    def _sessions(self) -> int:
        """Return the number of unchanged sessions after which the scheduler is idle."""
        gangs = self._gangs.values()
        if not (self._preempts and any(len(self._placed(gang)) < gang.job.pods for gang in gangs)):
            return idle_sessions()
        return idle_sessions(len({gang.job.queue for gang in gangs} | {DEFAULT}))

    async def _run_control(self) -> None:
        name = f"control-{next(self._controls)}{self._mark}"
        event = asyncio.Event()
        self._control = (name, event)
        group = {"minMember": 1, "queue": DEFAULT}
        await self._create_group(group_body(name, DEFAULT_NAMESPACE, group))
        labels = {ROLE_LABEL: "control"}
        await self._client.create(PODS, pod_body(name, DEFAULT_NAMESPACE, name, labels, {}, ON_PLATFORM_NODE))
        try:
            async with asyncio.timeout(_CONTROL_TIMEOUT):
                await event.wait()
        except TimeoutError as error:
            last_error = self._last_error()
            raise TrainyardError(
                f"The scheduler placed nothing for {_CONTROL_TIMEOUT:.0f} s, not even a pod without requests"
                + (f"; its last error: {last_error}" if last_error else ""),
                fix="check the queues and the scheduler configuration of the scenario",
            ) from error
        finally:
            self._control = None
            await delete_pods(self._client, DEFAULT_NAMESPACE, [name])
            await self._client.delete(POD_GROUPS, name, namespace=DEFAULT_NAMESPACE)

    async def _replace_lost_pods(self) -> None:
        await asyncio.gather(*(self._replace(gang) for gang in self._gangs.values() if gang.lost))

    async def _replace(self, gang: _Gang) -> None:
        if gang.controlled:
            gang.lost = False
            await self._await_complete(gang)
        elif len(gang.pods) < gang.job.min_member:
            await self._restart_gang(gang)
        else:
            gang.lost = False
            await self._create_pods(gang, gang.job.pods - len(gang.pods))

    async def _restart_gang(self, gang: _Gang) -> None:
        job, former = gang.job, gang.pods
        self._restarts[job.name] += 1
        if gang.controlled:
            await delete_pods(self._client, job.namespace, list(former))
            return
        gang.pods, gang.lost = {}, False
        await delete_pods(self._client, job.namespace, former)
        await self._create_pods(gang, job.pods)

    async def _create_pods(self, gang: _Gang, number: int) -> None:
        job = gang.job
        names = [f"{job.name}-{gang.made + index}{self._mark}" for index in range(number)]
        gang.made += number
        missing = sorted(set(range(job.pods)) - set(gang.pods.values()))[:number]
        created = dict(zip(names, missing, strict=True))
        gang.pods |= created
        bodies = [pod_of(job, name, index) for name, index in created.items()]
        await asyncio.gather(*(self._client.create(PODS, body) for body in bodies))

    async def _await_complete(self, gang: _Gang) -> None:
        """Wait until the controller of a job has created its pods; after a loss, that of Jobs waits for 10 s first."""

        async def complete() -> bool:
            return gang.complete

        await wait_until(f"the pods of job {gang.job.name} exist", complete)

    async def _create_group(self, body: dict[str, Any]) -> None:
        for _ in range(100):
            try:
                await self._client.create(POD_GROUPS, body)
                return
            except ApiError as error:
                # The webhook's cache may not contain the queue yet.
                if "queue" not in error.message.lower() and error.status < 500:
                    raise
                await asyncio.sleep(0.05)
        await self._client.create(POD_GROUPS, body)

    @property
    def placed_pods(self) -> int:
        """Number of pods that have a node."""
        return sum(len(self._placed(gang)) for gang in self._gangs.values())

    def _placed(self, gang: _Gang) -> list[tuple[str, str]]:
        found = []
        for name in sorted(gang.pods, key=lambda name: (len(name), name)):
            body = self._pods.store.get(gang.job.namespace, name)
            if body is not None and (node := body["spec"].get("nodeName")):
                found.append((name, node))
        return found

    def _is_idle(self) -> bool:
        wanted = {(gang.job.namespace, name) for gang in self._gangs.values() for name in gang.pods}
        live = {}
        for body in self._pods.store:
            if body["metadata"]["labels"][ROLE_LABEL] == "job":
                live[body["metadata"]["namespace"], body["metadata"]["name"]] = body
        return live.keys() == wanted and all(
            (body["status"].get("phase") == "Running") == bool(body["spec"].get("nodeName")) for body in live.values()
        )


@contextlib.asynccontextmanager
async def live_world(
    client: Client,
    fabric: FabricSettings,
    status: Callable[[], ClusterStatus],
    last_error: Callable[[], str] = lambda: "",
    *,
    preempts: bool = False,
) -> AsyncIterator[LiveWorld]:
    """Watch the pods of a prepared control plane for one replay."""
    informer = Informer(client, PODS, label_selector=ROLE_LABEL)
    task = asyncio.create_task(informer.run())
    try:
        await informer.wait_synced()
        yield LiveWorld(client, fabric, informer, status, last_error, preempts=preempts)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.contextmanager
def _ignore_missing() -> Any:
    try:
        yield
    except ApiError as error:
        if not error.not_found:
            raise


@contextlib.contextmanager
def _ignore_existing() -> Any:
    try:
        yield
    except ApiError as error:
        if not error.conflict:
            raise


def _relevant_state(pod: Mapping[str, Any] | None) -> tuple[object, ...] | None:
    """Return the state of a pod that counts as a change; the scheduler also updates conditions of waiting pods."""
    if pod is None:
        return None
    metadata = pod["metadata"]
    return metadata["uid"], pod["spec"].get("nodeName"), pod["status"].get("phase"), metadata.get("deletionTimestamp")
