"""Ranks and numbers of processes that reach every pod alike."""

from __future__ import annotations

from typing import Any

import pytest

from tests.counting import cpu_seconds
from tests.render.builders import container, only, patch, pod_patch, runtime, train_job, trainer, verdict
from tests.render.launched import launched
from trainyard.api import Body
from trainyard.jobs.render.frameworks import FRAMEWORKS, PLAIN

INDEX = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
RANKS = [
    (key, name) for key, framework in FRAMEWORKS.items() for name in framework.ranks if name not in framework.reserved
]
SIZES = [
    (key, name) for key, framework in FRAMEWORKS.items() for name in framework.sizes if name not in framework.reserved
]


def of(framework: str, **fields: Any) -> Any:
    if framework == PLAIN:
        return runtime(trainer(**fields))
    if FRAMEWORKS[framework].launched:
        return launched(framework=framework)
    return runtime(trainer(**fields), mlPolicy={framework: {}})


def job(*variables: Body, nodes: int = 2, **spec: Any) -> Any:
    return train_job(trainer={"numNodes": nodes, "command": ["python", "train.py"], "env": list(variables)}, **spec)


def fixed(name: str, value: str = "0") -> Body:
    return {"name": name, "value": value}


def patched(name: str) -> Any:
    """Return a job that sets a variable of container side to 0."""
    return job(runtimePatches=[patch(pod_patch(containers=[{"name": "side", "env": [fixed(name)]}]))])


def test_every_framework_whose_programs_read_ranks_lists_them() -> None:
    assert {name for name, _ in RANKS} == {"torch", "mpi", "jax", "xgboost", "flux", "paddle", "horovod", PLAIN}


@pytest.mark.parametrize(("framework", "name"), RANKS)
def test_one_rank_for_all_pods_is_found(framework: str, name: str) -> None:
    decision = verdict(job({"name": "A", "value": "1"}, fixed(name)), of(framework))
    [finding] = [found for found in (*decision.errors, *decision.warnings) if name in found.message]
    assert finding.path == "spec.trainer.env[1]"
    pods = 3 if FRAMEWORKS[framework].launched else 2
    assert finding.message.startswith(f"{name} is the same in all {pods} pods")
    assert decision.allowed == (framework != "jax")


@pytest.mark.parametrize(("framework", "name"), RANKS)
@pytest.mark.parametrize("source", ["field", "reference", "value and field"])
def test_a_rank_that_differs_between_pods_is_not(framework: str, name: str, source: str) -> None:
    variables = {
        "field": [{"name": name, "valueFrom": INDEX}],
        "reference": [{"name": "I", "valueFrom": INDEX}, fixed(name, "$(I)")],
        "value and field": [{"name": name, "value": "", "valueFrom": INDEX}],
    }[source]
    decision = verdict(job(*variables), of(framework))
    assert [found for found in (*decision.errors, *decision.warnings) if name in found.message] == []


@pytest.mark.parametrize(("framework", "name"), [each for each in RANKS if not FRAMEWORKS[each[0]].launched])
def test_the_rank_of_the_only_pod_is_not(framework: str, name: str) -> None:
    decision = verdict(job(fixed(name), nodes=1), of(framework))
    assert [found for found in (*decision.errors, *decision.warnings) if name in found.message] == []


@pytest.mark.parametrize(("framework", "name"), SIZES)
def test_a_number_of_processes_that_the_job_does_not_have_is_found(framework: str, name: str) -> None:
    pods = 7 if FRAMEWORKS[framework].launched else 6
    for value, wrong in (("1", True), ("12", False), ("6", False), ("auto", False), ("$(N)", False), ("-6", True)):
        decision = verdict(job(fixed(name, value), nodes=6), of(framework))
        found = [found.message for found in (*decision.errors, *decision.warnings) if name in found.message]
        assert found == ([f"{name} is {value}, but the job has {pods} pods"] if wrong else []), (value, decision)


def test_a_job_with_its_own_coordinator_may_number_processes_itself() -> None:
    coordinator = fixed("JAX_COORDINATOR_ADDRESS", "x:1")
    decision = verdict(job(fixed("JAX_PROCESS_ID"), coordinator), of("jax"))
    assert decision.allowed
    assert only(decision.warnings).message.startswith("JAX_PROCESS_ID is the same in all 2 pods")
    assert verdict(job(fixed("JAX_NUM_PROCESSES", "7"), coordinator), of("jax")).warnings == ()
    assert not verdict(job(fixed("JAX_NUM_PROCESSES", "7")), of("jax")).allowed


@pytest.mark.parametrize("source", ["configMapKeyRef", "secretKeyRef"])
def test_a_rank_from_one_object_is_the_same_in_all_pods(source: str) -> None:
    variable = {"name": "RANK", "valueFrom": {source: {"name": "a", "key": "b"}, "fieldRef": None}}
    assert only(verdict(job(variable), of("torch")).warnings).path == "spec.trainer.env[0]"


def test_a_reference_to_a_constant_and_a_field_of_the_job_are_the_same_in_all_pods() -> None:
    reference = job(fixed("ZERO"), fixed("RANK", "$(ZERO)"))
    assert only(verdict(reference, of("torch")).warnings).path == "spec.trainer.env[1]"
    assert verdict(job(fixed("RANK", "$(JOB_COMPLETION_INDEX)")), of("torch")).warnings == ()
    namespace = {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}
    assert only(verdict(job(namespace), of("torch")).warnings).path == "spec.trainer.env[0]"


def test_ranks_in_patches_are_found_too() -> None:
    """Patches set no variables of container node; those of others are applied."""
    beside = [container("node"), container("side")]
    finding = only(verdict(patched("RANK"), of("torch", containers=beside)).warnings)
    assert finding.path == "spec.runtimePatches"
    assert finding.message.startswith('container "side" of replicatedJob "node": RANK is the same in all 2 pods')
    assert only(verdict(patched("JAX_PROCESS_ID"), of("jax", containers=beside)).errors)


def test_what_the_framework_sets_replaces_the_runtimes() -> None:
    fixed_in_runtime = of("jax", containers=[container("node", env=[fixed("JAX_PROCESS_ID")])])
    assert verdict(job(), fixed_in_runtime).warnings == ()


def test_ranks_in_the_runtime_are_found_too() -> None:
    fixed_in_runtime = of("torch", containers=[container("node", env=[fixed("RANK")])])
    finding = only(verdict(job(), fixed_in_runtime).warnings)
    assert finding.path == "spec.runtimeRef"
    assert verdict(job(fixed("RANK", "$(PET_NODE_RANK)")), fixed_in_runtime).warnings == ()


def test_a_text_takes_no_longer_than_it_is_long() -> None:
    """A value of 160 KB occupied a webhook, which answers all tenants, for minutes."""

    def seconds(length: int) -> float:
        text = "$(" * (length // 2)
        return cpu_seconds(lambda: verdict(job(fixed("RANK", text), fixed("LOCAL_RANK", text)), of("torch")))

    assert seconds(64_000) < 64 * seconds(4_000)


def test_only_names_without_blanks_are_references() -> None:
    for value, constant in (("$(A B)", True), ("$()", True), ("$(A", True), ("$(A $(ZERO)", True), ("$(A)", False)):
        found = verdict(job(fixed("ZERO"), fixed("RANK", value)), of("torch")).warnings
        assert bool(found) == constant, value
