"""One controller process of the simulation: the real controller, without its HTTP servers."""

from __future__ import annotations

import asyncio
import datetime
import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import trainyard.controller
import trainyard.kube
from tests.simulation.network import Link, Network
from tests.simulation.virtual_time import VirtualTimeLoop
from trainyard.controller.application import Controller
from trainyard.controller.configuration import Configuration, LeaderElection
from trainyard.controller.servers import Servers
from trainyard.errors import TrainyardError
from trainyard.kube.credentials import Connection


class _NoServers(Servers):
    async def start(self, *arguments: Any, **options: Any) -> None:
        """No client could connect."""


class _WithoutServers(Controller):
    """The controller as it is deployed, but for what listens."""

    def __init__(self, configuration: Configuration, connection: Connection) -> None:
        super().__init__(configuration, connection)
        self._servers = _NoServers()

    async def _tune(self) -> None:
        """The garbage collector of Python belongs to the tests."""


class Process:
    """A process that can be killed and started again.

    Parameters
    ----------
    network
        Where its requests go.
    number
        Number of the replica.
    elects
        Whether it takes part in a leader election.
    """

    def __init__(self, network: Network, number: int, *, elects: bool) -> None:
        self._network = network
        self._number = number
        self._elects = elects
        self._starts = 0
        self._task: asyncio.Task[None] | None = None
        self.link: Link = network.link(f"controller-{number}-0.simulated")
        self.failures: list[BaseException] = []

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._task is not None and not self._task.done() and not self.link.dead

    def start(self) -> None:
        """Start with an empty memory."""
        if self.running:
            return
        self._starts += 1
        host = f"controller-{self._number}-{self._starts}.simulated"
        previous, self.link = self.link, self._network.link(host)
        self.link.latency, self.link.watch_delay = previous.latency, previous.watch_delay
        self.link.loss, self.link.late, self.link.cut = previous.loss, previous.late, previous.cut
        self.link.on_crash = self.kill
        configuration = Configuration(
            webhooks=False, workers=4, leader_election=LeaderElection(enabled=self._elects), health={"port": 0}
        )
        controller = _WithoutServers(configuration, Connection(f"http://{host}"))
        self._task = self._network.loop.create_task(controller.run())
        self._task.add_done_callback(functools.partial(self._ended, self.link))

    def kill(self) -> None:
        """End it between two instructions; requests that were sent still arrive."""
        self.link.dead = True
        if self._task is not None:
            self._task.cancel()

    def _ended(self, link: Link, task: asyncio.Task[None]) -> None:
        killed, link.dead = link.dead, True
        if task.cancelled() or killed:
            return
        error = task.exception()
        if error is None or (isinstance(error, TrainyardError) and "leadership was lost" in error.message):
            return
        self.failures.append(error)


def _clock_defaults() -> list[tuple[dict[str, Any], bool]]:
    """Return the keyword defaults that are clocks, and whether each is a wall clock."""
    found: list[tuple[dict[str, Any], bool]] = []
    for package in (trainyard.kube, trainyard.controller):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for _, thing in inspect.getmembers(importlib.import_module(module.name)):
                for function in (thing, getattr(thing, "__init__", None)):
                    defaults = getattr(function, "__kwdefaults__", None) or {}
                    clock = defaults.get("clock")
                    if callable(clock) and all(defaults is not known for known, _ in found):
                        found.append((defaults, isinstance(clock(), datetime.datetime)))
    return found


_CLOCKS = _clock_defaults()


@contextmanager
def virtual_clocks(loop: VirtualTimeLoop) -> Iterator[None]:
    """Let everything of the controller that takes a clock take that of the loop by default."""
    before: list[Callable[[], Any]] = [defaults["clock"] for defaults, _ in _CLOCKS]
    for defaults, wall in _CLOCKS:
        defaults["clock"] = loop.wall if wall else loop.time
    try:
        yield
    finally:
        for (defaults, _), clock in zip(_CLOCKS, before, strict=True):
            defaults["clock"] = clock
