"""`api-validator` and a dry run of a real API server agree about objects with random defects in their pods."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from tests.compatibility import servers
from tests.policy.mutated_pods import Body, mutated_objects, template
from trainyard.cli.check import validator_program
from trainyard.jobs.render.job_errors import FieldError
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.kinds import CRON_JOBS, DAEMON_SETS, DEPLOYMENTS, JOBS, STATEFUL_SETS
from trainyard.kube.resource import Resource
from trainyard.policy.engines.api_validator import ApiValidator

pytestmark = pytest.mark.cluster

COUNT = int(os.environ.get("TRAINYARD_POD_VERDICTS", "300"))
KINDS = {
    resource.kind: resource
    for resource in (
        *(JOBS, CRON_JOBS, DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS),
        Resource("apps", "v1", "replicasets", "ReplicaSet"),
    )
}
SEED = int(os.environ.get("TRAINYARD_POD_VERDICTS_SEED", "1"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    with servers.api_server(tmp_path_factory.mktemp("pods")) as running:
        yield running


async def verdict(client: Client, job: Body) -> frozenset[FieldError] | str:
    """Return the errors of the API server about fields, or its answer to what it cannot decode."""
    try:
        await client.create(KINDS[job["kind"]], job, dry_run=True)
    except ApiError as error:
        return frozenset(FieldError(*field) for field in error.fields) or f"{error.status} {error.message}"
    return frozenset()


def test_the_program_and_the_api_server_agree(server: servers.Server) -> None:
    jobs = [*mutated_objects(COUNT, SEED)]

    async def asked() -> list[frozenset[FieldError] | str]:
        async with server.client() as client:
            return [await verdict(client, job) for _, job in jobs]

    theirs = asyncio.run(asked())
    with ApiValidator(validator_program) as validator:
        assert validator.available
        ours = validator.validate([job for _, job in jobs])
    differences, rejected = [], 0
    for (changes, _), said, found in zip(jobs, theirs, ours, strict=True):
        rejected += bool(found)
        # What cannot be decoded has no fields; the texts name different decoders.
        expected = frozenset(found) if not isinstance(said, str) else said if _undecoded(found) else None
        if said != expected:
            differences.append((changes, said, found))
    assert "\n".join(f"{changes}\n  server: {said}\n  program: {found}" for changes, said, found in differences) == ""
    assert COUNT / 4 < rejected < COUNT


def _undecoded(found: tuple[FieldError, ...]) -> bool:
    return [error.path for error in found] == [""]


async def test_a_valid_job_is_accepted_and_not_stored(server: servers.Server) -> None:
    metadata = {"name": "valid", "namespace": "default"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template()}}
    async with server.client() as client:
        assert await verdict(client, job) == frozenset()
        assert await client.find(JOBS, "valid", namespace="default") is None
    with ApiValidator(validator_program) as validator:
        assert validator.validate([job]) == [()]
