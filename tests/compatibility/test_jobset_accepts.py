"""Whatever we render, JobSet's own webhook accepts; what it would refuse, we refused before."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator

import pytest

from tests.compatibility import ours, servers
from tests.compatibility.corpus import corpus
from tests.compatibility.corpus.case import Body, Case
from tests.compatibility.object_differences import OURS, admitted
from tests.support import awaited
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.kinds import NAMESPACES
from trainyard.settings.versions import supported_versions

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    with servers.api_server(tmp_path_factory.mktemp("accepts")) as running:
        asyncio.run(prepare(running))
        with servers.jobset(running, supported_versions("jobset")[0]):
            yield running


async def prepare(server: servers.Server) -> None:
    async with server.client() as client:
        await servers.install(client, servers.job_definitions())
        home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OURS}}
        await client.apply(NAMESPACES, home, field_manager="proof")


@pytest.fixture(scope="module")
def answers() -> dict[str, ours.Answer]:
    return {case.name: ours.answer(case, None) for case in corpus()}


def job_sets(case: Case) -> list[Body]:
    return [body for body in ours.answer(case, None).objects.values() if body["kind"] == "JobSet"]


async def refusals(server: servers.Server, bodies: dict[str, Body]) -> dict[str, str]:
    """Return why JobSets were refused, by the name of their case."""
    limit = asyncio.Semaphore(16)

    async def one(client: Client, name: str, body: Body) -> tuple[str, str]:
        async with limit:
            try:
                await admitted(client, body)
            except ApiError as error:
                return name, error.message
            return name, ""

    async with server.client(concurrency=32) as client:
        found = await asyncio.gather(*(one(client, name, body) for name, body in bodies.items()))
    return {name: message for name, message in found if message}


def test_the_webhook_is_there(server: servers.Server) -> None:
    case = next(case for case in corpus() if case.name == "framework-torch-two")
    body = job_sets(case)[0]
    body["spec"]["successPolicy"] = {"operator": "All", "targetReplicatedJobs": ["nobody"]}
    said = awaited("its first refusal", lambda: asyncio.run(refusals(server, {case.name: body})).get(case.name))
    assert "nobody" in said


def test_every_rendered_jobset_is_accepted(server: servers.Server, answers: dict[str, ours.Answer]) -> None:
    bodies = {
        name: body for name, found in answers.items() for body in found.objects.values() if body["kind"] == "JobSet"
    }
    assert len(bodies) >= 500
    warned = {name for name in bodies if any("featureGates" in str(each) for each in answers[name].warnings)}
    assert asyncio.run(refusals(server, bodies)).keys() == warned


def test_a_name_that_we_refuse_for_its_length_is_refused_by_jobset(
    server: servers.Server, answers: dict[str, ours.Answer]
) -> None:
    bodies = {}
    for case in corpus():
        if any("leaves room for" in finding.message for finding in answers[case.name].errors):
            bodies[case.name] = renamed(case)
    assert len(bodies) >= 8
    assert asyncio.run(refusals(server, bodies)).keys() == bodies.keys()


def renamed(case: Case) -> Body:
    """Return the JobSet of the case as it would be if its name were not refused."""
    name = case.train_job["metadata"]["name"]
    short = Case(case.name, case.runtime, copy.deepcopy(case.train_job))
    short.train_job["metadata"]["name"] = "j"
    body = job_sets(short)[0]
    body["metadata"]["name"] = name
    return body
