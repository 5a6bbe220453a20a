"""A control plane on which nothing but the measured controller acts, and TrainJobs to measure it with."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
import unittest.mock
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from benchmarks.recording import ROOT
from trainyard import upstream
from trainyard.api import crds
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.kinds import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from trainyard.kube.resource import Resource
from trainyard.kube.training_kinds import CLUSTER_TRAINING_RUNTIMES, JOB_SETS, POD_GROUPS, TRAIN_JOBS
from trainyard.local.cluster.embedded import EmbeddedProvider
from trainyard.progress import LineProgress
from trainyard.settings.fabric import FabricSettings
from trainyard.settings.versions import component_release, supported_versions

_JOBSET_CRD = "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"
_POD_GROUP_CRD = "config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml"
_IN_FLIGHT = 32
_FIELD_MANAGER = "benchmark"
_ROOM = 10_000
"""Nodes whose memory the control plane gets where it is to hold tens of thousands of objects."""


@contextlib.contextmanager
def control_plane(name: str, *, roomy: bool = False) -> Iterator[tuple[str, Path]]:
    """Run a control plane with the definitions and the runtime that the jobs need; yield kubeconfig and a folder.

    Parameters
    ----------
    name
        Name of the cluster.
    roomy
        Whether it has memory for tens of thousands of objects.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        unittest.mock.patch.dict(os.environ, TRAINYARD_STATE_HOME=folder),
    ):
        provider = EmbeddedProvider(name)
        progress = LineProgress(lambda line: print(line, file=sys.stderr))
        try:
            access = provider.up(FabricSettings(), progress, expected_nodes=_ROOM if roomy else 0)
            asyncio.run(_install(str(access.kubeconfig)))
            yield str(access.kubeconfig), Path(folder)
        finally:
            provider.down(delete=True, progress=progress)


async def create_namespace(client: Client, name: str) -> None:
    """Create a namespace."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await client.apply(NAMESPACES, body, field_manager=_FIELD_MANAGER)


async def create_train_jobs(client: Client, namespace: str, numbers: Iterable[int], *, suspend: bool = False) -> None:
    """Create TrainJobs, many at a time."""
    limit = asyncio.Semaphore(_IN_FLIGHT)

    async def one(number: int) -> None:
        async with limit:
            await client.create(TRAIN_JOBS, train_job(f"job-{number}", namespace, suspend=suspend))

    await asyncio.gather(*map(one, numbers))


async def await_job_sets(client: Client, namespace: str, number: int) -> None:
    """Wait until there are that many JobSets."""
    path, query = JOB_SETS.path(namespace=namespace), {"limit": "1"}
    while True:
        page = await client.request("GET", path, resource=JOB_SETS, query=query)
        if len(page["items"]) + int(page["metadata"].get("remainingItemCount") or 0) >= number:
            return
        await asyncio.sleep(1)


def train_job(name: str, namespace: str, *, suspend: bool = False) -> dict[str, Any]:
    """Return a TrainJob of two nodes."""
    return {
        "apiVersion": TRAIN_JOBS.api_version,
        "kind": TRAIN_JOBS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "runtimeRef": {"name": "torch-distributed-1.0"},
            "trainer": {"numNodes": 2},
            **({"suspend": True} if suspend else {}),
        },
    }


async def _install(kubeconfig: str) -> None:
    """Install the definitions and the runtime that the jobs need."""
    release = component_release("jobset", supported_versions("jobset")[0])
    jobset = yaml.safe_load(upstream.read("jobset", release.version, _JOBSET_CRD))
    pod_group = yaml.safe_load(upstream.read("volcano", supported_versions("volcano")[0], _POD_GROUP_CRD))
    async with Client.from_kubeconfig(kubeconfig) as client:
        for body in (jobset, pod_group, *crds.build(jobset)):
            await client.apply(CUSTOM_RESOURCE_DEFINITIONS, body, field_manager=_FIELD_MANAGER)
        runtime = yaml.safe_load((ROOT / "runtimes" / "torch-distributed" / "1.0.yaml").read_text())
        while True:
            try:
                await client.apply(CLUSTER_TRAINING_RUNTIMES, runtime, field_manager=_FIELD_MANAGER)
                if all(await asyncio.gather(*map(partial(_discovered, client), (TRAIN_JOBS, JOB_SETS, POD_GROUPS)))):
                    return
            except (ApiError, TransportError):
                pass
            await asyncio.sleep(0.5)


async def _discovered(client: Client, resource: Resource) -> bool:
    """Return whether the API server serves a kind and lists it in its discovery, without which Go clients end."""
    await client.page(resource)
    listed = await client.request("GET", f"/apis/{resource.api_version}")
    return any(each["name"] == resource.plural for each in listed["resources"])
