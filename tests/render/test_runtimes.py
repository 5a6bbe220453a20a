"""Admission of runtimes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.builders import (
    ANCESTOR,
    container,
    initializer,
    objects,
    only,
    pods,
    replicated_job,
    runtime,
    train_job,
    trainer,
    verdict,
)
from trainyard.api import MLPolicy, PodGroupPolicy
from trainyard.jobs.render.frameworks import DECLARED
from trainyard.jobs.render.gangs import GANGS
from trainyard.jobs.render.result import AdmissionDecision
from trainyard.jobs.render.runtime_admission import validate_runtime

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


def test_a_runtime_has_at_most_as_many_jobs_as_the_status_of_a_train_job() -> None:
    jobs = [trainer(), *(replicated_job(f"j{number}") for number in range(99))]
    assert validate_runtime(runtime(*jobs)).allowed
    too_many = runtime(*jobs, replicated_job("more"))
    (error,) = validate_runtime(too_many).errors
    assert (error.path, error.message) == (JOBS, "101 replicatedJobs; the status of a TrainJob has at most 100")
    assert error.message in only(verdict(train_job(), too_many).errors).message


def test_what_was_wrong_already_does_not_stand_in_the_way_of_an_update() -> None:
    wrong = runtime(trainer(replicas=2))
    assert not validate_runtime(wrong).allowed
    assert validate_runtime(wrong, wrong).allowed
    assert not validate_runtime(wrong, runtime(trainer())).allowed


@pytest.mark.parametrize("cluster", [True, False])
def test_a_deprecated_runtime_is_warned_about(cluster: bool) -> None:
    of = runtime(trainer(), cluster=cluster, labels={"trainer.kubeflow.org/support": "deprecated"})
    for old in (None, of, runtime(trainer(), cluster=cluster)):
        assert f'{of.kind} "runtime" is deprecated' in only(validate_runtime(of, old).warnings).message


@pytest.mark.parametrize(
    ("spec", "path", "rule"),
    [
        ({"mlPolicy": {"torch": {}, "xgboost": {}}}, "spec.mlPolicy", "MLP-001"),
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
    warning = only(validate_runtime(runtime(trainer(), mlPolicy={"torch": {"procs": 1}})).warnings)
    assert warning.path == "spec.mlPolicy.torch.procs"


def test_every_framework_and_gang_scheduler_of_the_api_is_built() -> None:
    MLPolicy.model_rebuild()
    PodGroupPolicy.model_rebuild()
    assert [field.alias for field in MLPolicy.model_fields.values()] == ["numNodes", *DECLARED]
    assert [field.alias for field in PodGroupPolicy.model_fields.values()] == list(GANGS)


def launcher(**fields: Any) -> dict[str, Any]:
    return replicated_job("launcher", ancestor="trainer", **fields)


def test_a_launcher_may_name_its_container_so() -> None:
    assert validate_runtime(runtime(launcher(containers=[container("launcher")]))).allowed
    assert validate_runtime(runtime(launcher(containers=[container("node")]))).allowed
    error = only(validate_runtime(runtime(launcher(containers=[container("other")]))).errors)
    assert error.fix == "name one container node or launcher"


def test_the_label_of_the_pod_template_counts_where_the_job_template_has_none() -> None:
    labelled = {"pod_metadata": {"labels": {ANCESTOR: "trainer"}}}
    verdict = validate_runtime(runtime(replicated_job("node", **labelled)))
    assert verdict.allowed
    assert "Kubeflow Trainer ignores it" in only(verdict.warnings).message
    wins = validate_runtime(runtime(replicated_job("node", ancestor="postprocess", replicas=2, **labelled)))
    assert wins.allowed
    assert "takes precedence" in only(wins.warnings).message
    assert validate_runtime(runtime(replicated_job("node", ancestor="trainer", **labelled))).warnings == ()
    assert not validate_runtime(runtime(replicated_job("node", replicas=2, **labelled))).allowed


TEMPLATE = "spec.template.spec"


@pytest.mark.parametrize(
    ("jobset", "path"),
    [
        ({"network": {"subdomain": "My.Net"}}, "network.subdomain"),
        ({"network": {"subdomain": "a" * 64}}, "network.subdomain"),
        ({"managedBy": "someone"}, "managedBy"),
        ({"managedBy": f"acme.io/{'a' * 60}"}, "managedBy"),
        (
            {"successPolicy": {"operator": "All", "targetReplicatedJobs": ["node", "absent"]}},
            "successPolicy.targetReplicatedJobs[1]",
        ),
        ({"failurePolicy": {"rules": [{"name": "1", "action": "FailJobSet"}]}}, "failurePolicy.rules[0].name"),
        (
            {"failurePolicy": {"rules": [{"action": "FailJobSet", "targetReplicatedJobs": ["absent"]}]}},
            "failurePolicy.rules[0].targetReplicatedJobs[0]",
        ),
        (
            {"failurePolicy": {"rules": [{"action": "FailJobSet", "onJobFailureReasons": ["Bored"]}]}},
            "failurePolicy.rules[0].onJobFailureReasons[0]",
        ),
        ({"coordinator": {"replicatedJob": "absent"}}, "coordinator.replicatedJob"),
        ({"coordinator": {"replicatedJob": "node", "jobIndex": 1}}, "coordinator.jobIndex"),
    ],
)
def test_what_job_set_refuses_in_every_job_is_refused_in_the_runtime(jobset: dict[str, Any], path: str) -> None:
    assert only(validate_runtime(runtime(trainer(), jobset=jobset)).errors).path == f"{TEMPLATE}.{path}"


def test_zero_replicas_are_unset_as_for_kubeflow_trainer_and_kueue() -> None:
    of = runtime(trainer(), replicated_job("side", replicas=0), podGroupPolicy={"volcano": {}})
    found = validate_runtime(of)
    assert (found.errors, only(found.warnings).path) == ((), f"{JOBS}[1].replicas")
    made = objects(train_job(), of)
    assert "replicas" not in made["JobSet"]["spec"]["replicatedJobs"][1]
    assert made["PodGroup"]["spec"]["minMember"] == 2
    assert not validate_runtime(runtime(trainer(replicas=0))).allowed


def test_a_job_that_is_deleted_after_its_end_runs_again() -> None:
    """JobSet creates a Job that does not exist, whether it has ended or not (jobset#279)."""
    of = runtime(initializer(job={"ttlSecondsAfterFinished": 0}), trainer())
    found = validate_runtime(of)
    assert (found.errors, only(found.warnings).path) == ((), f"{JOBS}[0].template.spec.ttlSecondsAfterFinished")
    assert "runs again and again" in only(verdict(train_job(), of).warnings).message
    whole = runtime(initializer(), trainer(), jobset={"ttlSecondsAfterFinished": 0})
    assert validate_runtime(whole) == AdmissionDecision()


@pytest.mark.parametrize("cluster", [False, True])
def test_a_subdomain_is_a_service_of_one_train_job(cluster: bool) -> None:
    """JobSet creates the Service once, and it selects the pods of one JobSet (jobset#136)."""
    of = runtime(trainer(), jobset={"network": {"subdomain": "ring"}}, cluster=cluster)
    found = validate_runtime(of)
    assert (found.errors, only(found.warnings).path) == ((), f"{TEMPLATE}.network.subdomain")
    assert 'share Service "ring"' in only(found.warnings).message
    nameless = runtime(trainer(), jobset={"network": {"subdomain": "ring", "enableDNSHostnames": False}})
    assert validate_runtime(nameless) == AdmissionDecision()


def test_an_empty_scheduler_name_is_unset() -> None:
    of = runtime(trainer(pod={"schedulerName": ""}), podGroupPolicy={"volcano": {}})
    assert pods(train_job(), of)["node"]["spec"]["schedulerName"] == "volcano"


IN_PLACE = {"failurePolicy": {"restartStrategy": "InPlaceRestart"}}
RESTART_JOB = {"failurePolicy": {"rules": [{"action": "RestartJob"}]}}
RESTART_IGNORING_LIMIT = {"failurePolicy": {"rules": [{"action": "RestartJobAndIgnoreMaxRestarts"}]}}


@pytest.mark.parametrize(
    ("jobset", "path", "gate"),
    [
        (IN_PLACE, "failurePolicy.restartStrategy", "InPlaceRestart"),
        (RESTART_JOB, "failurePolicy.rules[0].action", "RestartJob"),
        (RESTART_IGNORING_LIMIT, "failurePolicy.rules[0].action", "RestartJob"),
    ],
)
def test_a_gate_that_is_not_declared_is_a_warning(jobset: dict[str, Any], path: str, gate: str) -> None:
    of = runtime(trainer(job={"backoffLimit": 2**31 - 1, "podReplacementPolicy": "Failed"}), jobset=jobset)
    found = validate_runtime(of)
    assert (found.errors, only(found.warnings).path) == ((), f"{TEMPLATE}.{path}")
    assert f"{path}: " in only(verdict(train_job(), of).warnings).message
    declared = frozenset({gate})
    assert validate_runtime(of, job_set_gates=declared) == AdmissionDecision()
    assert verdict(train_job(), of, job_set_gates=declared) == AdmissionDecision()


@pytest.mark.parametrize(
    ("jobset", "job", "fields"),
    [
        (IN_PLACE, trainer(), ["template.spec.backoffLimit", "template.spec.podReplacementPolicy"]),
        (RESTART_JOB, replicated_job("side", replicas=1025), ["replicas"]),
        (RESTART_IGNORING_LIMIT, replicated_job("side", replicas=1025), ["replicas"]),
    ],
)
def test_what_jobset_rejects_with_a_declared_gate_is_rejected(
    jobset: dict[str, Any], job: dict[str, Any], fields: list[str]
) -> None:
    gates = frozenset({"InPlaceRestart", "RestartJob"})
    found = validate_runtime(runtime(job, jobset=jobset), job_set_gates=gates)
    assert [error.path for error in found.errors] == [f"{TEMPLATE}.replicatedJobs[0].{field}" for field in fields]


@pytest.mark.parametrize("gates", [frozenset(), frozenset({"InPlaceRestart"})])
@pytest.mark.parametrize(("counts", "ignored"), [((3, 9), 9), ((None, 2), 2), ((3, 3), None), ((3, None), None)])
def test_completions_that_in_place_restarts_cannot_have_are_warned_about(
    gates: frozenset[str], counts: tuple[int | None, int | None], ignored: int | None
) -> None:
    numbers = {name: count for name, count in zip(("parallelism", "completions"), counts, strict=True) if count}
    job = {"backoffLimit": 2**31 - 1, "podReplacementPolicy": "Failed"}
    of = runtime(replicated_job("side", job={**job, **numbers}), trainer(job=job), jobset=IN_PLACE)
    path = f"{TEMPLATE}.replicatedJobs[0].template.spec.completions"
    found = [warning for warning in validate_runtime(of, job_set_gates=gates).warnings if warning.path == path]
    assert validate_runtime(of, job_set_gates=gates).allowed
    found_warnings = [
        finding for finding in verdict(train_job(), of, job_set_gates=gates).warnings if path in finding.message
    ]
    assert len(found_warnings) == len(found) == (ignored is not None)
    for warning in found:
        pods = counts[0] or 1
        assert f"{ignored} differs from parallelism {pods}" in warning.message
        assert warning.fix == f"set both to the number of pods, or remove completions: {pods} run"
    for entry in objects(train_job(), of, job_set_gates=gates)["JobSet"]["spec"]["replicatedJobs"]:
        spec = entry["template"]["spec"]
        assert spec["completions"] == spec["parallelism"], "JobSet rejects other numbers"
    other = runtime(replicated_job("side", job=numbers), trainer())
    assert validate_runtime(other).warnings == ()


def test_rules_of_one_name_are_refused() -> None:
    rules = [{"name": "a", "action": "FailJobSet"}, {"name": "a", "action": "RestartJobSet"}]
    errors = validate_runtime(runtime(trainer(), jobset={"failurePolicy": {"rules": rules}})).errors
    assert [error.path for error in errors] == [f"{TEMPLATE}.failurePolicy.rules[{index}].name" for index in (0, 1)]


@pytest.mark.parametrize(
    ("job", "path"),
    [
        (replicated_job("My_Job"), "name"),
        (replicated_job("a", groupName="9lives"), "groupName"),
        (replicated_job("a", replicas=-1), "replicas"),
        (replicated_job("a", job={"completionMode": 1}), "template.spec.completionMode"),
    ],
)
def test_names_that_job_set_cannot_build_on_are_refused(job: dict[str, Any], path: str) -> None:
    assert only(validate_runtime(runtime(job, trainer())).errors).path == f"{JOBS}[0].{path}"


def test_an_ordered_startup_excludes_dependencies() -> None:
    waiting = trainer(dependsOn=[{"name": "first", "status": "Ready"}])
    of = runtime(replicated_job("first"), waiting, jobset={"startupPolicy": {"startupPolicyOrder": "InOrder"}})
    assert only(validate_runtime(of).errors).path == f"{JOBS}[1].dependsOn"


def test_labels_that_the_api_server_refuses_are_refused() -> None:
    metadata = {"labels": {"a b": "c", "ok": "-"}, "annotations": {"x/y/z": "", "Acme.io/ok": "any thing"}}
    errors = validate_runtime(runtime(trainer(), template={"metadata": metadata})).errors
    assert [error.path for error in errors] == [
        "spec.template.metadata.labels[a b]",
        "spec.template.metadata.annotations[x/y/z]",
        "spec.template.metadata.labels[ok]",
    ]
