"""How long the webhook server answers while its event loop reconciles a burst, as a ratio to an idle loop.

One process serves and reconciles, as a leading replica does; reviews of a TrainJob are sent to it directly, one after
the other, so neither the API server nor its policies are part of an answer. The API server of the burst shares the
machine's cores, so the ratio is an upper bound.

    python -m benchmarks.busy_admission [--jobs 2000]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.burst.measure import NAMESPACES, install, trainyard
from benchmarks.recording import publish
from benchmarks.scale import controller, create, train_job
from trainyard.cluster import ports
from trainyard.controller.configuration import SERVING_SECRET, Certificate, Configuration, LeaderElection
from trainyard.controller.resources import JOB_SETS
from trainyard.kube import Client

NAME = "busy"
SYSTEM = "trainyard-system"
PATHS = {
    "defaults": "/mutate-trainer-kubeflow-org-v1alpha1-trainjob",
    "validation": "/validate-trainer-kubeflow-org-v1alpha1-trainjob",
}
_IDLE_REVIEWS = 1000
_PAUSE_SECONDS = 0.01


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--jobs", type=int, default=2000)
    jobs = parser.parse_args().jobs
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"TRAINYARD_STATE_HOME": folder}
        try:
            trainyard(env, "cluster", "up", "--name", NAME)
            status = json.loads(trainyard(env, "cluster", "status", "--name", NAME, "-o", "json"))
            publish("busy_admission", asyncio.run(_measured(status["kubeconfig"], Path(folder), jobs)))
        finally:
            with contextlib.suppress(subprocess.CalledProcessError):
                trainyard(env, "cluster", "down", "--name", NAME, "--delete")


async def _measured(kubeconfig: str, folder: Path, jobs: int) -> dict[str, Any]:
    await install(kubeconfig)
    port = ports.allocate(str(folder / "webhook"), {}, set()).popitem()[1]
    served = Certificate(secret=SERVING_SECRET, namespace=SYSTEM, dns_names=("localhost",), ip_addresses=("127.0.0.1",))
    configuration = Configuration(
        namespace=SYSTEM, certificates=(served,), leader_election=LeaderElection(enabled=False)
    )
    file = folder / "configuration.yaml"
    file.write_text(configuration.as_yaml())
    async with Client.from_kubeconfig(kubeconfig, timeout=60.0) as client:
        for name in (SYSTEM, NAME):
            home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await client.apply(NAMESPACES, home, field_manager=NAME)
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
    await create(client, NAME, jobs, suspend=False)
    while len(await client.list(JOB_SETS, namespace=NAME, limit=0)) < jobs:  # noqa: ASYNC110 - another process works
        await asyncio.sleep(1)


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
        "object": train_job("reviewed", NAME, suspend=False),
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
