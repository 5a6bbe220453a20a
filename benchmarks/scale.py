"""Many suspended TrainJobs: what the controller holds, how long its event loop pauses, what a restart asks for.

Prints one line a figure. Nothing else acts on the objects. The longest pause is the longest answer of the health server
out of one request every twentieth of a second; it includes what the machine's scheduler takes.

    python -m benchmarks.scale [--jobs 50000]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import psutil
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.control_plane import await_job_sets, control_plane, create_namespace, create_train_jobs
from benchmarks.recording import ROOT, publish
from trainyard.kube.client import Client
from trainyard.local.cluster import ports

NAME = "scale"
_PROBE_SECONDS = 0.05
_QUIET_SECONDS = 5.0


class Controller:
    """One controller process, asked through its health and metrics servers."""

    def __init__(self, process: psutil.Process, health: int, metrics: int) -> None:
        self.process, self._health, self._metrics = process, health, metrics
        self.longest_pause = 0.0

    async def probe(self) -> None:
        """Note the longest answer until cancelled."""
        async with aiohttp.ClientSession() as session:
            while True:
                started = time.monotonic()
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(f"http://127.0.0.1:{self._health}/healthz"):
                        self.longest_pause = max(self.longest_pause, time.monotonic() - started)
                await asyncio.sleep(_PROBE_SECONDS)

    async def requests(self) -> Counter[str]:
        """Return the requests it sent, by method and resource."""
        found: Counter[str] = Counter()
        async with aiohttp.ClientSession() as session:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"http://127.0.0.1:{self._metrics}/metrics") as response:
                    for family in text_string_to_metric_families(await response.text()):
                        for sample in family.samples:
                            if sample.name == "rest_client_requests_total":
                                labels = sample.labels
                                found[f"{labels['method']} {labels.get('resource', '')}".strip()] += int(sample.value)
        return found

    async def quiet(self) -> Counter[str]:
        """Wait until it has begun and sends nothing but watches any more; return what it sent."""
        before, since = Counter[str](), time.monotonic()
        while True:
            await asyncio.sleep(0.5)
            sent = await self.requests()
            if sent != before:
                before, since = sent, time.monotonic()
            elif sent and time.monotonic() - since >= _QUIET_SECONDS:
                return sent


@contextlib.asynccontextmanager
async def controller(kubeconfig: str, log: Path, *options: str) -> AsyncIterator[Controller]:
    """Run a controller and probe it."""
    health, metrics, *_ = ports.allocate(str(log.parent), {}, set()).values()
    command = [sys.executable, "-m", "trainyard", "controller", "run", *options, "--host", "127.0.0.1"]
    command += ["--health-port", str(health), "--metrics-port", str(metrics), "--kubeconfig", kubeconfig]
    with log.open("w") as output:
        process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=output, stderr=output)
        found = Controller(psutil.Process(process.pid), health, metrics)
        probing = asyncio.create_task(found.probe())
        try:
            yield found
        finally:
            probing.cancel()
            process.terminate()
            await process.wait()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--jobs", type=int, default=50_000)
    jobs = parser.parse_args().jobs
    with control_plane(NAME, roomy=True) as (kubeconfig, folder):
        publish("scale", asyncio.run(_measured(kubeconfig, folder, jobs)))


async def _measured(kubeconfig: str, folder: Path, jobs: int) -> dict[str, Any]:
    async with Client.from_kubeconfig(kubeconfig, timeout=60.0) as client:
        await create_namespace(client, NAME)
        async with controller(kubeconfig, folder / "first.log", "--no-webhooks") as first:
            await first.quiet()
            empty = _resident(first)
            await create_train_jobs(client, NAME, range(jobs), suspend=True)
            await await_job_sets(client, NAME, jobs)
            await first.quiet()
            full, building = _resident(first), first.longest_pause
        async with controller(kubeconfig, folder / "second.log", "--no-webhooks") as second:
            sent = await second.quiet()
            restarted, pause = _resident(second), second.longest_pause
    return {
        "jobs": jobs,
        "resident MiB, idle": empty,
        "resident MiB, with all jobs": full,
        "resident MiB, after a restart": restarted,
        "KiB a job": round((restarted - empty) * 1024 / jobs, 2),
        "longest pause of the loop while they arrive, ms": round(building * 1000),
        "longest pause of the loop in a restart, ms": round(pause * 1000),
        "requests of a restart": dict(sorted(sent.items())),
        "requests of a restart, all": sum(sent.values()),
    }


def _resident(controller: Controller) -> float:
    return round(controller.process.memory_info().rss / 2**20, 1)


if __name__ == "__main__":
    main()
