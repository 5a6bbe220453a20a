"""The API server of the unit tests is as strict as a real one about owned fields, and forgets ended JobSets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.controller.harness import JOB_SETS, Clock, job_set_status
from tests.kube.fake_api import FakeApi
from tests.kube.time_to_live import TimeToLive
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.kinds import SECRETS
from trainyard.kube.training_kinds import TRAIN_JOBS

PATH = "/api/v1/secrets"
JOBS = "/apis/trainer.kubeflow.org/v1alpha1/trainjobs"


@pytest.fixture
async def client(api: FakeApi) -> AsyncIterator[Client]:
    async with api.client(patience=0) as client:
        yield client


def secret(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": "team"}, "data": data}


def data(api: FakeApi) -> dict[str, str]:
    body = api.find("secrets", "keys", "team")
    assert body is not None
    found: dict[str, str] = body["data"]
    return found


async def test_an_apply_of_what_another_manager_owns_conflicts_unless_it_is_forced(
    api: FakeApi, client: Client
) -> None:
    await client.apply(SECRETS, secret(one="1"), field_manager="red")
    with pytest.raises(ApiError, match="red Apply") as caught:
        await client.apply(SECRETS, secret(one="2"), field_manager="blue", force=False)
    assert (caught.value.status, data(api)) == (409, {"one": "1"})
    await client.apply(SECRETS, secret(one="2"), field_manager="blue", force=True)
    assert data(api) == {"one": "2"}
    assert api.owners("secrets", "keys", "team") == {"blue Apply": {"data.one"}}


async def test_equal_values_are_owned_by_both_and_stay_until_neither_applies_them(api: FakeApi, client: Client) -> None:
    await client.apply(SECRETS, secret(one="1", two="2"), field_manager="red")
    await client.apply(SECRETS, secret(one="1"), field_manager="blue", force=False)
    await client.apply(SECRETS, secret(three="3"), field_manager="red", force=False)
    assert data(api) == {"one": "1", "three": "3"}
    await client.apply(SECRETS, secret(), field_manager="blue", force=False)
    assert data(api) == {"three": "3"}


async def test_a_patch_and_an_apply_of_one_name_are_two_managers(api: FakeApi, client: Client) -> None:
    await client.create(SECRETS, secret(one="1"), field_manager="red")
    with pytest.raises(ApiError, match="red Update"):
        await client.apply(SECRETS, secret(one="2"), field_manager="red", force=False)
    await client.apply(SECRETS, secret(one="2"), field_manager="red", force=True)
    await client.merge_patch(SECRETS, "keys", {"data": {"one": "3"}}, namespace="team", field_manager="red")
    with pytest.raises(ApiError, match="red Update"):
        await client.apply(SECRETS, secret(one="2"), field_manager="red", force=False)


async def test_what_another_client_wrote_is_not_removed_by_an_apply_without_it(api: FakeApi, client: Client) -> None:
    await client.apply(SECRETS, secret(one="1"), field_manager="red")
    body = api.find("secrets", "keys", "team")
    assert body is not None
    api.put(PATH, {**body, "data": {"one": "1", "theirs": "x"}})
    await client.apply(SECRETS, secret(), field_manager="red")
    assert data(api) == {"theirs": "x"}


async def test_a_new_object_of_the_same_name_has_no_former_owners(api: FakeApi, client: Client) -> None:
    await client.apply(SECRETS, secret(one="1"), field_manager="red")
    api.remove(PATH, "team", "keys")
    await client.apply(SECRETS, secret(one="2"), field_manager="blue", force=False)
    assert data(api) == {"one": "2"}


async def test_an_apply_to_the_status_owns_the_status_only(api: FakeApi, client: Client) -> None:
    metadata = {"name": "job", "namespace": "team"}
    api.put(JOBS, {"metadata": metadata, "spec": {"suspend": True}, "status": {"conditions": []}})
    body = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": metadata}
    report = {**body, "spec": {"suspend": False}, "status": {"trainerStatus": {"metrics": [], "progress": 5}}}
    await client.apply(TRAIN_JOBS, report, field_manager="red", subresource="status")
    stored = await client.apply(
        TRAIN_JOBS, {**body, "status": {"trainerStatus": {"progress": 6}}}, field_manager="red", subresource="status"
    )
    assert stored["spec"] == {"suspend": True}
    assert stored["status"] == {"conditions": [], "trainerStatus": {"progress": 6}}
    assert api.owners("trainjobs", "job", "team")["red Apply status"] == {"status.trainerStatus.progress"}


def job_set(name: str, seconds: int | None, *, ended: bool) -> dict[str, Any]:
    spec = {} if seconds is None else {"ttlSecondsAfterFinished": seconds}
    status = job_set_status("Completed", "AllJobsCompleted", "done") if ended else {}
    return {"metadata": {"name": name, "namespace": "team"}, "spec": spec, "status": status}


def names(api: FakeApi) -> set[str]:
    return {body["metadata"]["name"] for body in api.of("jobsets")}


def test_ended_job_sets_are_deleted_when_their_time_has_passed() -> None:
    api, clock = FakeApi(), Clock()
    api.put(JOB_SETS, job_set("ended", 60, ended=True))
    api.put(JOB_SETS, job_set("running", 60, ended=False))
    api.put(JOB_SETS, job_set("kept", None, ended=True))
    life = TimeToLive(api, clock)
    life.pass_time(5 * 60 + 59)  # ended at 00:05:00
    assert names(api) == {"ended", "running", "kept"}
    life.pass_time(1)
    assert names(api) == {"running", "kept"}
    kinds = [(kind, "deletionTimestamp" in body["metadata"]) for _, kind, _, body in api.log[3:]]
    assert kinds == [("MODIFIED", True), ("DELETED", True)]


def test_a_job_set_that_expires_stays_until_its_dependents_are_gone() -> None:
    api, clock = FakeApi(), Clock()
    api.put(JOB_SETS, job_set("ended", 0, ended=True))
    life = TimeToLive(api, clock)
    life.expire(600)
    life.expire(600)
    assert (names(api), len(life.deleted)) == ({"ended"}, 1)
    life.collect()
    assert names(api) == set()
