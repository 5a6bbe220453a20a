"""Rendering files: context, updates, and the answers as golden files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.golden import assert_golden
from tests.render.builders import QUEUE, patch, pod_patch, runtime, torch, train_job, trainer
from trainyard.api import KubernetesModel
from trainyard.errors import TrainyardError
from trainyard.jobs.render.rendered_documents import RenderedTrainJob, render_documents

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(path.stem for path in GOLDEN.glob("*.yaml"))


def text(*bodies: KubernetesModel | dict[str, object]) -> str:
    kinds = [
        {"apiVersion": body.api_version, "kind": body.kind, **body.body()}
        if isinstance(body, KubernetesModel)
        else body
        for body in bodies
    ]
    return yaml.safe_dump_all(kinds)


def answer(*bodies: KubernetesModel | dict[str, object]) -> RenderedTrainJob:
    (only,) = render_documents({"file": text(*bodies)})
    return only


@pytest.mark.parametrize("case", CASES)
def test_files_become_what_was_reviewed(case: str) -> None:
    source = (GOLDEN / f"{case}.yaml").read_text()
    found = {"results": [answer.as_json() for answer in render_documents({case: source})]}
    assert_golden(GOLDEN / f"{case}.json", json.dumps(found, indent=2) + "\n")


def test_the_queue_comes_from_the_tenant_policy_before_the_namespace() -> None:
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team", "annotations": {QUEUE: "theirs"}},
    }
    policy = {
        "apiVersion": "trainyard.dev/v1alpha1",
        "kind": "TenantPolicy",
        "metadata": {"name": "tenant", "namespace": "team"},
        "spec": {"queues": ["ours"], "defaultQueue": "ours"},
    }
    job, of = train_job(), torch(volcano={})
    assert answer(job, of, namespace).objects[1]["spec"]["queue"] == "theirs"
    assert answer(job, of, namespace, policy).objects[1]["spec"]["queue"] == "ours"


def test_priority_classes_are_checked_when_some_are_there() -> None:
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "low"}, "value": 1}
    of = torch(trainer(pod={"priorityClassName": "high"}), volcano={})
    assert answer(train_job(), of).errors == ()
    assert "PriorityClass" in answer(train_job(), of, priority).errors[0].message


@pytest.mark.parametrize(("features", "allowed"), [(["gang"], False), (["gang", "network-topology-aware"], True)])
def test_the_platform_says_what_the_scheduler_can_hold(features: list[str], allowed: bool) -> None:
    spec = {"schedulerFeatures": features, "tiers": [{"name": "rack", "tier": 1}]}
    metadata = {"name": "platform"}
    platform = {"apiVersion": "trainyard.dev/v1alpha1", "kind": "Platform", "metadata": metadata, "spec": spec}
    of = torch(volcano={"networkTopology": {"highestTierName": "rack"}})
    assert (answer(train_job(), of, platform).errors == ()) == allowed


def test_the_platform_says_which_rules_of_jobset_a_runtime_must_meet() -> None:
    metadata, spec = {"name": "platform"}, {"jobSetFeatureGates": ["InPlaceRestart"]}
    platform = {"apiVersion": "trainyard.dev/v1alpha1", "kind": "Platform", "metadata": metadata, "spec": spec}
    of = runtime(trainer(), jobset={"failurePolicy": {"restartStrategy": "InPlaceRestart"}})
    assert "trainyard:jobset.featureGates does not list" in answer(train_job(), of).warnings[0].message
    for documents in ((platform, of), (of, platform)):
        found = answer(train_job(), *documents)
        assert found.warnings == ()
        assert [error.path for error in found.errors] == ["spec.runtimeRef"] * 2
        assert all(error.message.startswith('ClusterTrainingRuntime "runtime" spec') for error in found.errors)


def test_a_second_document_is_an_update_of_the_first() -> None:
    of = runtime(trainer())
    assert [
        error.path
        for error in answer(of, train_job(trainer={"numNodes": 2}), train_job(trainer={"numNodes": 3})).errors
    ] == ["spec.trainer"]
    changed = train_job(runtimePatches=[patch(pod_patch(nodeSelector={"a": "1"}))])
    assert "suspended" in answer(of, train_job(), changed).errors[0].message
    assert answer(of, train_job(suspend=True), changed).objects


def test_a_runtime_that_fits_no_schema_rejects_its_jobs() -> None:
    broken = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "runtime"},
        "spec": {"mlPolicy": {"numNodes": "two"}},
    }
    (error,) = answer(train_job(), broken).errors
    assert error.path == "spec.runtimeRef"
    assert 'ClusterTrainingRuntime "runtime" spec.mlPolicy.numNodes' in error.message


def test_a_namespaced_runtime_serves_its_own_namespace() -> None:
    of = runtime(trainer(), cluster=False)
    assert answer(of, train_job(kind="TrainingRuntime")).objects
    body = train_job(kind="TrainingRuntime").body()
    body["metadata"]["namespace"] = "other"
    (error,) = answer(of, {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", **body}).errors
    assert "not found" in error.message


def test_a_job_of_another_controller_has_no_objects_and_is_validated_as_by_the_webhook() -> None:
    job = train_job(managedBy="kueue.x-k8s.io/multikueue")
    found = answer(job, torch())
    assert (found.errors, found.objects) == ((), ())
    assert "not found" in answer(job).errors[0].message
    assert "always must be 1" in answer(job, runtime(trainer(replicas=2))).errors[0].message


def test_a_runtime_that_is_refused_rejects_its_jobs_with_its_own_errors() -> None:
    found = answer(train_job(), runtime(trainer(replicas=2)))
    (error,) = found.errors
    assert error.path == "spec.runtimeRef"
    assert "spec.template.spec.replicatedJobs[0].replicas: always must be 1, but is 2" in error.message
    assert found.objects == ()


def named_by_prefix(prefix: str, **spec: object) -> dict[str, object]:
    body = train_job("", **spec).body()
    body["metadata"] = {"generateName": prefix, "namespace": "team"}
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", **body}


def test_a_job_with_a_prefix_is_rendered_with_a_placeholder() -> None:
    found = answer(torch(), named_by_prefix("sweep-"))
    assert (found.train_job, found.errors) == ("team/sweep-xxxxx", ())
    (job_set,) = (body for body in found.objects if body["kind"] == "JobSet")
    assert job_set["metadata"]["name"] == "sweep-xxxxx"


def test_each_document_with_a_prefix_is_a_job_of_its_own() -> None:
    first, second = (named_by_prefix("sweep-", trainer={"numNodes": nodes}) for nodes in (1, 2))
    found = render_documents({"file": text(torch(), first, second)})
    assert [(each.train_job, each.errors, bool(each.objects)) for each in found] == [("team/sweep-xxxxx", (), True)] * 2


@pytest.mark.parametrize(
    ("prefix", "message"),
    [("x" * 45, "has 50 characters"), ("x" * 300, "has 63 characters"), ("Sweep_", "is not an RFC 1035 label")],
)
def test_a_prefix_that_makes_invalid_names_is_named(prefix: str, message: str) -> None:
    errors = answer(torch(), named_by_prefix(prefix)).errors
    assert {error.path for error in errors} == {"metadata.generateName"}
    assert any(message in error.message for error in errors)
    assert all(error.fix.endswith("the API server appends 5 characters to generateName") for error in errors)


def test_objects_of_other_kinds_may_have_a_prefix() -> None:
    other: dict[str, object] = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"generateName": "a-"}}
    assert answer(torch(), train_job(), other).errors == ()


def test_answers_are_sorted_and_do_not_depend_on_the_order_of_files() -> None:
    files = {"a": text(train_job("b")), "b": text(torch(), train_job("a")), "c": text(train_job("c"))}
    answers = render_documents(files)
    assert [found.train_job for found in answers] == ["team/a", "team/b", "team/c"]
    assert render_documents(dict(reversed(files.items()))) == answers


def test_json_is_read_too() -> None:
    bodies = [json.dumps({"apiVersion": body.api_version, "kind": body.kind, **body.body()}) for body in (torch(),)]
    assert render_documents({"a.json": bodies[0], "b.yaml": text(train_job())})[0].objects


def test_the_time_of_a_patch_does_not_show() -> None:
    patched = train_job(runtimePatches=[patch(pod_patch(nodeSelector={"a": "1"}))])
    assert answer(torch(), patched) == answer(torch(), patched)
    assert answer(torch(), patched, patched).errors == ()


@pytest.mark.parametrize("annotations", [[], "text", {QUEUE: 1}, {QUEUE: None}, None])
def test_a_namespace_that_is_malformed_names_no_queue(annotations: object) -> None:
    namespace: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team", "annotations": annotations},
    }
    found = answer(train_job(), torch(volcano={}), namespace)
    group = next(body for body in found.objects if body["kind"] == "PodGroup")
    assert "queue" not in group["spec"]


@pytest.mark.parametrize("content", ["a: [", "just text", "apiVersion: v1\nkind: Pod\n", "- 1\n"])
def test_what_is_no_object_is_an_error_that_names_the_file(content: str) -> None:
    with pytest.raises(TrainyardError, match=r"jobs\.yaml"):
        render_documents({"jobs.yaml": content})
