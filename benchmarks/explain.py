"""`trainyard explain` on a live control plane with many jobs and nodes, as a user runs it, and from a snapshot.

The TrainJobs are suspended, so that nothing but their objects exists; each node has one placed pod. Writes
`benchmarks/results/explain.json`.

    python -m benchmarks.explain [--jobs 5000] [--nodes 1000]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from benchmarks.control_plane import await_job_sets, control_plane, create_namespace, create_train_jobs
from benchmarks.recording import ROOT, publish
from benchmarks.scale import controller
from trainyard import upstream
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.kinds import CUSTOM_RESOURCE_DEFINITIONS, NODES, PODS, SERVICE_ACCOUNTS
from trainyard.kube.resource import Resource
from trainyard.kube.training_kinds import POD_GROUPS, QUEUES
from trainyard.settings.versions import supported_versions

NAME = "explain"
QUEUE_COUNT = 20
ROUNDS = 5
_IN_FLIGHT = 32
_QUEUE_CRD = "config/crd/volcano/bases/scheduling.volcano.sh_queues.yaml"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--jobs", type=int, default=5_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    options = parser.parse_args()
    with control_plane(NAME, roomy=True) as (kubeconfig, folder):
        asyncio.run(_furnish(kubeconfig, folder, options.jobs, options.nodes))
        snapshot = str(folder / "cluster.json")
        floor = asyncio.run(_floor(kubeconfig))
        live = _seconds("explain", "job-0", "-n", NAME, "--kubeconfig", kubeconfig)
        saved = _seconds("snapshot", "save", snapshot, "--kubeconfig", kubeconfig, rounds=1)
        recorded = _seconds("explain", "job-0", "-n", NAME, "--from", snapshot)
        size = round(Path(snapshot).stat().st_size / 2**20, 1)
    results = {
        **{"jobs": options.jobs, "nodes": options.nodes, "queues": QUEUE_COUNT},
        **{"seconds, live": live, "seconds, from a snapshot": recorded, **floor},
        **{"seconds to save the snapshot": saved, "MiB of the snapshot": size},
        "seconds of a command that reads nothing": _seconds("completion", "bash"),
    }
    publish("explain", results)


async def _furnish(kubeconfig: str, folder: Path, jobs: int, nodes: int) -> None:
    async with Client.from_kubeconfig(kubeconfig, timeout=60.0) as client:
        await create_namespace(client, NAME)
        definition = yaml.safe_load(upstream.read("volcano", supported_versions("volcano")[0], _QUEUE_CRD))
        await client.apply(CUSTOM_RESOURCE_DEFINITIONS, definition, field_manager=NAME)
        async with controller(kubeconfig, folder / "controller.log", "--no-webhooks") as running:
            await running.quiet()
            await create_train_jobs(client, NAME, range(jobs), suspend=True)
            await await_job_sets(client, NAME, jobs)
            await running.quiet()
        share = {"nvidia.com/gpu": str(nodes * 8 // QUEUE_COUNT)}
        for number in range(QUEUE_COUNT):
            body = {"metadata": {"name": f"queue-{number}"}, "spec": {"parent": "root", "deserved": share}}
            await _created(client, QUEUES, body)
        account = {"metadata": {"name": "default", "namespace": NAME}}
        await client.apply(
            SERVICE_ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", **account}, field_manager=NAME
        )
        limit = asyncio.Semaphore(_IN_FLIGHT)
        await asyncio.gather(*(_node(client, number, limit) for number in range(nodes)))


async def _node(client: Client, number: int, limit: asyncio.Semaphore) -> None:
    """Create a node of 8 GPUs, and a pod on it that uses them."""
    name, amount = f"node-{number}", {"nvidia.com/gpu": "8", "cpu": "96", "memory": "1Ti", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    async with limit:
        simulated = {"kwok.x-k8s.io/node": "fake"}
        metadata = {"name": name, "labels": {"rack": f"rack-{number // 16}"}, "annotations": simulated}
        await _created(client, NODES, {"metadata": metadata})
        status = {"status": {"capacity": amount, "allocatable": amount, "conditions": [ready]}}
        await client.merge_patch(NODES, name, status, subresource="status")
        request = {"requests": {"nvidia.com/gpu": "8"}, "limits": {"nvidia.com/gpu": "8"}}
        container = {"name": "node", "image": "example.com/train:1", "resources": request}
        spec = {"nodeName": name, "containers": [container], "automountServiceAccountToken": False}
        await _created(client, PODS, {"metadata": {"name": f"pod-{number}", "namespace": NAME}, "spec": spec})


async def _floor(kubeconfig: str) -> dict[str, float]:
    """Return the median duration and the size of the large lists that a live explanation reads, not decoded."""
    durations, size = [], 0
    async with Client.from_kubeconfig(kubeconfig, timeout=60.0) as client:
        for _ in range(ROUNDS):
            started = time.perf_counter()
            answers = await asyncio.gather(*(client.exchange("GET", each.path()) for each in (POD_GROUPS, PODS, NODES)))
            durations.append(time.perf_counter() - started)
            size = sum(len(answer.payload) for answer in answers)
    seconds = round(statistics.median(durations), 2)
    return {
        "seconds of the API server for its PodGroups, pods and nodes": seconds,
        "MiB of these": round(size / 2**20, 1),
    }


async def _created(client: Client, resource: Resource, body: dict[str, Any]) -> None:
    """Create an object once its kind is served."""
    for _ in range(60):
        try:
            await client.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, **body})
            return
        except (ApiError, TransportError) as error:
            if isinstance(error, ApiError) and not error.not_found:
                raise
            await asyncio.sleep(1)
    raise TimeoutError(str(resource))


def _seconds(*arguments: str, rounds: int = ROUNDS) -> float:
    """Return the median duration of a command, with its start."""
    durations = []
    for _ in range(rounds):
        started = time.perf_counter()
        command = [sys.executable, "-m", "trainyard", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=os.environ, stdout=subprocess.PIPE, text=True)
        durations.append(time.perf_counter() - started)
        if done.returncode:
            raise RuntimeError(f"{command}: exit code {done.returncode}")
    return round(statistics.median(durations), 2)


if __name__ == "__main__":
    main()
