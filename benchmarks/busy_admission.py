"""Latency of the webhook server while its event loop reconciles a burst, as a ratio to an idle loop.

One process serves and reconciles, as a leading replica does; reviews of a TrainJob are sent to it directly, one after
the other, so neither the API server nor its policies are part of an answer. The API server of the burst shares the
machine's cores, so the ratio is an upper bound.

    python -m benchmarks.busy_admission [--jobs 2000]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import time
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.control_plane import await_job_sets, control_plane, create_namespace, create_train_jobs, train_job
from benchmarks.recording import publish
from benchmarks.scale import controller
from trainyard.controller.configuration import SERVING_SECRET, Certificate, Configuration, LeaderElection
from trainyard.controller.webhooks import MUTATE_TRAIN_JOB, VALIDATE_PREFIX
from trainyard.kube.client import Client
from trainyard.local.cluster import ports

NAME = "busy"
SYSTEM = "trainyard-system"
PATHS = {"defaults": MUTATE_TRAIN_JOB, "validation": f"{VALIDATE_PREFIX}trainjob"}
_IDLE_REVIEWS = 1000
_PAUSE_SECONDS = 0.01


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--jobs", type=int, default=2000)
    jobs = parser.parse_args().jobs
    with control_plane(NAME) as (kubeconfig, folder):
        publish("busy_admission", asyncio.run(_measured(kubeconfig, folder, jobs)))


async def _measured(kubeconfig: str, folder: Path, jobs: int) -> dict[str, Any]:
    port = ports.allocate(str(folder / "webhook"), {}, set()).popitem()[1]
    served = Certificate(secret=SERVING_SECRET, namespace=SYSTEM, dns_names=("localhost",), ip_addresses=("127.0.0.1",))
    configuration = Configuration(
        namespace=SYSTEM, certificates=(served,), leader_election=LeaderElection(enabled=False)
    )
    file = folder / "configuration.yaml"
    file.write_text(configuration.as_yaml())
    async with Client.from_kubeconfig(kubeconfig, timeout=60.0) as client:
        for name in (SYSTEM, NAME):
            await create_namespace(client, name)
        options = ("--config", str(file), "--webhook-port", str(port))
        async with controller(kubeconfig, folder / "controller.log", *options), aiohttp.ClientSession() as session:
            server = f"https://127.0.0.1:{port}"
            await _ready(session, server)
            idle = {
                kind: [await _review(session, server + PATHS[kind]) for _ in range(_IDLE_REVIEWS)] for kind in PATHS
            }
            busy: dict[str, list[float]] = {kind: [] for kind in PATHS}
            burst = asyncio.create_task(_burst(client, jobs))
            while not burst.done():
                for kind, path in PATHS.items():
                    busy[kind].append(await _review(session, server + path))
            await burst
    return {
        "jobs": jobs,
        **{
            f"{kind}, busy as a ratio to idle": {
                "reviews": len(busy[kind]),
                "median": round(statistics.median(busy[kind]) / statistics.median(idle[kind]), 2),
                "p99": round(_p99(busy[kind]) / _p99(idle[kind]), 2),
                "p99 busy, ms": round(_p99(busy[kind]) * 1000, 1),
            }
            for kind in PATHS
        },
    }


async def _ready(session: aiohttp.ClientSession, server: str) -> None:
    async with asyncio.timeout(120):
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                await _review(session, server + PATHS["validation"])
                return
            await asyncio.sleep(0.2)


async def _burst(client: Client, jobs: int) -> None:
    await create_train_jobs(client, NAME, range(jobs))
    await await_job_sets(client, NAME, jobs)


async def _review(session: aiohttp.ClientSession, url: str) -> float:
    """Send one review and return the seconds until its answer."""
    await asyncio.sleep(_PAUSE_SECONDS)
    kind = {"group": "trainer.kubeflow.org", "version": "v1alpha1", "kind": "TrainJob"}
    request = {
        "uid": "review",
        "operation": "CREATE",
        "kind": kind,
        "namespace": NAME,
        "name": "reviewed",
        "userInfo": {"username": "somebody"},
        "object": train_job("reviewed", NAME),
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    started = time.monotonic()
    async with session.post(url, json=body, ssl=False) as response:
        answer = await response.json()
    elapsed = time.monotonic() - started
    if not answer["response"]["allowed"]:
        raise SystemExit(f"the review was refused: {answer['response'].get('status')}")
    return elapsed


def _p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98]


if __name__ == "__main__":
    main()
