"""A world without a cluster: gangs of whole nodes, placed whole and in the order they came."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from trainyard.local.simulate.replay import Settled
from trainyard.local.simulate.scenario import Scenario, load_scenario
from trainyard.local.simulate.scenario_jobs import ScenarioGang

SMALL = {"domains": [{"name": "spine", "domains": [{"name": "rack-a", "nodes": 4}, {"name": "rack-b", "nodes": 4}]}]}


def scenario(folder: Path, **sections: Any) -> Scenario:
    """Load a scenario of eight nodes with the given sections."""
    path = folder / "scenario.yaml"
    document = {"title": "A test", "fabric": SMALL, "jobs": {"one": {"pods": 1, "for": "1h"}}, **sections}
    path.write_text(yaml.safe_dump(document))
    return load_scenario(path)


class Fifo:
    """The World of the tests."""

    def __init__(self, scenario: Scenario) -> None:
        self.nodes = [node.name for node in scenario.fabric.nodes]
        self.closed: set[str] = set()
        self.jobs: dict[str, ScenarioGang] = {}
        self.placed: dict[str, dict[str, str]] = {}
        self.restarts: dict[str, int] = {}
        self.queues: list[Mapping[str, Any]] = []
        self.killed: tuple[str, ...] = ()

    async def submit(self, job: ScenarioGang) -> None:
        self.jobs[job.name], self.placed[job.name] = job, {}

    async def withdraw(self, name: str) -> None:
        del self.jobs[name], self.placed[name]

    async def restart(self, name: str) -> None:
        self.placed[name] = {}
        self.restarts[name] = self.restarts.get(name, 0) + 1

    async def fail(self, nodes: list[str]) -> None:
        self.closed |= set(nodes)
        for name, pods in self.placed.items():
            if set(pods.values()) & set(nodes):
                await self.restart(name)

    async def repair(self, nodes: list[str]) -> None:
        self.closed -= set(nodes)

    async def cordon(self, nodes: list[str], *, on: bool) -> None:
        self.closed = self.closed | set(nodes) if on else self.closed - set(nodes)

    async def kill(self, programs: tuple[str, ...]) -> None:
        self.killed += programs

    async def change_queue(self, body: Mapping[str, Any]) -> None:
        self.queues.append(body)

    async def settle(self) -> Settled:
        for name, job in self.jobs.items():
            used = {node for pods in self.placed.values() for node in pods.values()} | self.closed
            free = [node for node in self.nodes if node not in used]
            if not self.placed[name] and len(free) >= job.min_member:
                restart = self.restarts.get(name, 0)
                pods = enumerate(free[: job.pods])
                self.placed[name] = {f"{name}-{restart}-{index}": node for index, node in pods}
        restarts, self.restarts = self.restarts, {}
        return Settled({name: dict(pods) for name, pods in self.placed.items()}, restarts)
