"""One controller under a burst of TrainJobs, from the first create to the last JobSet.

Nothing else acts on the objects (no JobSet controller, no webhooks), so the figure is the controller's own.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import yaml

from benchmarks.recording import ROOT
from trainyard import upstream
from trainyard.api import crds
from trainyard.controller.resources import CLUSTER_TRAINING_RUNTIMES, JOB_SETS, POD_GROUPS, TRAIN_JOBS
from trainyard.kube import Client, Resource
from trainyard.settings.versions import component_release, supported_versions

NAME = "burst"
JOBSET_CRD = "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
POD_GROUP_CRD = "config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml"
IN_FLIGHT = 32
Figures = dict[str, Any]


def contend(name: str, command: Sequence[str], jobs: int, environment: Mapping[str, str] | None = None) -> Figures:
    """Return the figures of one controller on a control plane of its own.

    Parameters
    ----------
    name
        Names the namespace.
    command
        Its command; ``{kubeconfig}`` in an argument or a variable is replaced.
    jobs
        TrainJobs in the burst.
    environment
        Variables of its process.
    """
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"TRAINYARD_STATE_HOME": folder}
        try:
            trainyard(env, "cluster", "up", "--name", NAME)
            status = json.loads(trainyard(env, "cluster", "status", "--name", NAME, "-o", "json"))
            kubeconfig = status["kubeconfig"]
            asyncio.run(install(kubeconfig))
            with Path(folder, "controller.log").open("w") as log:
                arguments = [part.replace("{kubeconfig}", kubeconfig) for part in command]
                variables = {key: part.replace("{kubeconfig}", kubeconfig) for key, part in (environment or {}).items()}
                process = subprocess.Popen(arguments, cwd=ROOT, stdout=log, stderr=log, env=os.environ | variables)
                try:
                    return asyncio.run(_measure(name, kubeconfig, psutil.Process(process.pid), jobs))
                finally:
                    process.terminate()
                    process.wait(30)
        finally:
            trainyard(env, "cluster", "down", "--name", NAME, "--delete")


def trainyard(env: dict[str, str], *arguments: str) -> str:
    """Return what a command of Trainyard prints."""
    command = [sys.executable, "-m", "trainyard", *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout


async def install(kubeconfig: str) -> None:
    """Install the definitions and the runtime that the jobs need."""
    release = component_release("jobset", supported_versions("jobset")[0])
    jobset = yaml.safe_load(upstream.read("jobset", release.version, JOBSET_CRD))
    pod_group = yaml.safe_load(upstream.read("volcano", supported_versions("volcano")[0], POD_GROUP_CRD))
    async with Client.from_kubeconfig(kubeconfig) as client:
        for body in (jobset, pod_group, *crds.build(jobset)):
            await client.apply(CRDS, body, field_manager="burst")
        runtime = yaml.safe_load((ROOT / "runtimes" / "torch-distributed" / "1.0.yaml").read_text())
        while True:
            try:
                await client.apply(CLUSTER_TRAINING_RUNTIMES, runtime, field_manager="burst")
                await asyncio.gather(*(client.page(resource) for resource in (TRAIN_JOBS, JOB_SETS, POD_GROUPS)))
                return
            except Exception:
                await asyncio.sleep(0.5)


async def _measure(namespace: str, kubeconfig: str, controller: psutil.Process, jobs: int) -> dict[str, Any]:
    async with Client.from_kubeconfig(kubeconfig) as client:
        home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await client.apply(NAMESPACES, home, field_manager="burst")
        await _create(client, namespace, 0, 1)
        await _seen(client, namespace, 1)
        before, started = sum(controller.cpu_times()[:2]), time.monotonic()
        seen = asyncio.create_task(_seen(client, namespace, jobs + 1))
        await _create(client, namespace, 1, jobs + 1)
        created = time.monotonic() - started
        await seen
        seconds = time.monotonic() - started
        return {
            "jobs": jobs,
            "create_seconds": round(created, 2),
            "seconds": round(seconds, 2),
            "jobs_per_second": round(jobs / seconds, 1),
            "cpu_seconds": round(sum(controller.cpu_times()[:2]) - before, 2),
            "resident_mib": round(controller.memory_info().rss / 2**20, 1),
        }


async def _create(client: Client, namespace: str, first: int, end: int) -> None:
    limit = asyncio.Semaphore(IN_FLIGHT)

    async def one(number: int) -> None:
        body = {
            "apiVersion": TRAIN_JOBS.api_version,
            "kind": TRAIN_JOBS.kind,
            "metadata": {"name": f"job-{number}", "namespace": namespace},
            "spec": {"runtimeRef": {"name": "torch-distributed-1.0"}, "trainer": {"numNodes": 2}},
        }
        async with limit:
            await client.create(TRAIN_JOBS, body)

    await asyncio.gather(*(one(number) for number in range(first, end)))


async def _seen(client: Client, namespace: str, count: int) -> None:
    page = await client.page(JOB_SETS, namespace=namespace, limit=0)
    names = {body["metadata"]["name"] for body in page.items}
    if len(names) >= count:
        return
    async for event in client.watch(JOB_SETS, namespace=namespace, resource_version=page.resource_version, lasting=600):
        if event.kind == "ADDED":
            names.add(event.object["metadata"]["name"])
            if len(names) >= count:
                return
