"""Session of replays: an embedded control plane with Volcano, reused between scenarios."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.local.cluster.embedded import EmbeddedProvider
from trainyard.local.cluster.folders import private_folder
from trainyard.local.cluster.process import last_error_line
from trainyard.local.cluster.provider import ClusterStatus
from trainyard.local.simulate.fleet import clear, prepare
from trainyard.local.simulate.live import live_world
from trainyard.local.simulate.replay import Replay, replay
from trainyard.local.simulate.scenario import Scenario
from trainyard.local.simulate.volcano_install import install
from trainyard.progress import Progress, SilentProgress
from trainyard.scheduling.scheduler.stack_configuration import effective_configuration
from trainyard.settings.fabric import FabricSettings

DEFAULT_NAME = "simulate"
"""Name of the cluster that replays use."""

_REQUESTS = 32
"""Maximum concurrent requests."""
_PATIENCE = 120.0
"""Timeout of a request in seconds; the API server deletes a collection of pods one by one."""

_MARK = "simulate"
"""File in the cluster's folder that marks it as a cluster for replays."""

_T = TypeVar("_T")


class ReplaySession:
    """A control plane for replays.

    Parameters
    ----------
    name
        Name of the cluster. Replays use a cluster of their own, because they delete existing objects.

    Raises
    ------
    TrainyardError
        A cluster of that name exists and was not created by a replay.
    """

    def __init__(self, name: str = DEFAULT_NAME) -> None:
        self._provider = EmbeddedProvider(name)
        self._mark = self._provider.folder.root / _MARK
        if self._provider.folder.state.exists() and not self._mark.is_file():
            raise TrainyardError(
                f"Cluster {name} was not created by a replay, and a replay would delete its objects",
                fix=f"use another --name, or remove it with `trainyard cluster down --delete --name {name}`",
            )

    @property
    def running(self) -> bool:
        """Whether its control plane runs."""
        return self.status().healthy

    def status(self) -> ClusterStatus:
        """Return the status of every process."""
        return self._provider.status()

    def open(self, progress: Progress, *, nodes: int = 0) -> None:
        """Start the control plane, sized for a number of nodes, and install Volcano; idempotent."""
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
        """Replay a scenario, and delete its objects.

        Parameters
        ----------
        scenario
            The scenario.
        progress
            Receives the instant and the finished share.

        Raises
        ------
        TrainyardError
            The platform cannot be set up, or the scheduler places nothing or does not become idle.
        """

        async def work(client: Client) -> Replay:
            await self.prepare(client, scenario)
            try:
                settings = scenario.settings
                preempts = any(action.name == "preempt" for action in effective_configuration(settings).actions)
                async with live_world(
                    client, settings.fabric, self.status, self._last_error, preempts=preempts
                ) as world:
                    return await replay(scenario, world, progress)
            finally:
                await clear(client)

        return self.connected(work)

    async def prepare(self, client: Client, scenario: Scenario, *, configuration: str | None = None) -> None:
        """Set up the platform of a scenario; `configuration` replaces its scheduler configuration."""
        await prepare(
            client,
            self._provider.access().kubeconfig,
            scenario.settings,
            self._provider.status,
            configuration=configuration,
        )

    def connected(self, work: Callable[[Client], Awaitable[_T]]) -> _T:
        """Call a function with an administrator's client."""

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
                f"A request to the control plane of the replay failed: {error}",
                fix=f"see `trainyard cluster status --name {self._provider.name}`",
            ) from error

    def _last_error(self) -> str:
        return last_error_line(self._provider.folder.log("vc-scheduler"))
