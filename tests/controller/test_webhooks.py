from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from tests.controller.harness import CLUSTER_RUNTIMES, CONFIG_MAPS, TRAIN_JOBS, runtime, train_job
from tests.controller.webhook_server import admission, served, trusting
from tests.kube.fake_api import FakeApi
from trainyard.controller.metrics import Metrics
from trainyard.controller.webhooks import MUTATE_PREFIX, MUTATE_TRAIN_JOB, VALIDATE_PREFIX, application
from trainyard.policy.gate import PolicyGate

Body = dict[str, Any]


class Server:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url

    async def post(self, path: str, body: Any) -> tuple[int, bytes]:
        async with self._session.post(self._url + path, data=body) as response:
            return response.status, await response.read()

    async def review(
        self,
        path: str,
        body: Body,
        old: Body | None = None,
        user: Body | None = None,
        manager: str | None = None,
        operation: str = "",
    ) -> Body:
        request = {
            "uid": "42",
            "namespace": "team",
            "name": body["metadata"].get("name"),
            "kind": {"kind": body.get("kind")},
            "object": body,
            "userInfo": user or {},
        }
        if old is not None:
            request["oldObject"] = old
        if operation == "DELETE":
            request |= {"operation": operation, "object": None, "oldObject": body}
        if manager is not None:
            request["options"] = {"kind": "UpdateOptions", "fieldManager": manager}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        status, answer = await self.post(path, json.dumps(review))
        assert status == 200, answer
        reply = json.loads(answer)
        assert reply["response"]["uid"] == "42"
        response: Body = reply["response"]
        return response


@asynccontextmanager
async def serving(api: FakeApi, gate: PolicyGate | None = None) -> AsyncIterator[Server]:
    async with (
        admission(api, gate) as handlers,
        served(application(handlers, Metrics())) as url,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting())) as session,
    ):
        yield Server(session, url)


VALIDATE = f"{VALIDATE_PREFIX}trainjob"


