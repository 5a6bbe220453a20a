"""The API server validates the Jobs of a TrainJob by a dry run before its JobSet is created."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from tests.controller.harness import (
    CLUSTER_RUNTIMES,
    TRAIN_JOBS,
    Body,
    Clock,
    change,
    conditions,
    controller,
    existing,
    job_set,
    refusing,
    runtime,
    settled,
    submit,
    train_job,
)
from tests.kube.fake_api import FakeApi, error, eventually
from tests.render.builders import patch, pod_patch

KEY = ("team", "job")
FIELD = "spec.template.spec.containers[0].volumeMounts[0].name"
PATH = "spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers[0].volumeMounts[0].name"
CAUSE = {"reason": "FieldValueNotFound", "message": 'Not found: "data"', "field": FIELD}


def mounting() -> Body:
    body = runtime()
    container = body["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    container["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return body


def invalid(*causes: Body, message: str = 'Job.batch "job-node-0" is invalid') -> web.Response:
    status = {"kind": "Status", "code": 422, "reason": "Invalid", "message": message, "details": {"causes": [*causes]}}
    return web.json_response(status, status=422)


def asked(api: FakeApi) -> list[str]:
    return [path for method, path in api.requests if method == "POST" and "/jobs?" in path]


def condition(api: FakeApi) -> Body:
    body = existing(api, "trainjobs", "job", "team")
    found: Body = body["status"]["conditions"][-1]
    return found


def answering(answer: Callable[[], web.Response]) -> Any:
    """Answer dry runs of Jobs."""

    def fault(_: FakeApi, request: web.Request) -> web.Response | None:
        if request.method != "POST" or not request.path.endswith("/jobs"):
            return None
        assert request.query["dryRun"] == "All"
        return answer()

    return fault


async def test_a_job_set_is_created_after_one_dry_run_of_each_replicated_job(api: FakeApi) -> None:
    submit(api)
    async with settled(api):
        assert api.find("jobsets", "job", "team") is not None
    assert asked(api) == ["/apis/batch/v1/namespaces/team/jobs?fieldManager=trainer&dryRun=All"]
    assert api.find("jobs", "job-node-0", "team") is None


async def test_invalid_jobs_are_an_event_and_a_condition_and_are_not_tried_again_until_something_changes(
    api: FakeApi,
) -> None:
    clock = Clock()
    api.put(CLUSTER_RUNTIMES, mounting())
    api.put(TRAIN_JOBS, train_job())
    api.fault = answering(lambda: invalid(CAUSE))
    async with settled(api, clock) as process:
        assert api.find("jobsets", "job", "team") is None
        assert api.find("configmaps", "job-runtime-snapshot", "team") is None
        expected = f'ClusterTrainingRuntime "torch" {PATH}: Not found: "data"'
        [event] = api.of("events")
        assert event["reason"] == "TrainJobResourcesCreationFailed"
        assert expected in event["message"]
        assert (condition(api)["type"], condition(api)["status"]) == ("Blocked", "True")
        assert condition(api)["message"].startswith(f"spec.runtimeRef: {expected}")
        assert [count for count, _ in process.manager.blocked().values()] == [1]
        for _ in range(3):
            await process.reconciler.reconcile(KEY)
        assert len(asked(api)) == 1
        clock.now += datetime.timedelta(minutes=11)  # The API server may be another version.
        await process.reconciler.reconcile(KEY)
        assert len(asked(api)) == 2
        api.fault = None
        api.put(CLUSTER_RUNTIMES, runtime())
        process.manager.queue.add(KEY)
        await eventually(lambda: api.find("jobsets", "job", "team"))
        await process.settle()
        assert (conditions(api), len(asked(api))) == ({}, 3)


@pytest.mark.parametrize(
    "answer",
    [
        lambda: error(403, "Forbidden", 'User "controller" cannot create resource "jobs" in API group "batch"'),
        lambda: error(400, "BadRequest", 'admission webhook "x" does not support dry run'),
        lambda: error(404, "NotFound", "the server could not find the requested resource"),
        lambda: error(500, "InternalError", 'failed calling webhook "of.others"'),
        lambda: invalid({"message": "denied"}, message="ValidatingAdmissionPolicy 'x' denied request"),
        lambda: invalid(
            {**CAUSE, "field": "spec.x"}, message='admission webhook "x" denied the request: spec.x: wrong'
        ),
        lambda: error(409, "AlreadyExists", "exists"),
    ],
)
async def test_an_answer_that_is_not_about_fields_blocks_nothing(
    api: FakeApi, answer: Callable[[], web.Response], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    submit(api)
    api.fault = answering(answer)
    async with settled(api):
        assert api.find("jobsets", "job", "team") is not None
        assert (conditions(api), len(asked(api))) == ({}, 1)
    said = [record for record in caplog.messages if "is not validated before its JobSet is created" in record]
    assert len(said) == (0 if answer().status == 409 else 1)


@pytest.mark.parametrize(
    "answer", [lambda: error(503, "ServiceUnavailable", "etcd"), lambda: error(429, "TooManyRequests", "later")]
)
async def test_a_server_that_fails_is_asked_again_and_nothing_is_created_before(
    api: FakeApi, answer: Callable[[], web.Response]
) -> None:
    submit(api)
    api.fault = answering(answer)
    async with controller(api) as process:
        await eventually(lambda: len(asked(api)) > 1)
        assert api.find("jobsets", "job", "team") is None
        assert conditions(api) == {}
        api.fault = None
        await eventually(lambda: api.find("jobsets", "job", "team"))
        await process.settle()


async def test_a_job_whose_job_set_is_refused_is_not_dry_run_again(api: FakeApi) -> None:
    submit(api)

    api.fault = refusing("POST", "/jobsets", 403, "Forbidden", "exceeded quota: objects")
    async with settled(api) as process:
        await process.reconciler.reconcile(KEY)
        assert (len(asked(api)), condition(api)["message"]) == (1, "exceeded quota: objects")
        api.fault = None
        await process.reconciler.reconcile(KEY)
        await process.settle()
        assert (len(asked(api)), conditions(api)) == (1, {})


def tolerating(operator: str) -> Body:
    patched = pod_patch(tolerations=[{"key": "a", "operator": operator}])
    return {"suspend": False, "runtimePatches": [patch(patched)]}


async def test_jobs_that_change_while_they_are_suspended_are_validated_before_they_resume(api: FakeApi) -> None:
    submit(api, suspend=True)
    async with settled(api) as process:
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": False})
        await process.settle()
        assert len(asked(api)) == 1, "nothing changed"
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": True})
        await process.settle()
        cause = {**CAUSE, "field": "spec.template.spec.tolerations[0].operator", "message": "Unsupported value"}
        api.fault = answering(lambda: invalid(cause))
        change(api, TRAIN_JOBS, "trainjobs", "job", spec=tolerating("Is"))
        await eventually(
            lambda: any("tolerations[0].operator: Unsupported" in each["message"] for each in api.of("events"))
        )
        assert job_set(api)["spec"]["suspend"] is True
        api.fault = None
        change(api, TRAIN_JOBS, "trainjobs", "job", spec=tolerating("Exists"))
        await eventually(lambda: not job_set(api)["spec"]["suspend"])
        await process.settle()


async def test_a_job_that_fails_while_it_is_blocked_says_only_that(api: FakeApi) -> None:
    clock = Clock()
    api.put(TRAIN_JOBS, train_job(activeDeadlineSeconds=60))
    async with settled(api, clock) as process:
        assert "Blocked" in conditions(api)
        clock.now += datetime.timedelta(days=1)
        process.manager.queue.add(KEY)
        await eventually(lambda: conditions(api) == {"Failed": ("True", "DeadlineExceeded")})
