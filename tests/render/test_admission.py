"""Admission of TrainJobs: every verdict, with its path and a fix."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.builders import (
    QUEUE,
    container,
    initializer,
    only,
    patch,
    pod_patch,
    pods,
    replicated_job,
    runtime,
    torch,
    train_job,
    trainer,
    verdict,
)
from trainyard.api import TrainJob
from trainyard.jobs.render.pipeline import render, validate
from trainyard.jobs.render.result import Rejected, RenderContext, Rendered

RESERVED = ["PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"]
BOTH = {"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}


def test_a_plain_job_is_fine() -> None:
    answer = verdict(train_job(), runtime(trainer()))
    assert (answer.allowed, answer.errors, answer.warnings) == (True, (), ())


def test_a_job_without_spec_is_refused() -> None:
    job = TrainJob.from_body({"metadata": {"name": "job"}})
    assert only(validate(job, None, RenderContext()).errors).path == "spec.runtimeRef"
    assert isinstance(render(job, runtime(trainer()), RenderContext()), Rejected)


@pytest.mark.parametrize("reference", [{"kind": "Deployment"}, {"apiGroup": "apps"}])
def test_another_kind_of_runtime_is_refused(reference: dict[str, str]) -> None:
    job = train_job()
    body = job.body()
    body["spec"]["runtimeRef"].update(reference)
    error = only(validate(TrainJob.from_body(body), None, RenderContext()).errors)
    assert error.message.startswith("unsupported runtime: ")


@pytest.mark.parametrize("kind", ["TrainingRuntime", "ClusterTrainingRuntime"])
def test_a_runtime_that_does_not_exist_is_named(kind: str) -> None:
    error = only(verdict(train_job(kind=kind), None).errors)
    assert error.path == "spec.runtimeRef"
    assert f'{kind} "runtime" not found' in error.message
    assert "must be created before the TrainJob is created" in error.message


@pytest.mark.parametrize("cluster", [True, False])
def test_a_deprecated_runtime_of_either_scope_is_warned_about(cluster: bool) -> None:
    of = runtime(trainer(), cluster=cluster, labels={"trainer.kubeflow.org/support": "deprecated"})
    warning = only(verdict(train_job(), of).warnings)
    assert f'Referenced {of.kind} "runtime" is deprecated' in warning.message
    assert "runtime-deprecation-policy" in warning.fix


@pytest.mark.parametrize(("kind", "config"), [("dataset", "datasetConfig"), ("model", "modelConfig")])
def test_an_initializer_needs_its_step(kind: str, config: str) -> None:
    job = train_job(initializer={kind: {"storageUri": "hf://a/b"}})
    assert config in only(verdict(job, runtime(trainer())).errors).message
    wrong = replicated_job(f"{kind}-initializer", containers=[container("other")])
    assert "must have container with name" in only(verdict(job, runtime(wrong, trainer())).errors).message
    assert verdict(job, runtime(initializer(kind), trainer())).errors == ()


def test_an_initializer_without_the_volume_is_warned_about() -> None:
    bare = replicated_job("dataset-initializer", ancestor="dataset-initializer")
    answer = verdict(train_job(initializer={"dataset": {}}), runtime(bare, trainer()))
    assert answer.allowed
    assert "volumeMount with name - initializer" in only(answer.warnings).message


def test_an_initializer_whose_step_is_not_labelled_is_warned_about() -> None:
    step = initializer()
    del step["template"]["metadata"]
    answer = verdict(train_job(initializer={"dataset": {}}), runtime(step, trainer()))
    assert "has no effect" in only(answer.warnings).message


def test_a_trainer_that_no_container_takes_is_warned_about() -> None:
    answer = verdict(train_job(trainer={"image": "mine"}), runtime(replicated_job("node")))
    assert only(answer.warnings).path == "spec.trainer"


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"trainer": {"env": [BOTH]}}, "spec.trainer.env[0].value"),
        ({"initializer": {"dataset": {"env": [BOTH]}}}, "spec.initializer.dataset.env[0].value"),
        ({"initializer": {"model": {"env": [BOTH]}}}, "spec.initializer.model.env[0].value"),
    ],
)
def test_a_value_beside_a_source_is_warned_about(spec: dict[str, Any], path: str) -> None:
    answer = verdict(train_job(**spec), runtime(initializer("dataset"), initializer("model"), trainer()))
    assert answer.allowed
    assert only(answer.warnings).path == path


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (pod_patch("absent"), "must not have replicated job that doesn't exist"),
        (
            pod_patch(containers=[{"name": "absent"}]),
            "must not have container that doesn't exist in the runtime job node",
        ),
        (pod_patch(initContainers=[{"name": "absent"}]), "must not have initContainer that doesn't exist"),
        (
            pod_patch(containers=[{"name": "node", "env": [{"name": "A"}]}]),
            "must not have envs for the dataset-initializer, model-initializer, node containers",
        ),
    ],
)
def test_patches_of_what_is_not_there_or_not_theirs_are_refused(target: dict[str, Any], message: str) -> None:
    error = only(verdict(train_job(runtimePatches=[patch(target)]), runtime(trainer())).errors)
    assert error.path == "spec.runtimePatches"
    assert error.message.startswith(message)


def test_init_containers_and_containers_share_their_names() -> None:
    of = runtime(trainer(containers=[container(), container("side")], pod={"initContainers": [container("setup")]}))
    target = pod_patch(
        initContainers=[{"name": "setup", "env": [{"name": "A", "value": "1"}]}], containers=[{"name": "side"}]
    )
    assert verdict(train_job(runtimePatches=[patch(target)]), of).allowed


@pytest.mark.parametrize("manager", ["acme", "acme.io/", "/team", "Acme.io/team", "acme.io/te am"])
def test_managers_are_domain_prefixed_paths(manager: str) -> None:
    error = only(verdict(train_job(runtimePatches=[patch(manager=manager)]), runtime(trainer())).errors)
    assert error.path == "spec.runtimePatches.manager"


@pytest.mark.parametrize("name", RESERVED)
def test_reserved_variables_are_refused(name: str) -> None:
    error = only(verdict(train_job(trainer={"env": [{"name": name, "value": "1"}]}), torch()).errors)
    assert error.path == "spec.trainer.env"
    assert error.message == f"must not have reserved envs, invalid envs configured: [{name}]"
    assert verdict(train_job(trainer={"env": [{"name": name, "value": "1"}]}), runtime(trainer())).allowed


def test_injection_targets_must_exist() -> None:
    targets = [{"jobName": "node", "containerNames": ["absent"]}, {"jobName": "absent", "containerNames": ["x"]}]
    of = runtime(trainer(), mlPolicy={"torch": {"envInjection": {"targets": targets}}})
    messages = [error.message for error in verdict(train_job(), of).errors]
    assert messages == [
        'envInjection target podSet "node" container "absent" not found in runtime template',
        'envInjection target podSet "absent" container "x" not found in runtime template',
    ]


def test_two_frameworks_are_refused_with_the_rules_id() -> None:
    errors = verdict(train_job(), runtime(trainer(), mlPolicy={"torch": {}, "mpi": {}})).errors
    assert errors[0].rule == "MLP-001"
    assert "torch, mpi" in errors[0].message


def test_a_runtime_without_jobs_is_refused() -> None:
    assert "replicatedJobs: is empty" in only(verdict(train_job(), runtime()).errors).message


@pytest.mark.parametrize(
    ("queue", "message"), [("", "must not be empty"), ("Not A Queue", "is not a Volcano queue name")]
)
def test_queue_names_that_cannot_be_are_refused(queue: str, message: str) -> None:
    patches = [patch(metadata={"annotations": {QUEUE: queue}})]
    error = only(verdict(train_job(runtimePatches=patches), torch(volcano={}), default_queue="q").errors)
    assert error.path == f"spec.annotations[{QUEUE}]"
    assert message in error.message


def test_priority_classes_of_all_jobs_must_exist() -> None:
    jobs = (
        replicated_job("a", pod={"priorityClassName": "system-node-critical"}),
        trainer(pod={"priorityClassName": "high"}),
    )
    of = torch(*jobs, volcano={})
    assert only(verdict(train_job(), of, priority_classes=frozenset({"low"})).errors).message == (
        'PriorityClass "high" doesn\'t exist'
    )
    assert verdict(train_job(), of, priority_classes=frozenset({"high"})).allowed
    assert verdict(train_job(), of).allowed


@pytest.mark.parametrize(
    ("length", "nodes", "fits"),
    [(48, 10, True), (49, 10, False), (47, 11, True), (48, 11, False), (48, 1, True), (49, 1, False)],
)
def test_names_fit_what_job_set_builds_from_them(length: int, nodes: int, fits: bool) -> None:
    answer = verdict(train_job("j" * length, trainer={"numNodes": nodes}), runtime(trainer()))
    assert answer.allowed is fits
    if not fits:
        assert only(answer.errors).path == "metadata.name"
        assert f"of at most {length - 1} characters" in only(answer.errors).fix


def test_the_longest_replicated_job_and_claim_bound_the_name() -> None:
    steps = runtime(initializer(), trainer())
    assert verdict(train_job("j" * 33), steps).allowed
    assert not verdict(train_job("j" * 34), steps).allowed
    claims = {"volumeClaimPolicies": [{"templates": [{"metadata": {"name": "a" * 30}}]}]}
    of = runtime(trainer(containers=[container(volumeMounts=[{"name": "a" * 30, "mountPath": "/a"}])]), jobset=claims)
    assert verdict(train_job("j" * 32), of).allowed
    assert "volume claim" in only(verdict(train_job("j" * 33), of).errors).message


@pytest.mark.parametrize("name", ["1job", "Job", "job_", "job-", ""])
def test_names_are_labels(name: str) -> None:
    assert only(verdict(train_job(name), runtime(trainer())).errors).path == "metadata.name"


def test_fields_the_api_does_not_have_are_warned_about() -> None:
    changed = pod_patch(hostNetwork=True)
    answer = verdict(train_job(queue="a", runtimePatches=[patch(changed)]), runtime(trainer()))
    base = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0]"
    assert [warning.path for warning in answer.warnings] == [
        "spec.queue",
        f"{base}.template.spec.template.spec.hostNetwork",
    ]
    assert "hostNetwork" not in pods(train_job(runtimePatches=[patch(changed)]), runtime(trainer()))["node"]["spec"]


def test_values_that_cannot_be_read_are_found_with_their_path() -> None:
    job = train_job(trainer={"resourcesPerNode": {"limits": {"cpu": "many"}}, "env": [{"value": "x"}]})
    assert [error.path for error in verdict(job, runtime(trainer())).errors] == [
        "spec.trainer.env[0].name",
        "spec.trainer.resourcesPerNode.limits[cpu]",
    ]


def test_amounts_are_bounded_in_length_exponent_and_size() -> None:
    allowed = {"cpu": "8P", "memory": "1e15", "a/a": "1e-18", "a/b": "0" * 32}
    denied = {"cpu": "8001T", "memory": "1e19", "a/a": "1e-19", "a/b": "0" * 33, "a/c": 9 * 10**15}
    path = "spec.trainer.resourcesPerNode.limits"
    for amounts, paths in ((allowed, []), (denied, [f"{path}[{name}]" for name in denied])):
        errors = verdict(train_job(trainer={"resourcesPerNode": {"limits": amounts}}), runtime(trainer())).errors
        assert [error.path for error in errors if error.path.startswith(path)] == paths


def test_a_job_of_another_controller_has_no_objects_and_no_error() -> None:
    job = train_job(managedBy="kueue.x-k8s.io/multikueue")
    assert render(job, runtime(trainer()), RenderContext()) == Rendered(())


def test_a_whole_command_line_in_one_element_is_warned_about() -> None:
    answer = verdict(train_job(trainer={"command": ["torchrun train.py"]}), runtime(trainer()))
    assert only(answer.warnings).path == "spec.trainer.command[0]"
    assert verdict(train_job(trainer={"command": ["bash", "-c", "a b"]}), runtime(trainer())).warnings == ()


def test_an_initializer_that_is_an_init_container_is_warned_about() -> None:
    step = replicated_job("dataset-initializer", containers=[container("other")])
    mounted = container("dataset-initializer", volumeMounts=[{"name": "initializer", "mountPath": "/w"}])
    step["template"]["spec"]["template"]["spec"]["initContainers"] = [mounted]
    answer = verdict(train_job(initializer={"dataset": {}}), runtime(step, trainer()))
    assert answer.allowed
    assert "has no effect" in answer.warnings[0].message


def test_the_address_of_the_coordinator_bounds_the_name() -> None:
    def of(**coordinator: int) -> Any:
        return runtime(trainer(), jobset={"coordinator": {"replicatedJob": "node", **coordinator}})

    assert verdict(train_job("j" * 26), of()).allowed
    assert "coordinator" in only(verdict(train_job("j" * 27), of()).errors).message
    assert "has 2 pods" in only(verdict(train_job(trainer={"numNodes": 2}), of(podIndex=2)).errors).message
    assert verdict(train_job(trainer={"numNodes": 3}), of(podIndex=2)).allowed


def test_a_job_without_replicas_bounds_the_name_as_one_with_a_single_replica() -> None:
    of = runtime(replicated_job("other-jobs", replicas=0), trainer())
    assert len(f"{'j' * 42}-other-jobs-0-0-abcde") == 63
    assert verdict(train_job("j" * 42), of).allowed
    assert not verdict(train_job("j" * 43), of).allowed
