"""The pods that Kueue counts are the pods that run, for generated TrainJobs of every runtime.

Kueue rebuilds the JobSet of a TrainJob with upstream's library and stores its pod sets in a Workload. Here they are
compared with the JobSet that Trainyard renders. Kueue admits nothing, so a case takes one reconciliation.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest

from tests.compatibility import ours, servers
from tests.compatibility.corpus.case import Case
from tests.kueue.count_cases import NAMESPACE, cases
from tests.kueue.manager import WORKLOADS, definitions, manager
from trainyard.jobs.render.typed_clients import normalized
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.kinds import NAMESPACES
from trainyard.kube.training_kinds import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS, TRAINING_RUNTIMES
from trainyard.scheduling.queues.pod_requests import requests_of

pytestmark = pytest.mark.cluster

SEED = 20261123
EACH, RANDOM = 6, 200
LEAST = 300
QUIET = 30.0
"""Seconds without a new Workload after which Kueue has made all that it makes."""

UNCOUNTED = {"mpi-intel", "mpi-mpich", "tensorflow-ps"}
"""Runtimes whose generated jobs are rejected in a queue of Kueue: its library rejects the MPI implementation, or places
nodes and resources on another replicatedJob."""

PodSets = dict[str, tuple[int, dict[str, Fraction]]]
"""Number of pods and requests of one pod, by replicatedJob."""


@dataclass
class Comparison:
    """Cases that were compared, by runtime, and what differs."""

    compared: int = 0
    runtimes: Counter[str] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)


def accepted_cases() -> list[tuple[Case, ours.Answer]]:
    """Return the cases that Trainyard accepts, with what it renders."""
    answers = ((case, ours.answer(case, None)) for case in cases(EACH, RANDOM, SEED))
    return [(case, answer) for case, answer in answers if not answer.errors and not answer.runtime]


@pytest.fixture(scope="module")
def comparison(kueue_built: None, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    accepted = accepted_cases()
    with servers.api_server(tmp_path_factory.mktemp("counts")) as server:
        asyncio.run(prepare(server))
        with manager(server):
            counted = asyncio.run(counts(server, [case for case, _ in accepted]))
    return compared(accepted, counted)


def compared(accepted: Sequence[tuple[Case, ours.Answer]], counted: dict[str, PodSets | None]) -> Comparison:
    """Return what differs in the cases that the API server accepts."""
    result = Comparison()
    for case, answer in accepted:
        if case.name not in counted:
            continue
        result.compared += 1
        result.runtimes[case.name.partition("/")[0]] += 1
        rendered = next(body for name, body in answer.objects.items() if name.startswith("JobSet/"))
        differing = differences(counted[case.name], pods(rendered))
        result.found += [f"{case.name}: {text}" for text in differing]
    return result


def test_every_runtime_that_kueue_can_count_is_compared(comparison: Comparison) -> None:
    assert comparison.compared >= LEAST
    catalog = {case.name.partition("/")[0] for case in cases(1, 0, SEED)}
    assert {re.sub(r"-[0-9]+\.[0-9]+$", "", name) for name in catalog - set(comparison.runtimes)} == UNCOUNTED


def test_kueue_counts_the_pods_that_run(comparison: Comparison) -> None:
    assert not comparison.found, "\n".join(comparison.found)


async def prepare(server: servers.Server) -> None:
    async with server.client() as client:
        await servers.install(client, definitions())


async def counts(server: servers.Server, wanted: Sequence[Case]) -> dict[str, PodSets | None]:
    """Return the pod sets of each case that the API server accepts; None where Kueue made no Workload."""
    async with server.client(concurrency=16) as client:
        homes = {NAMESPACE, *(case.train_job["metadata"]["namespace"] for case in wanted)}
        for home in sorted(homes):
            await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home}})
        limit = asyncio.Semaphore(8)

        async def one(case: Case) -> bool:
            async with limit:
                return await submit(client, case)

        stored = await asyncio.gather(*(one(case) for case in wanted))
        submitted = {address(case.train_job): case.name for case, there in zip(wanted, stored, strict=True) if there}
        found: dict[tuple[str, str], PodSets] = {}
        changed = time.monotonic()
        while submitted.keys() - found.keys() and time.monotonic() - changed < QUIET:
            await asyncio.sleep(0.5)
            before, found = found, await workloads(client)
            changed = time.monotonic() if len(found) > len(before) else changed
        return {name: found.get(where) for where, name in submitted.items()}


async def submit(client: Client, case: Case) -> bool:
    """Create a case; return whether the API server accepts it."""
    try:
        if case.runtime is not None:
            resource = TRAINING_RUNTIMES if case.runtime["kind"] == "TrainingRuntime" else CLUSTER_TRAINING_RUNTIMES
            await client.apply(resource, case.runtime, field_manager="tests")
        await client.create(TRAIN_JOBS, normalized(case.train_job, None))  # as Trainyard's webhook stores it
    except ApiError as error:
        if error.status not in (400, 403, 422):
            raise
        return False
    return True


async def workloads(client: Client) -> dict[tuple[str, str], PodSets]:
    listed = await client.list(WORKLOADS)
    return {
        (body["metadata"]["namespace"], body["metadata"]["ownerReferences"][0]["name"]): {
            each["name"]: (each["count"], requested(each["template"]["spec"])) for each in body["spec"]["podSets"]
        }
        for body in listed
    }


def address(job: dict[str, Any]) -> tuple[str, str]:
    return job["metadata"]["namespace"], job["metadata"]["name"]


def pods(job_set: dict[str, Any]) -> PodSets:
    """Return the pods that a JobSet has."""
    found = {}
    for each in job_set["spec"]["replicatedJobs"]:
        job = each["template"]["spec"]
        parallelism, completions = job.get("parallelism", 1), job.get("completions", job.get("parallelism", 1))
        found[each["name"]] = (
            each.get("replicas", 1) * min(parallelism, completions),
            requested(job["template"]["spec"]),
        )
    return found


def requested(pod: dict[str, Any]) -> dict[str, Fraction]:
    return {name: amount for name, amount in requests_of(pod).items() if amount}


def differences(counted: PodSets | None, running: PodSets) -> list[str]:
    """Return what differs."""
    if counted is None:
        return ["Kueue made no Workload"]
    found = []
    for name in sorted(counted.keys() | running.keys()):
        theirs, own = counted.get(name, (0, {})), running.get(name, (0, {}))
        if theirs[0] != own[0]:
            found.append(f"{name}: Kueue counts {theirs[0]} pods, {own[0]} run")
        elif theirs[0] and theirs[1] != own[1]:
            found.append(f"{name}: Kueue counts {shown(theirs[1])}, a pod has {shown(own[1])}")
    return found


def shown(amounts: dict[str, Fraction]) -> str:
    return ", ".join(f"{name}={float(amount):g}" for name, amount in sorted(amounts.items())) or "nothing"
