"""Session of replays: an embedded control plane with Volcano, reused between scenarios."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from trainyard.cluster import ClusterStatus
from trainyard.cluster.embedded import EmbeddedProvider
from trainyard.cluster.files import private_folder
from trainyard.cluster.process import last_error_line
from trainyard.kube import ApiError, Client, TransportError
from trainyard.problem import TrainyardError
from trainyard.progress import Progress, SilentProgress
from trainyard.scheduler.stack import in_force
from trainyard.settings.fabric import FabricSettings
from trainyard.simulate.fleet import clear, prepare
from trainyard.simulate.installation import install
from trainyard.simulate.live import live_world
from trainyard.simulate.replay import Replay, replay
from trainyard.simulate.scenario import Scenario

__all__ = ["DEFAULT_NAME", "Session"]

DEFAULT_NAME = "simulate"
"""Name of the cluster that replays use."""

_REQUESTS = 32
"""Requests in flight at the same time."""
_PATIENCE = 120.0
"""Seconds one request may take: a collection of many pods is deleted one after the other."""

_MARK = "simulate"
"""File in the cluster's folder that says that it belongs to replays."""

_T = TypeVar("_T")


class Session:
    """A control plane for replays.

    Parameters
    ----------
    name
        Name of the cluster; its own, because a replay removes what it finds there.

    Raises
    ------
    TrainyardError
        There is a cluster of that name that replays did not make.
    """

    def __init__(self, name: str = DEFAULT_NAME) -> None:
        self._provider = EmbeddedProvider(name)
        self._mark = self._provider.folder.root / _MARK
        if self._provider.folder.state.exists() and not self._mark.is_file():
            raise TrainyardError(
                f"Cluster {name} was not made by a replay, and a replay removes what it finds",
                fix=f"use another --name, or remove it with `trainyard cluster down --delete --name {name}`",
            )

    @property
    def running(self) -> bool:
        """Whether its control plane runs already."""
        return self.status().healthy

    def status(self) -> ClusterStatus:
        """Look at every process."""
        return self._provider.status()

    def open(self, progress: Progress, *, nodes: int = 0) -> None:
        """Start the control plane with room for so many nodes, and install Volcano, as far as that is not done."""
        private_folder(self._mark.parent)
        self._mark.touch()
        ready = self.running and self._provider.has_room_for(nodes)
        access = (
            self._provider.access() if ready else self._provider.up(FabricSettings(), progress, expected_nodes=nodes)
        )
        with progress.step("Volcano"):
            self.connected(lambda client: install(client, access, self._provider.status))

    def close(self) -> None:
        """Stop and remove the control plane."""
        self._provider.down(delete=True, progress=SilentProgress())

    def replay(self, scenario: Scenario, progress: Callable[[str, float], None] | None = None) -> Replay:
        """Replay a scenario and remove what it made.

        Parameters
        ----------
        scenario
            What happens.
        progress
            Told the instant and the share that is done.

        Raises
        ------
        TrainyardError
            The platform of the scenario cannot be made, or the scheduler places nothing or never comes to rest.
        """

        async def work(client: Client) -> Replay:
            await self.prepare(client, scenario)
            try:
                settings = scenario.settings
                preempts = any(action.name == "preempt" for action in in_force(settings).actions)
                async with live_world(
                    client, settings.fabric, self.status, self._complaint, preempts=preempts
                ) as world:
                    return await replay(scenario, world, progress)
            finally:
                await clear(client)

        return self.connected(work)

    async def prepare(self, client: Client, scenario: Scenario, *, configuration: str | None = None) -> None:
        """Make the control plane a scenario's platform; a given scheduler configuration replaces the scenario's."""
        await prepare(
            client,
            self._provider.access().kubeconfig,
            scenario.settings,
            self._provider.status,
            configuration=configuration,
        )

    def connected(self, work: Callable[[Client], Awaitable[_T]]) -> _T:
        """Do something with a client of the administrator."""

        async def connect() -> _T:
            kubeconfig = self._provider.access().kubeconfig
            options: dict[str, Any] = {
                "user_agent": "trainyard-simulate",
                "concurrency": _REQUESTS,
                "timeout": _PATIENCE,
            }
            async with Client.from_kubeconfig(kubeconfig, **options) as client:
                return await work(client)

        try:
            return asyncio.run(connect())
        except (ApiError, TransportError) as error:
            raise TrainyardError(
                f"The control plane of the replay refused or failed: {error}",
                fix=f"see `trainyard cluster status --name {self._provider.name}`",
            ) from error

    def _complaint(self) -> str:
        return last_error_line(self._provider.folder.log("vc-scheduler"))
