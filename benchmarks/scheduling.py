"""Gangs scheduled per second: our presets beside Volcano's built-in configuration, in one run on one control plane.

All gangs exist before the scheduler starts, and they fill the cluster exactly; the clock runs from its start to the
last bound pod. Every contender gets the same gangs. In `topology` contenders each gang asks for one rack, and Volcano's
configuration has network-topology-aware as well. Prints a line a contender with its ratio to Volcano's configuration
for the same gangs: of time, and of CPU time of the scheduler, which other load on the machine changes less.

    python -m benchmarks.scheduling [--nodes 500] [--gangs 500] [--rounds 5] [--against training]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import psutil
import yaml

from benchmarks.recording import save
from trainyard.kube.client import Client
from trainyard.kube.kinds import DEPLOYMENTS
from trainyard.local.simulate.live import live_world
from trainyard.local.simulate.scenario import Scenario, load_scenario
from trainyard.local.simulate.session import ReplaySession
from trainyard.local.simulate.volcano_install import NAMESPACE, wait_until
from trainyard.progress import SilentProgress

NODES_IN_RACK = 10
PODS = 4
SCHEDULER = "volcano-scheduler"
VOLCANO = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
VOLCANO_TOPOLOGY = VOLCANO + "  - name: network-topology-aware\n"
CONTENDERS: dict[str, tuple[str | None, bool]] = {
    "volcano": (None, False),
    "training": ("training", False),
    "hierarchical": ("hierarchical", False),
    "preemption": ("preemption", False),
    "volcano, topology": (None, True),
    "training, topology": ("training", True),
    "topology, topology": ("topology", True),
}
"""Preset (None: Volcano's built-in configuration) and whether the gangs ask for a topology, by name."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--gangs", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--against",
        action="append",
        choices=[name for name in CONTENDERS if CONTENDERS[name][0]],
        help="may be repeated",
    )
    options = parser.parse_args()
    if not options.gangs or 8 * options.nodes % (options.gangs * PODS):
        parser.error(f"{options.nodes} nodes of 8 devices cannot be filled by {options.gangs} gangs of {PODS} pods")
    contenders = _contenders(options.against or list(CONTENDERS))
    # The control plane is stopped whatever ends the measurement, and however often it is interrupted.
    signal.signal(signal.SIGTERM, _end)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRAINYARD_STATE_HOME"] = folder
        session = ReplaySession("scheduling")
        try:
            session.open(SilentProgress(), nodes=options.nodes)
            seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
            for _ in range(options.rounds):
                for name, (preset, topology) in contenders.items():
                    scenario = _scenario(Path(folder), preset, options.nodes, options.gangs, topology=topology)
                    volcano = VOLCANO_TOPOLOGY if topology else VOLCANO
                    configuration = volcano if preset is None else None
                    measured = session.connected(
                        lambda client, s=scenario, c=configuration: _measure(session, client, s, c)
                    )
                    seconds[name].append(measured)
                    print(f"{name}: {measured[0]:.1f} s, CPU {measured[1]:.1f} s", flush=True)
                    results = _results(seconds, options.nodes, options.gangs)
                    save(f"scheduling-{options.nodes}", results)
        finally:
            session.close()
    for name, figures in results["contenders"].items():
        print(name, json.dumps(figures))


def _end(*_: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit("ended from outside")


def _contenders(names: Sequence[str]) -> dict[str, tuple[str | None, bool]]:
    """Return the contenders of these names behind the configurations of Volcano that they are compared with."""
    topologies = {CONTENDERS[name][1] for name in names}
    compared = [name for name, (preset, topology) in CONTENDERS.items() if preset is None and topology in topologies]
    return {name: CONTENDERS[name] for name in dict.fromkeys((*compared, *names))}


def _results(seconds: dict[str, list[tuple[float, float]]], nodes: int, gangs: int) -> dict[str, Any]:
    """Return the medians of the rounds, of elapsed seconds and of the scheduler's CPU seconds, and their ratios."""
    middle = {
        name: (statistics.median(each[0] for each in values), statistics.median(each[1] for each in values))
        for name, values in seconds.items()
        if values
    }
    contenders = {}
    for name, (elapsed, cpu) in middle.items():
        volcano, volcano_cpu = middle["volcano, topology" if CONTENDERS[name][1] else "volcano"]
        contenders[name] = {
            "rounds": len(seconds[name]),
            "seconds": round(elapsed, 1),
            "cpu_seconds_of_the_scheduler": round(cpu, 1),
            "gangs_per_second": round(gangs / elapsed, 1),
            "pods_per_second": round(gangs * PODS / elapsed, 1),
            "speed_against_volcano": round(volcano / elapsed, 2),
            "cpu_against_volcano": round(cpu / volcano_cpu, 2),
        }
    return {"cores": os.cpu_count(), "nodes": nodes, "gangs": gangs, "pods_per_gang": PODS, "contenders": contenders}


def _scenario(folder: Path, preset: str | None, nodes: int, gangs: int, *, topology: bool) -> Scenario:
    devices = str(8 * nodes // (gangs * PODS))
    racks = [{"name": "rack", "copies": nodes // NODES_IN_RACK, "nodes": NODES_IN_RACK}]
    job: dict[str, Any] = {"queue": "team", "copies": gangs, "pods": PODS, "perPod": {"nvidia.com/gpu": devices}}
    if topology:
        job["topology"] = {"tier": "rack"}
    document = {
        "title": "Throughput",
        "fabric": {"tierNames": ["rack"], "domains": racks},
        "scheduler": {"preset": preset or "training"},
        "queues": {"team": {"deserved": {"nvidia.com/gpu": str(8 * nodes)}}},
        "jobs": {"gang": job},
    }
    path = folder / "throughput.yaml"
    path.write_text(yaml.safe_dump(document))
    return load_scenario(path)


async def _measure(
    session: ReplaySession, client: Client, scenario: Scenario, configuration: str | None
) -> tuple[float, float]:
    """Return the seconds until every pod is bound, and the scheduler's CPU seconds."""
    await session.prepare(client, scenario, configuration=configuration)
    await _scale(client, 0)
    await wait_until("the scheduler has stopped", lambda: _stopped(session))
    expected = sum(job.pods for job in scenario.jobs.values())
    async with live_world(client, scenario.settings.fabric, session.status) as world:
        await asyncio.gather(*(world.submit(job) for job in scenario.jobs.values()))
        started = time.monotonic()
        await _scale(client, 1)

        async def all_placed() -> bool:
            return world.placed_pods >= expected

        await wait_until("every pod is placed", all_placed, patience=3600)
        elapsed = time.monotonic() - started
        return elapsed, await _cpu_seconds(session)


async def _cpu_seconds(session: ReplaySession) -> float:
    times = psutil.Process(await _scheduler(session) or 0).cpu_times()
    return times.user + times.system


async def _scale(client: Client, replicas: int) -> None:
    await client.merge_patch(DEPLOYMENTS, SCHEDULER, {"spec": {"replicas": replicas}}, namespace=NAMESPACE)


async def _stopped(session: ReplaySession) -> bool:
    return await _scheduler(session) is None


async def _scheduler(session: ReplaySession) -> int | None:
    """Return the process id of the scheduler, if it runs."""
    status = await asyncio.to_thread(session.status)
    return next((each.pid for each in status.processes if each.name == "vc-scheduler" and each.pid), None)


if __name__ == "__main__":
    main()
