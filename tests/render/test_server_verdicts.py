"""Files get the verdict of the API server on schema and metadata, before any webhook."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.counting import cpu_seconds
from tests.render.builders import container, runtime, torch, train_job, trainer
from trainyard.api import Body, Runtime, TrainJob
from trainyard.jobs.render.rendered_documents import RenderedTrainJob, render_documents
from trainyard.jobs.render.submission import _Paths, read_runtime


def document(body: TrainJob | Runtime) -> Body:
    return {"apiVersion": body.api_version, "kind": body.kind, **body.body()}


def answer(*bodies: Body) -> RenderedTrainJob:
    (only,) = render_documents({"file": "\n---\n".join(map(json.dumps, bodies))})
    return only


POD = "spec.template.spec.replicatedJobs[0].template.spec.template.spec"
SECRET = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "token"}}}
FLOAT = {"limits": {"cpu": 1.5}}
PROBE: Body = {"tcpSocket": {}}
PORT = {"containerPort": 53, "protocol": "UDP"}
CLAIMS = {"claims": [{"name": "gpu"}, {"name": "gpu"}]}
REJECTED_RUNTIMES: dict[str, dict[str, Any]] = {
    f"{POD}.containers[0].env[0].valueFrom.secretKeyRef.key": trainer(containers=[container(env=[SECRET])]),
    f"{POD}.containers[0].resources.limits[cpu]": trainer(containers=[container(resources=FLOAT)]),
    f"{POD}.containers[0].resources.claims[1]": trainer(containers=[container(resources=CLAIMS)]),
    f"{POD}.containers[0].livenessProbe.tcpSocket.port": trainer(containers=[container(livenessProbe=PROBE)]),
    f"{POD}.containers[0].ports[1]": trainer(containers=[container(ports=[PORT, PORT])]),
    f"{POD}.terminationGracePeriodSeconds": trainer(pod={"terminationGracePeriodSeconds": "5"}),
    "spec.template.spec.replicatedJobs[0].dependsOn[0].status": trainer(dependsOn=[{"name": "a", "status": "Gone"}]),
}


@pytest.mark.parametrize("path", REJECTED_RUNTIMES)
def test_a_runtime_that_jobsets_schema_rejects_is_rejected(path: str) -> None:
    found = read_runtime(document(runtime(REJECTED_RUNTIMES[path])))
    assert path in [error.path for error in found.errors]
    assert answer(document(train_job()), document(runtime(REJECTED_RUNTIMES[path]))).objects == ()


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("spec.trainer.env[0].valueFrom.secretKeyRef.key", {"trainer": {"env": [SECRET]}}),
        ("spec.trainer.resourcesPerNode.limits[cpu]", {"trainer": {"resourcesPerNode": FLOAT}}),
        ("spec.trainer.resourcesPerNode.claims[1]", {"trainer": {"resourcesPerNode": CLAIMS}}),
        ("spec.runtimePatches[0].time", {"runtimePatches": [{"manager": "a.io/b", "time": "yesterday"}]}),
    ],
)
def test_a_train_job_that_the_api_server_rejects_is_rejected(path: str, fields: dict[str, Any]) -> None:
    (error,) = answer(document(torch()), document(train_job(**fields))).errors
    assert error.path == path


@pytest.mark.parametrize(
    ("path", "metadata"),
    [
        ("metadata.labels[a]", {"labels": {"a": "not valid"}}),
        ("metadata.labels[a/]", {"labels": {"a/": "b"}}),
        ("metadata.annotations[a b]", {"annotations": {"a b": "c"}}),
        ("metadata.annotations", {"annotations": {"a": "x" * 262_144}}),
        ("metadata.finalizers[0]", {"finalizers": ["a b"]}),
        ("metadata.finalizers", {"finalizers": ["orphan", "foregroundDeletion"]}),
        ("metadata.ownerReferences[0].uid", {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a"}]}),
        ("metadata.namespace", {"namespace": "Team"}),
    ],
)
def test_invalid_metadata_is_rejected(path: str, metadata: dict[str, Any]) -> None:
    body = document(train_job())
    body["metadata"] |= metadata
    assert [error.path for error in answer(document(torch()), body).errors if error.path.startswith("metadata")] == [
        path
    ]


def test_whole_numbers_with_a_point_are_numbers_as_in_the_api_server() -> None:
    body = document(train_job())
    body["spec"]["trainer"] = {"numNodes": 2.0}
    assert answer(document(torch()), body).errors == ()


@pytest.mark.parametrize(
    ("jobset", "path"),
    [
        ({"volumeClaimPolicies": [{}]}, "spec.template.spec.volumeClaimPolicies[0]"),
        ({"volumeClaimPolicies": [{"templates": [{}]}]}, "spec.template.spec.volumeClaimPolicies[0]"),
        (
            {"volumeClaimPolicies": [{"templates": [{"metadata": {"namespace": "a"}}]}]},
            "spec.template.spec.volumeClaimPolicies[0]",
        ),
        ({"startupPolicy": {"startupPolicyOrder": "Other"}}, "spec.template.spec.startupPolicy.startupPolicyOrder"),
        ({"ttlSecondsAfterFinished": -1}, "spec.template.spec.ttlSecondsAfterFinished"),
    ],
)
def test_a_rule_or_a_bound_of_jobsets_schema_rejects_the_runtime(jobset: dict[str, Any], path: str) -> None:
    found = read_runtime(document(runtime(trainer(), jobset=jobset)))
    assert path in [error.path for error in found.errors]


def test_a_template_without_any_known_field_is_empty() -> None:
    body = document(runtime(trainer()))
    body["spec"]["template"] = {"unheardOf": 1}
    assert [error.path for error in read_runtime(body).errors] == ["spec.template"]


def test_what_jobsets_schema_keeps_cannot_change_in_a_stored_runtime() -> None:
    one, other = (runtime(trainer(), jobset={"network": {"subdomain": name}}) for name in ("a", "b"))
    first = read_runtime(document(one))
    (error,) = read_runtime(document(other), first.runtime).errors
    assert (error.path, error.message) == ("spec.template.spec.network", "Value is immutable")


@pytest.mark.parametrize(
    ("path", "yielded"),
    [
        ("metadata", False),
        ("metadata.labels", False),
        ("metadata.labels[a]", False),
        ("metadata.labels[a].b", False),
        ("metadata.label", True),
        ("metadata.labels[ab]", True),
        ("metadata.labels2", True),
        ("spec", True),
    ],
)
def test_fields_with_a_finding_get_no_second_one(path: str, yielded: bool) -> None:
    assert _Paths(["metadata.labels[a]", "spec2.a", "metadata-a"]).related_to(path) is not yielded


def test_many_errors_take_no_time_that_grows_with_their_square() -> None:
    def seconds(count: int) -> float:
        many = {f"not valid {index}": "" for index in range(count)}
        body = document(torch())
        body["metadata"]["labels"] = many
        body["spec"]["template"]["metadata"] = {"labels": many}
        assert len(read_runtime(body).errors) == 2 * count
        return cpu_seconds(lambda: read_runtime(body))

    assert seconds(6_000) < 40 * seconds(600)