async def test_a_good_job_is_allowed_even_before_its_namespace_is_filled_in(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    body = train_job()
    del body["metadata"]["namespace"]
    async with serving(api) as server:
        assert await server.review(VALIDATE, body) == {"uid": "42", "allowed": True}


async def test_a_runtime_created_a_moment_ago_is_found_live(api: FakeApi) -> None:
    async with serving(api) as server:
        api.freeze_watches()
        api.put(CLUSTER_RUNTIMES, runtime())
        assert (await server.review(VALIDATE, train_job()))["allowed"]


async def test_an_unknown_runtime_is_rejected_with_a_fix(api: FakeApi) -> None:
    async with serving(api) as server:
        answer = await server.review(VALIDATE, train_job())
    assert not answer["allowed"]
    assert answer["status"]["code"] == 403
    assert answer["status"]["message"].startswith("TrainJob job is rejected: spec.runtimeRef: ")
    assert "must be created before the TrainJob is created" in answer["status"]["message"]


@pytest.mark.parametrize("kind", ["TrainingRuntime", "ClusterTrainingRuntime"])
@pytest.mark.parametrize("name", ["../../other/trainingruntimes/a", "a/status", "a%2fb", ".."])
async def test_a_runtime_whose_name_is_a_path_does_not_exist(api: FakeApi, kind: str, name: str) -> None:
    async with serving(api) as server:
        answer = await server.review(VALIDATE, train_job(runtimeRef={"name": name, "kind": kind}))
    assert answer["status"]["code"] == 403
    assert "must be created before the TrainJob is created" in answer["status"]["message"]
    assert [path for _, path in api.requests if ".." in path or "%25" in path or path.endswith("status")] == []


async def test_a_wrong_type_is_rejected_with_its_path(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    async with serving(api) as server:
        answer = await server.review(VALIDATE, train_job(trainer={"numNodes": "two"}))
    assert answer["status"]["code"] == 400
    assert "spec.trainer.numNodes" in answer["status"]["message"]


async def test_a_deprecated_runtime_is_a_warning(api: FakeApi) -> None:
    body = runtime()
    body["metadata"]["labels"] = {"trainer.kubeflow.org/support": "deprecated"}
    api.put(CLUSTER_RUNTIMES, body)
    async with serving(api) as server:
        answer = await server.review(VALIDATE, train_job())
    assert answer["allowed"]
    assert "is deprecated" in answer["warnings"][0]


async def test_updates_that_leave_the_spec_alone_and_deletions_are_never_rejected(api: FakeApi) -> None:
    deleting = train_job(suspend=True)
    deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    async with serving(api) as server:
        assert (await server.review(VALIDATE, train_job(), train_job()))["allowed"]
        assert (await server.review(VALIDATE, deleting, train_job()))["allowed"]
        for kind in ("TrainingRuntime", "ClusterTrainingRuntime"):
            bad = {**runtime(), "kind": kind}
            bad["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            bad["spec"]["template"]["spec"]["replicatedJobs"][0]["replicas"] = 2
            assert (await server.review(VALIDATE_PREFIX + kind.lower(), bad))["allowed"]


async def test_a_job_that_gets_the_label_of_kueue_is_validated(api: FakeApi) -> None:
    body = runtime()
    body["spec"]["mlPolicy"] = {"torch": {"elasticPolicy": {"minNodes": 1, "maxNodes": 4}}}
    api.put(CLUSTER_RUNTIMES, body)
    free = train_job(suspend=True, trainer={"image": "i"})
    queued = {**free, "metadata": {**free["metadata"], "labels": {"kueue.x-k8s.io/queue-name": "q"}}}
    finalized = {**queued, "metadata": {**queued["metadata"], "finalizers": ["a.io/b"]}}
    async with serving(api) as server:
        answer = await server.review(VALIDATE, queued, free)
        assert (await server.review(VALIDATE, finalized, queued))["allowed"]
        assert (await server.review(VALIDATE, free, queued))["allowed"]
    assert not answer["allowed"]
    assert "Kueue counts" in answer["status"]["message"]


async def test_a_job_whose_runtime_was_deleted_can_still_be_resumed(api: FakeApi) -> None:
    old = suspended_with_snapshot(api)
    new = {**old, "spec": {**old["spec"], "suspend": False}}
    async with serving(api) as server:
        assert (await server.review(VALIDATE, new, old))["allowed"]


async def test_a_job_is_resumed_with_its_snapshot_else_with_the_live_runtime(api: FakeApi) -> None:
    old = suspended_with_snapshot(api)
    invalid = runtime()
    invalid["spec"]["template"]["spec"]["replicatedJobs"][0]["replicas"] = 2
    api.put(CLUSTER_RUNTIMES, invalid)
    new = {**old, "spec": {**old["spec"], "suspend": False}}
    async with serving(api) as server:
        assert (await server.review(VALIDATE, new, old))["allowed"]
        api.remove(CONFIG_MAPS, "team", "job-runtime-snapshot")
        answer = await server.review(VALIDATE, new, old)
    assert not answer["allowed"]
    assert "always must be 1, but is 2" in answer["status"]["message"]


def suspended_with_snapshot(api: FakeApi) -> Body:
    old = train_job(suspend=True)
    old["metadata"]["uid"] = "u1"
    owner = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "name": "job",
        "uid": "u1",
        "controller": True,
    }
    metadata = {"name": "job-runtime-snapshot", "namespace": "team", "ownerReferences": [owner]}
    api.put(
        CONFIG_MAPS,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"runtime": json.dumps(runtime())}},
    )
    return old


