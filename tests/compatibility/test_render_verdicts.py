"""`trainyard render` accepts what a cluster accepts: its verdicts are those of the API server and the webhooks.

Runtimes and TrainJobs with random defects are created as a dry run on an API server with our CRDs. What it accepts is
validated by the functions of the webhooks, as it was stored, and the rendered objects are created as a dry run too.
Both verdicts must be those of the file. TRAINYARD_RENDER_VERDICTS is the number of cases, TRAINYARD_SEED their seed.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.api.schemas import definitions
from tests.compatibility import servers
from tests.compatibility.corpus.case import Body
from tests.compatibility.mutations import Mutation, mutations
from tests.compatibility.object_differences import OURS, admitted
from trainyard.api import ClusterTrainingRuntime, Runtime, TrainingRuntime, TrainJob, parse
from trainyard.api.verdicts import decoded
from trainyard.errors import TrainyardError
from trainyard.jobs.render.defaults import defaulted
from trainyard.jobs.render.pipeline import validate
from trainyard.jobs.render.rendered_documents import render_documents
from trainyard.jobs.render.result import RenderContext
from trainyard.jobs.render.runtime_admission import validate_runtime
from trainyard.jobs.render.submission import read_runtime
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.kinds import NAMESPACES
from trainyard.kube.resource import Resource
from trainyard.kube.training_kinds import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS, TRAINING_RUNTIMES

pytestmark = pytest.mark.cluster

COUNT = int(os.environ.get("TRAINYARD_RENDER_VERDICTS", "300"))
SEED = int(os.environ.get("TRAINYARD_SEED", "20261123"))
NOW = "2026-01-01T00:00:00Z"
RUNTIMES: dict[str, tuple[Resource, type[TrainingRuntime] | type[ClusterTrainingRuntime]]] = {
    "TrainingRuntime": (TRAINING_RUNTIMES, TrainingRuntime),
    "ClusterTrainingRuntime": (CLUSTER_TRAINING_RUNTIMES, ClusterTrainingRuntime),
}


@dataclass(frozen=True)
class Verdict:
    """Why an object is rejected, by whom; empty: it is accepted."""

    source: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Comparison:
    """The verdicts of one case: the cluster's and the file's, for the runtime and the TrainJob."""

    mutation: Mutation
    cluster: tuple[Verdict, Verdict]
    file: tuple[str, str]

    @property
    def equal(self) -> bool:
        """Whether both are the same."""
        return all(bool(theirs.source) == bool(mine) for theirs, mine in zip(self.cluster, self.file, strict=True))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    with servers.api_server(tmp_path_factory.mktemp("verdicts")) as running:
        asyncio.run(prepare(running))
        yield running


async def prepare(server: servers.Server) -> None:
    async with server.client() as client:
        await servers.install(client, [*definitions(), *servers.coscheduling_definitions(), *servers.job_definitions()])
        home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OURS}}
        await client.apply(NAMESPACES, home, field_manager="proof")


def test_files_get_the_verdict_of_the_cluster(server: servers.Server) -> None:
    print(f"seed {SEED}, {COUNT} cases (TRAINYARD_SEED, TRAINYARD_RENDER_VERDICTS)")
    found = asyncio.run(compared(server))
    sources = Counter(verdict.source or "accepted" for entry in found for verdict in entry.cluster)
    print(", ".join(f"{source}: {count}" for source, count in sorted(sources.items())))
    assert sources["accepted"] >= COUNT / 5
    assert sources["API server"] >= COUNT / 5
    different = [entry for entry in found if not entry.equal]
    assert not different, f"{len(different)} of {len(found)} differ: " + "\n\n".join(map(described, different[:15]))


def described(entry: Comparison) -> str:
    sides = zip(("runtime", "TrainJob"), entry.cluster, entry.file, strict=True)
    lines = [
        f"{name}: cluster {theirs.source} {theirs.reason[:300]} | file {mine[:300]}" for name, theirs, mine in sides
    ]
    return "\n".join((entry.mutation.case.name, *entry.mutation.changes, *lines))


async def compared(server: servers.Server) -> list[Comparison]:
    limit = asyncio.Semaphore(16)

    async def one(client: Client, mutation: Mutation) -> Comparison:
        async with limit:
            runtime, train_job = placed(mutation)
            cluster = await clusters_verdict(client, runtime, train_job)
            return Comparison(mutation, cluster, files_verdict(runtime, train_job))

    async with server.client(concurrency=16) as client:
        return list(await asyncio.gather(*(one(client, mutation) for mutation in mutations(COUNT, SEED))))


def placed(mutation: Mutation) -> tuple[Body, Body]:
    """Return both objects in the namespace of the test."""
    runtime, train_job = copy.deepcopy((mutation.case.runtime, mutation.case.train_job))
    assert runtime is not None
    train_job["metadata"]["namespace"] = OURS
    if runtime["kind"] == "TrainingRuntime":
        runtime["metadata"]["namespace"] = OURS
    return runtime, train_job


async def clusters_verdict(client: Client, runtime: Body, train_job: Body) -> tuple[Verdict, Verdict]:
    resource, model = RUNTIMES[runtime["kind"]]
    stored, first = await created(client, resource, runtime)
    known: Runtime | None = None
    if stored is not None:
        try:
            known = parse(model, stored)
            errors = validate_runtime(known).errors
        except TrainyardError as error:
            errors = error.findings
        if errors:
            known, first = None, Verdict("webhook", str(errors[0]))
    return first, await train_jobs_verdict(client, known, train_job)


async def train_jobs_verdict(client: Client, runtime: Runtime | None, train_job: Body) -> Verdict:
    spec = train_job.get("spec")
    reference = spec.get("runtimeRef") if isinstance(spec, dict) else None
    named = decoded(TrainJob, train_job)["spec"]["runtimeRef"] if isinstance(reference, dict) else {}
    if runtime is not None and (named.get("kind"), named.get("name")) != (runtime.kind, runtime.metadata.name):
        runtime = None
    stored, verdict = await created(client, TRAIN_JOBS, defaulted(decoded(TrainJob, train_job), None, NOW, runtime))
    if stored is None:
        return verdict
    try:
        parsed = parse(TrainJob, stored)
        errors = validate(parsed, runtime, RenderContext()).errors
    except TrainyardError as error:
        errors = error.findings
    if errors:
        return Verdict("webhook", str(errors[0]))
    assert runtime is not None
    return await objects_verdict(client, runtime, stored)


async def objects_verdict(client: Client, runtime: Runtime, train_job: Body) -> Verdict:
    texts = (json.dumps(body) for body in (runtime.body(), train_job))
    for body in render_documents({"case": "\n---\n".join(texts)})[0].objects:
        try:
            await admitted(client, body, strict=False)
        except ApiError as error:
            return Verdict("API server, object", f"{body['kind']}: {error.message}")
    return Verdict()


async def created(client: Client, resource: Resource, body: Body) -> tuple[Body | None, Verdict]:
    """Create an object as a dry run."""
    path = resource.path(namespace=OURS if resource.namespaced else None)
    try:
        stored = await client.request("POST", path, resource=resource, body=body, query={"dryRun": "All"})
    except ApiError as error:
        if error.status >= 500:
            raise
        return None, Verdict("API server", error.message)
    return stored, Verdict()


def files_verdict(runtime: Body, train_job: Body) -> tuple[str, str]:
    """Return the errors of each file."""
    named = isinstance(runtime["metadata"].get("name"), str)
    mine = "; ".join(map(str, read_runtime(runtime).errors)) if named else "the name is not text"
    try:
        found = render_documents({"case": "\n---\n".join(json.dumps(body) for body in (runtime, train_job))})
    except TrainyardError as error:
        return mine, str(error)
    return mine, "; ".join(map(str, found[0].errors))
