"""Errors of the API server about rendered Jobs, and the fields of the TrainJob or runtime that cause them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.render.builders import container, objects, patch, pod_patch, runtime, torch, train_job, trainer
from trainyard.api import Body
from trainyard.checks.finding import Finding
from trainyard.jobs.render.child_jobs import child_jobs
from trainyard.jobs.render.job_errors import FieldError, runtime_findings, train_job_findings

JOB = "spec.template.spec.replicatedJobs[0].template"
POD = f"{JOB}.spec.template.spec"
OVERRIDE = {"targetJobs": [{"name": "node"}]}
DATA = {"name": "data", "mountPath": "/data"}


def body_of(given: Any) -> Body:
    return {"kind": "ClusterTrainingRuntime", **given.body()}


def child(given: Any, job: Any) -> Body:
    """Return the only Job of the rendered JobSet."""
    (found,) = child_jobs(objects(job, given)["JobSet"])
    return found.body


def findings(given: Any, job: Any, *errors: FieldError) -> tuple[Finding, ...]:
    """Return the findings if the API server reports these errors about the first Job."""

    def validate(jobs: Sequence[Body]) -> list[tuple[FieldError, ...]]:
        return [errors, *(() for _ in jobs[1:])]

    return train_job_findings(job, body_of(given), [*objects(job, given).values()], validate)


def path(given: Any, job: Any, where: str, reason: str = "FieldValueInvalid") -> str:
    (found,) = findings(given, job, FieldError(where, "Invalid value", reason))
    return found.path if found.path != "spec.runtimeRef" else found.message.split()[2].rstrip(":")


def test_a_field_of_the_runtime_is_named_with_the_runtime() -> None:
    given = torch(trainer(containers=[container(volumeMounts=[DATA])]))
    error = FieldError(
        "spec.template.spec.containers[0].volumeMounts[0].name", 'Not found: "data"', "FieldValueNotFound"
    )
    (found,) = findings(given, train_job(), error)
    assert (found.path, found.fix) == ("spec.runtimeRef", "define it, or remove the reference")
    assert found.message == (
        f'ClusterTrainingRuntime "runtime" {POD}.containers[0].volumeMounts[0].name: Not found: "data" '
        '(the API server rejects the Jobs of replicatedJob "node")'
    )


def test_a_runtime_that_a_train_job_may_complete_has_a_warning() -> None:
    given = torch(trainer(containers=[container(volumeMounts=[DATA])]))
    rendered = [*objects(train_job(), given).values()]
    error = FieldError("spec.template.spec.containers[0].volumeMounts[0].name", "Not found", "FieldValueNotFound")
    (found,) = runtime_findings(body_of(given), rendered, lambda objects: [(error,) for _ in objects])
    assert (found.path, found.severity.value) == (f"{POD}.containers[0].volumeMounts[0].name", "warning")


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("resources.limits[nvidia.com/gpu]", "spec.trainer.resourcesPerNode.limits[nvidia.com/gpu]"),
        ("resources.requests", "spec.trainer.resourcesPerNode.requests"),
        ("image", "spec.trainer.image"),
        ("env[{env}].name", "spec.trainer.env[1].name"),
    ],
)
def test_fields_of_the_trainer_are_named_as_the_train_job_has_them(where: str, expected: str) -> None:
    job = train_job(
        trainer={
            "image": "other",
            "env": [{"name": "A", "value": "1"}, {"name": "b c", "value": "2"}],
            "resourcesPerNode": {"limits": {"nvidia.com/gpu": 1}},
        }
    )
    names = [each["name"] for each in child(torch(), job)["spec"]["template"]["spec"]["containers"][0]["env"]]
    assert path(torch(), job, f"spec.template.spec.containers[0].{where.format(env=names.index('b c'))}") == expected


def test_a_patch_is_named_only_for_what_it_adds() -> None:
    given = torch(trainer(containers=[container(volumeMounts=[DATA])], pod={"volumes": [{"name": "own"}]}))
    added = pod_patch(
        volumes=[{"name": "x", "hostPath": {}}], containers=[container(volumeMounts=[{**DATA, "mountPath": "/x"}])]
    )
    job = train_job(runtimePatches=[patch(), patch(added)])
    base = f"spec.runtimePatches[1].trainingRuntimeSpec.{POD.removeprefix('spec.')}"
    pod = child(given, job)["spec"]["template"]["spec"]
    volume = [each["name"] for each in pod["volumes"]].index("x")
    mounts = [each["mountPath"] for each in pod["containers"][0]["volumeMounts"]]
    prefix = "spec.template.spec"
    assert path(given, job, f"{prefix}.volumes[{volume}].hostPath.path") == f"{base}.volumes[0].hostPath.path"
    assert path(given, job, f"{prefix}.volumes[{1 - volume}].name") == f"{POD}.volumes[0].name"
    for number, mount in enumerate(mounts):
        where = base if mount == "/x" else POD
        found = path(given, job, f"{prefix}.containers[0].volumeMounts[{number}].name")
        assert found == f"{where}.containers[0].volumeMounts[0].name"
    # What nobody wrote is missing in the runtime, although the patch names the container.
    assert path(given, job, f"{prefix}.containers[0].command") == f"{POD}.containers[0].command"


@pytest.mark.parametrize(
    ("field", "override", "where", "expected"),
    [
        (
            "podSpecOverrides",
            {**OVERRIDE, "volumes": [{"name": "a b"}]},
            "volumes[0].name",
            "spec.podSpecOverrides[0].volumes[0].name",
        ),
        (
            "podTemplateOverrides",
            {**OVERRIDE, "spec": {"tolerations": [{"operator": "x"}]}},
            "tolerations[0].operator",
            "spec.podTemplateOverrides[0].spec.tolerations[0].operator",
        ),
    ],
)
def test_overrides_of_earlier_versions_are_named(field: str, override: Body, where: str, expected: str) -> None:
    job = train_job(**{field: [override]})
    assert path(torch(), job, f"spec.template.spec.{where}") == expected


def test_labels_of_pods_are_metadata_for_the_user() -> None:
    given = torch(trainer(pod_metadata={"labels": {"a": "b c"}}))
    assert path(given, train_job(), "spec.template.labels") == f"{JOB}.spec.template.metadata.labels"


def test_an_error_without_a_path_is_about_the_runtime() -> None:
    (found,) = findings(torch(), train_job(), FieldError("", "cannot be decoded"))
    assert f"{JOB}: cannot be decoded" in found.message


def test_jobs_are_those_of_the_controller_of_jobset() -> None:
    claims = [{"templates": [{"metadata": {"name": "data"}}]}]
    given = runtime(
        trainer(containers=[container(volumeMounts=[DATA])]),
        mlPolicy={"numNodes": 1},
        jobset={"volumeClaimPolicies": claims},
    )
    body = child(given, train_job())
    pod = body["spec"]["template"]["spec"]
    assert (body["metadata"]["name"], body["spec"]["completionMode"]) == ("job-node-0", "Indexed")
    assert (pod["restartPolicy"], pod["subdomain"]) == ("OnFailure", "job")
    assert pod["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-job"}}]