def small_runtime() -> Body:
    body = runtime()
    pod = body["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    del pod["containers"][0]["resources"]
    return body


@pytest.mark.parametrize(
    ("now", "why"), [(small_runtime(), "was changed after the job was created"), (None, "does not exist any more")]
)
async def test_a_job_with_a_runtime_that_kueue_counts_differently_is_not_resumed(
    api: FakeApi, now: Body | None, why: str
) -> None:
    old = suspended_with_snapshot(api)
    if now is not None:
        api.put(CLUSTER_RUNTIMES, now)
    new = {**old, "spec": {**old["spec"], "suspend": False}}
    async with serving(api) as server:
        assert (await server.review(VALIDATE, new, old))["allowed"]
        for body in (old, new):
            body["metadata"] = {**body["metadata"], "labels": {"kueue.x-k8s.io/queue-name": "q"}}
        answer = await server.review(VALIDATE, new, old)
    assert not answer["allowed"]
    assert why in answer["status"]["message"]


def queued(body: Body) -> Body:
    return {**body, "metadata": {**body["metadata"], "labels": {"kueue.x-k8s.io/queue-name": "training"}}}


async def test_a_suspended_job_that_joins_a_queue_of_kueue_is_validated(api: FakeApi) -> None:
    launched = runtime()
    launched["spec"]["mlPolicy"] = {"mpi": {"mpiImplementation": "Intel"}}
    launched["spec"]["template"]["spec"]["replicatedJobs"][0]["name"] = "launcher"
    api.put(CLUSTER_RUNTIMES, launched)
    old = train_job(suspend=True)
    async with serving(api) as server:
        assert (await server.review(VALIDATE, old, train_job(suspend=True)))["allowed"]
        answer = await server.review(VALIDATE, queued(old), old)
        assert (await server.review(VALIDATE, queued(old), queued(old)))["allowed"]
    assert not answer["allowed"]
    assert "is not supported by Kueue" in answer["status"]["message"]


async def test_kueue_cannot_resume_a_job_whose_runtime_has_changed_what_it_counts(api: FakeApi) -> None:
    old = queued(train_job(suspend=True))
    old["metadata"]["uid"] = "u1"
    kind = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
    metadata = {
        "name": "job-runtime-snapshot",
        "namespace": "team",
        "ownerReferences": [{**kind, "name": "job", "uid": "u1", "controller": True}],
    }
    data = {"runtime": json.dumps(runtime())}
    api.put(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    resumed = {**old, "spec": {**old["spec"], "suspend": False}}
    free = {**resumed, "metadata": {**resumed["metadata"], "labels": {}}}
    api.put(CLUSTER_RUNTIMES, runtime(image="image:2"))
    async with serving(api) as server:
        assert (await server.review(VALIDATE, resumed, old))["allowed"]
    smaller = runtime()
    container = smaller["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    container["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    api.put(CLUSTER_RUNTIMES, smaller)
    async with serving(api) as server:
        answer = await server.review(VALIDATE, resumed, old)
        assert (await server.review(VALIDATE, free, old))["allowed"]
        assert (await server.review(VALIDATE, old, resumed))["allowed"]
    assert "Kueue counts nvidia.com/gpu 1 for each pod" in answer["status"]["message"]
    assert "which requests nvidia.com/gpu 8" in answer["status"]["message"]


async def test_runtime_patches_get_the_time_they_changed(api: FakeApi) -> None:
    patched = train_job(runtimePatches=[{"manager": "acme.io/me"}])
    async with serving(api) as server:
        answer = await server.review(MUTATE_TRAIN_JOB, patched)
        assert await server.review(MUTATE_TRAIN_JOB, train_job()) == {"uid": "42", "allowed": True}
    assert answer["patchType"] == "JSONPatch"
    [operation] = json.loads(base64.b64decode(answer["patch"]))
    assert operation["path"] == "/spec"
    assert operation["value"]["runtimePatches"] == [{"manager": "acme.io/me", "time": "2026-01-01T00:00:00Z"}]


@pytest.mark.parametrize("kind", ["TrainingRuntime", "ClusterTrainingRuntime"])
async def test_runtimes_are_validated(api: FakeApi, kind: str) -> None:
    good, bad = {**runtime(), "kind": kind}, {**runtime(), "kind": kind}
    bad["spec"]["template"]["spec"]["replicatedJobs"][0]["replicas"] = 2
    bad = json.loads(json.dumps(bad))
    good["spec"]["template"]["spec"]["replicatedJobs"][0]["replicas"] = 1
    async with serving(api) as server:
        path = VALIDATE_PREFIX + kind.lower()
        assert (await server.review(path, good))["allowed"]
        answer = await server.review(path, bad)
    assert "replicas" in answer["status"]["message"]


@pytest.mark.parametrize("kind", ["TrainingRuntime", "ClusterTrainingRuntime"])
async def test_metadata_of_a_runtime_changes_whatever_its_stored_spec_is(api: FakeApi, kind: str) -> None:
    old = {**runtime(), "kind": kind}
    old["spec"] = {"mlPolicy": {"numNodes": "two"}, "template": {"spec": {"replicatedJobs": "none"}}}
    new = {
        **old,
        "metadata": {**old["metadata"], "finalizers": [], "labels": {"trainer.kubeflow.org/support": "deprecated"}},
    }
    other = {**new, "spec": {**old["spec"], "mlPolicy": {"numNodes": "three"}}}
    async with serving(api) as server:
        assert await server.review(f"{MUTATE_PREFIX}{kind.lower()}", new, old) == {"uid": "42", "allowed": True}
        answer = await server.review(VALIDATE_PREFIX + kind.lower(), new, old)
        assert answer["allowed"]
        (warning,) = answer["warnings"]
        assert f'{kind} "torch" is deprecated' in warning
        for before in (None, old):
            changed = await server.review(VALIDATE_PREFIX + kind.lower(), other, before)
            assert not changed["allowed"]
            assert "spec.mlPolicy.numNodes" in changed["status"]["message"]


async def test_an_invalid_or_too_large_review_is_rejected(api: FakeApi) -> None:
    async with serving(api) as server:
        for body in (
            b"",
            b"[]",
            b"{}",
            b'{"request": {"uid": "1", "object": null}}',
            b'{"request": {"uid": "1", "object": {"metadata": 1}}}',
        ):
            assert (await server.post(VALIDATE, body))[0] == 400
        assert (await server.post(VALIDATE, b" " * (9 * 1024 * 1024)))[0] == 413
        assert (await server.post("/other", b"{}"))[0] == 404


async def test_a_job_of_any_shape_gets_an_answer(api: FakeApi) -> None:
    api.put(CLUSTER_RUNTIMES, runtime())
    async with serving(api) as server:
        for spec in (None, [], {}, "x", {"runtimeRef": None}, {"runtimeRef": {"name": "torch"}, "runtimePatches": "x"}):
            for path in (VALIDATE, MUTATE_TRAIN_JOB):
                answer = await server.review(path, {**train_job(), "spec": spec})
                assert answer["allowed"] or answer["status"]["code"] in (400, 403), (spec, answer)


def patched(body: Body, answer: Body) -> Body:
    operations = json.loads(base64.b64decode(answer["patch"])) if "patch" in answer else []
    return {**body, **{operation["path"][1:]: operation["value"] for operation in operations}}


async def test_a_word_for_the_processes_is_replaced_by_what_the_runtime_offers(api: FakeApi) -> None:
    known = runtime()
    pod = known["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 8}}
    api.put(CLUSTER_RUNTIMES, known)
    body = train_job(trainer={"numProcPerNode": "auto", "image": "i"})
    async with serving(api) as server:
        answer = await server.review(MUTATE_TRAIN_JOB, body)
        stored = patched(body, answer)
        assert stored["spec"]["trainer"] == {"image": "i", "numProcPerNode": 8}
        assert (await server.review(MUTATE_TRAIN_JOB, stored, stored)) == {"uid": "42", "allowed": True}
        again = await server.review(MUTATE_TRAIN_JOB, body, stored)
    assert patched(body, again)["spec"] == stored["spec"]


async def test_a_word_without_a_runtime_is_left_to_validation(api: FakeApi) -> None:
    async with serving(api) as server:
        for word, kept in (("auto", {}), ("gpu", {"numProcPerNode": "gpu"})):
            body = train_job(trainer={"numProcPerNode": word})
            answer = await server.review(MUTATE_TRAIN_JOB, body)
            assert patched(body, answer)["spec"]["trainer"] == kept


async def test_quantities_are_stored_as_go_clients_write_them(api: FakeApi) -> None:
    body = train_job(trainer={"resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}})
    async with serving(api) as server:
        stored = patched(body, await server.review(MUTATE_TRAIN_JOB, body))
        assert stored["spec"]["trainer"]["resourcesPerNode"] == {"limits": {"nvidia.com/gpu": "8"}}
        assert await server.review(MUTATE_TRAIN_JOB, stored, stored) == {"uid": "42", "allowed": True}
        # An object of an earlier version keeps its notation: the field is immutable.
        assert patched(stored, await server.review(MUTATE_TRAIN_JOB, stored, body)) == body


async def test_a_field_that_an_older_client_drops_is_kept_with_a_warning(api: FakeApi) -> None:
    old = train_job(suspend=True, runtimePatches=[{"manager": "a.io/b"}])
    sent = train_job(suspend=False)
    async with serving(api) as server:
        answer = await server.review(MUTATE_TRAIN_JOB, sent, old, manager="")
        assert patched(sent, answer)["spec"] == {**old["spec"], "suspend": False}
        assert [text.partition(":")[0] for text in answer["warnings"]] == ["spec.runtimePatches"]
        removed = await server.review(MUTATE_TRAIN_JOB, sent, old, manager="kubectl-edit")
    assert removed == {"uid": "42", "allowed": True}


@pytest.mark.parametrize("kind", ["TrainingRuntime", "ClusterTrainingRuntime"])
async def test_a_runtime_is_stored_as_go_clients_write_it(api: FakeApi, kind: str) -> None:
    body = {**runtime(), "kind": kind}
    pod = body["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 8}}
    released = {**body, "metadata": {**body["metadata"], "annotations": {"trainyard.dev/released": "0"}}}
    async with serving(api) as server:
        stored = patched(body, await server.review(f"{MUTATE_PREFIX}{kind.lower()}", body))
        assert '"nvidia.com/gpu": "8"' in json.dumps(stored)
        unchanged = await server.review(f"{MUTATE_PREFIX}{kind.lower()}", released)
    assert unchanged == {"uid": "42", "allowed": True}


@pytest.mark.parametrize("kind", ["TrainingRuntime", "ClusterTrainingRuntime"])
async def test_the_deletion_of_a_runtime_that_jobs_reference_is_a_warning(api: FakeApi, kind: str) -> None:
    reference = {"name": "torch", "kind": kind}
    started = train_job("started", runtimeRef=reference) | {"status": {"jobSet": {"uid": "1"}}}
    done = train_job("done", runtimeRef=reference)
    done["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    other = train_job("other", runtimeRef={"name": "other", "kind": kind})
    foreign = train_job("foreign", runtimeRef=reference)
    foreign["metadata"]["namespace"] = "elsewhere"
    for body in (train_job("waiting", runtimeRef=reference), started, done, other, foreign):
        api.put(TRAIN_JOBS, body)
    deleted = runtime() | {"kind": kind}
    async with serving(api) as server:
        path = f"{VALIDATE_PREFIX}{kind.lower()}"
        (warning,) = (await server.review(path, deleted, operation="DELETE"))["warnings"]
        unused = runtime("unused") | {"kind": kind}
        assert await server.review(path, unused, operation="DELETE") == {"uid": "42", "allowed": True}
    listed, waiting, number = (
        ("team/started, team/waiting", 1, 2)
        if kind == "TrainingRuntime"
        else ("elsewhere/foreign, team/started, team/waiting", 2, 3)
    )
    assert warning == (
        f'{number} TrainJobs reference {kind} "torch" ({listed}): {waiting} cannot start without it, '
        "1 keep their snapshot (create it again, or delete these jobs)"
    )


async def test_an_invalid_runtime_with_the_label_is_accepted_with_warnings(api: FakeApi) -> None:
    invalid = runtime()
    invalid["metadata"]["labels"] = {"trainer.kubeflow.org/webhook-validation": "disabled"}
    invalid["spec"]["mlPolicy"] = {"torch": {}, "mpi": {}}
    async with serving(api) as server:
        answer = await server.review(f"{VALIDATE_PREFIX}clustertrainingruntime", invalid)
    assert answer["allowed"]
    assert "accepted because of label" in answer["warnings"][0]
