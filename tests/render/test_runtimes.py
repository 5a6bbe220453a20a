"""Admission of runtimes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.builders import container, only, replicated_job, runtime, trainer
from trainyard.render import validate_runtime

JOBS = "spec.template.spec.replicatedJobs"


@pytest.mark.parametrize("ancestor", ["trainer", "dataset-initializer", "model-initializer"])
def test_parts_of_a_train_job_have_one_replica_and_their_container(ancestor: str) -> None:
    job = replicated_job("a", ancestor=ancestor, containers=[container("other")], replicas=2)
    errors = validate_runtime(runtime(replicated_job("first"), job)).errors
    assert [error.path for error in errors] == [
        f"{JOBS}[1].replicas",
        f"{JOBS}[1].template.spec.template.spec.containers",
    ]


def test_other_jobs_and_unknown_parts_are_free() -> None:
    jobs = replicated_job("a", replicas=3), replicated_job("b", ancestor="postprocess", replicas=2)
    assert validate_runtime(runtime(*jobs)).allowed


def test_what_was_wrong_already_does_not_stand_in_the_way_of_an_update() -> None:
    wrong = runtime(trainer(replicas=2))
    assert not validate_runtime(wrong).allowed
    assert validate_runtime(wrong, wrong).allowed
    assert not validate_runtime(wrong, runtime(trainer())).allowed


@pytest.mark.parametrize("cluster", [True, False])
def test_a_deprecated_runtime_is_warned_about(cluster: bool) -> None:
    of = runtime(trainer(), cluster=cluster, labels={"trainer.kubeflow.org/support": "deprecated"})
    assert f'{of.kind} "runtime" is deprecated' in only(validate_runtime(of).warnings).message


@pytest.mark.parametrize(
    ("spec", "path", "rule"),
    [
        ({"mlPolicy": {"jax": {}}}, "spec.mlPolicy.jax", None),
        ({"mlPolicy": {"torch": {}, "xgboost": {}}}, "spec.mlPolicy", "MLP-001"),
        ({"podGroupPolicy": {"coscheduling": {}}}, "spec.podGroupPolicy.coscheduling", None),
        ({"podGroupPolicy": {"coscheduling": {}, "volcano": {}}}, "spec.podGroupPolicy", "PGP-001"),
    ],
)
def test_policies_that_cannot_be_are_refused(spec: dict[str, Any], path: str, rule: str | None) -> None:
    error = validate_runtime(runtime(trainer(), **spec)).errors[0]
    assert (error.path, error.rule) == (path, rule)
    assert error.fix


@pytest.mark.parametrize("name", ["later", "absent", "node"])
def test_a_job_waits_only_for_jobs_before_it(name: str) -> None:
    waiting = trainer(dependsOn=[{"name": name, "status": "Ready"}])
    error = only(validate_runtime(runtime(replicated_job("first"), waiting, replicated_job("later"))).errors)
    assert error.path == f"{JOBS}[1].dependsOn[0].name"


def test_the_shape_of_the_template_is_checked() -> None:
    broken = runtime({"name": "node", "template": {"spec": {"template": {"spec": {"containers": "none"}}}}})
    error = only(validate_runtime(broken).errors)
    assert error.path == f"{JOBS}[0].template.spec.template.spec.containers"


def test_unknown_fields_are_warned_about() -> None:
    warning = only(validate_runtime(runtime(trainer(), mlPolicy={"torch": {"numProcPerNode": "auto"}})).warnings)
    assert warning.path == "spec.mlPolicy.torch.numProcPerNode"
