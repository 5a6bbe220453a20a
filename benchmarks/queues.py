"""The proof of large queue trees: reading people's units, and every rule, for each scheduler and version of Volcano.

Prints one line a tree (seconds of one core, the best of some runs) and writes `benchmarks/results/queues.json`.

    python -m benchmarks.queues [--queues 10000] [--runs 5]
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from typing import Any

from benchmarks.recording import publish
from trainyard.checks.finding import Finding
from trainyard.scheduling.queues.capacity import capacity_of
from trainyard.scheduling.queues.queue_bodies import queue_objects
from trainyard.scheduling.queues.scheduling import VOLCANO_VERSIONS, Scheduling, SharePlugin
from trainyard.scheduling.queues.tree_checks import check_queues
from trainyard.scheduling.queues.units import compile_queues
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import parse_stack

GPU = "nvidia.com/gpu"
SEGMENTS = 10
"""Divisions of the tree below root; each has teams, each team its queues."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--queues", type=int, default=10_000, help="queues of the tree")
    parser.add_argument("--runs", type=int, default=5, help="runs, of which the fastest counts")
    options = parser.parse_args()
    results: dict[str, Any] = {"queues": options.queues}
    for units in ("quantities", "percentages"):
        settings = _stack(options.queues, percent=units == "percentages", faulty=False)
        compiled = _best(options.runs, lambda settings=settings: compile_queues(settings.queues, capacity_of(settings)))
        results[f"compile_{units}_seconds"] = compiled
        results[f"proof_{units}_seconds"] = _proof(options.runs, settings, None, expected=units == "percentages")
    settings = _stack(options.queues, percent=False, faulty=False)
    for version in VOLCANO_VERSIONS:
        for plugin in SharePlugin:
            scheduling = Scheduling(version, frozenset({plugin}))
            key = f"proof_{version}_{plugin.value}_seconds"
            results[key] = _proof(options.runs, settings, scheduling, expected=plugin is not SharePlugin.TREE)
    results["objects_seconds"] = _best(options.runs, lambda: queue_objects(settings))
    faulty = _stack(options.queues, percent=False, faulty=True)
    results["proof_of_faulty_seconds"] = _proof(options.runs, faulty, None, expected=True)
    results["findings_of_faulty"] = len(check_queues(faulty))
    results["proof_microseconds_a_queue"] = round(results["proof_quantities_seconds"] / options.queues * 1e6, 1)
    results["objects_to_proof_ratio"] = round(results["objects_seconds"] / results["proof_quantities_seconds"], 2)
    publish("queues", results)


def _proof(runs: int, settings: StackSettings, scheduling: Scheduling | None, *, expected: bool) -> float:
    found: list[Finding] = check_queues(settings, scheduling=scheduling)
    assert bool(found) is expected, found[:3]
    return _best(runs, lambda: check_queues(settings, scheduling=scheduling))


def _best(runs: int, work: Callable[[], object]) -> float:
    """Return the seconds of one core that some work takes; what else the machine does is not counted."""
    times = []
    for _ in range(runs):
        gc.collect()
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return round(min(times), 3)


def _stack(count: int, *, percent: bool, faulty: bool) -> StackSettings:
    """Return a fabric and a tree of three levels that shares it out; every amount is another one."""
    teams = max(1, count // 100)
    leaves = count - SEGMENTS - teams
    sizes = [len(range(team, leaves, teams)) for team in range(teams)]
    queues: dict[str, dict[str, Any]] = {}
    for segment in range(SEGMENTS):
        share = _share(sum(sizes[segment::SEGMENTS]), None)
        queues[f"segment-{segment}"] = {"deserved": share, "capability": _share(leaves, None)}
    for team, size in enumerate(sizes):
        queues[f"team-{team}"] = {"parent": f"segment-{team % SEGMENTS}", "deserved": _share(size, None)}
    for leaf in range(leaves):
        team = leaf % teams
        deserved: Any = f"{10000 // sizes[team] / 100:.2f}%" if percent else _share(1, leaf)
        queues[f"leaf-{leaf}"] = {"parent": f"team-{team}", "deserved": deserved, "priority": leaf % 7}
        if faulty:
            queues[f"leaf-{leaf}"]["guarantee"] = {GPU: "9"}
    fabric = {"tierNames": ["rack"], "domains": [{"name": "rack", "nodes": leaves}]}
    tenants = {f"tenant-{team}": {"queues": [f"leaf-{team}"]} for team in range(teams)}
    values = {"cluster": {"provider": "embedded"}, "fabric": fabric, "queues": queues, "tenants": tenants}
    return parse_stack(values, source="benchmark")


def _share(parts: int, number: int | None) -> dict[str, str]:
    """Return what some leaves deserve together; leaves that are numbered all write another amount of memory."""
    memory = f"{64 * parts}Gi" if number is None else f"{64 * 1024 * 1024 - number}Ki"
    return {"cpu": str(96 * parts), "memory": memory, GPU: str(8 * parts)}


if __name__ == "__main__":
    main()
