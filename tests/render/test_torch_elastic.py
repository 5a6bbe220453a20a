"""Elastic PyTorch: how many pods, where they meet, and what a lost one means."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.render.builders import (
    container,
    environment,
    node,
    objects,
    only,
    runtime,
    train_job,
    trainer,
    verdict,
)
from trainyard.api import Body
from trainyard.data import data_folder

BOUNDS = {"minNodes": 2, "maxNodes": 4}
ALL_SUCCEEDED = {"rules": [{"succeededCount": 4}]}


def elastic(*jobs: Body, policy: Body | None = None, volcano: bool = False, **spec: Any) -> Any:
    torch = {"elasticPolicy": BOUNDS if policy is None else policy}
    gang = {"podGroupPolicy": {"volcano": {}}} if volcano else {}
    return runtime(*(jobs or (trainer(),)), mlPolicy={"torch": torch}, **gang, **spec)


def job_of(of: Any, **spec: Any) -> Body:
    found: Body = objects(train_job(**spec), of)["JobSet"]["spec"]["replicatedJobs"][0]["template"]["spec"]
    return found


def test_nodes_meet_at_the_first_one() -> None:
    variables = environment(node(train_job(), elastic(policy={**BOUNDS, "maxRestarts": 3})))
    assert variables == {
        "PET_NNODES": "2:4",
        "PET_NPROC_PER_NODE": "1",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": "job-node-0-0.job:29500",
        "PET_RDZV_ID": "job",
        "PET_MAX_RESTARTS": "3",
    }


def test_without_restarts_torchrun_decides() -> None:
    assert "PET_MAX_RESTARTS" not in environment(node(train_job(), elastic()))


@pytest.mark.parametrize(
    ("policy", "nodes", "pods", "range_"),
    [
        ({"minNodes": 2, "maxNodes": 4}, None, 4, "2:4"),
        ({"minNodes": 2, "maxNodes": 4}, 3, 3, "2:3"),
        ({"minNodes": 2, "maxNodes": 4}, 2, 2, "2:2"),
        ({"maxNodes": 4}, None, 4, "1:4"),
        ({"minNodes": 3}, None, 3, "3:3"),
        ({"minNodes": 3}, 8, 8, "3:8"),
        ({}, None, 1, "1:1"),
    ],
)
def test_there_are_as_many_pods_as_may_train(policy: Body, nodes: int | None, pods: int, range_: str) -> None:
    asked = {} if nodes is None else {"trainer": {"numNodes": nodes}}
    of = elastic(policy=policy)
    job = job_of(of, **asked)
    assert (job["parallelism"], job["completions"]) == (pods, pods)
    assert environment(node(train_job(**asked), of))["PET_NNODES"] == range_


def test_the_gang_needs_only_the_least_number_of_nodes() -> None:
    resources = {"limits": {"nvidia.com/gpu": "8"}}
    of = elastic(trainer(containers=[container(resources=resources)]), volcano=True)
    group = objects(train_job(), of)["PodGroup"]["spec"]
    assert group["minMember"] == 2
    assert group["minResources"] == {"nvidia.com/gpu": "16"}


@pytest.mark.parametrize(("nodes", "bounds"), [(1, "from 2 to 4"), (5, "from 2 to 4")])
def test_a_number_of_nodes_outside_the_bounds_is_refused(nodes: int, bounds: str) -> None:
    found = only(verdict(train_job(trainer={"numNodes": nodes}), elastic()).errors)
    assert found.path == "spec.trainer.numNodes"
    assert bounds in found.message


def test_bounds_that_contradict_each_other_are_refused() -> None:
    found = only(verdict(train_job(), elastic(policy={"minNodes": 4, "maxNodes": 2})).errors)
    assert found.path == "spec.runtimeRef"
    assert "maxNodes 2 is less than minNodes 4" in found.message


def test_a_fixed_number_of_nodes_beside_the_policy_is_refused() -> None:
    of = runtime(trainer(), mlPolicy={"numNodes": 2, "torch": {"elasticPolicy": BOUNDS}})
    assert only(verdict(train_job(), of).errors).rule == "MLP-002"


def test_elastic_jobs_reserve_the_variables_of_the_rendezvous() -> None:
    env = [{"name": name} for name in ("PET_RDZV_ID", "PET_MASTER_ADDR", "PET_RDZV_CONF")]
    found = only(verdict(train_job(trainer={"env": env}), elastic()).errors)
    assert found.message.endswith("[PET_MASTER_ADDR PET_RDZV_ID]")


def test_metrics_are_accepted_with_a_warning() -> None:
    metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]
    answer = verdict(train_job(), elastic(policy={**BOUNDS, "metrics": metrics}))
    assert not answer.errors
    assert "metrics has no effect" in only(answer.warnings).message


def test_lost_pods_are_replaced_and_the_first_node_ends_the_job() -> None:
    job = job_of(elastic(policy={"minNodes": 1, "maxNodes": 16}))
    assert job["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}
    assert job["backoffLimit"] == 16
    assert job["template"]["spec"]["restartPolicy"] == "Never"
    rule = only_rule(job)
    assert rule == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


@pytest.mark.parametrize(("nodes", "limit"), [(2, 6), (20, 20), (64, 20)])
def test_the_retries_are_within_the_default_of_the_rule_that_bounds_them(nodes: int, limit: int) -> None:
    job = job_of(elastic(policy={"minNodes": 1, "maxNodes": nodes}))
    rule = yaml.safe_load((data_folder("policies") / "quality" / "RST-001-bounded-restarts" / "rule.yaml").read_text())
    assert job["backoffLimit"] == limit <= rule["parameters"]["maxBackoffLimit"]["default"]


def only_rule(job: Body) -> Body:
    (rule,) = job["podFailurePolicy"]["rules"]
    found: Body = rule
    return found


@pytest.mark.parametrize(
    ("job", "pod", "kept", "absent"),
    [
        ({"backoffLimit": 0}, {}, {"backoffLimit": 0}, ()),
        ({"backoffLimitPerIndex": 2}, {}, {"backoffLimitPerIndex": 2}, ("backoffLimit",)),
        ({"completionMode": "NonIndexed"}, {}, {}, ("successPolicy",)),
        ({"successPolicy": ALL_SUCCEEDED}, {}, {"successPolicy": ALL_SUCCEEDED}, ()),
        ({}, {"restartPolicy": "OnFailure"}, {}, ("podFailurePolicy",)),
        ({"podReplacementPolicy": "TerminatingOrFailed"}, {}, {}, ("podFailurePolicy",)),
        ({"podFailurePolicy": {"rules": []}}, {}, {"podFailurePolicy": {"rules": []}}, ()),
    ],
)
def test_what_the_runtime_says_about_failures_stays(job: Body, pod: Body, kept: Body, absent: tuple[str, ...]) -> None:
    found = job_of(elastic(trainer(job=job, pod=pod)))
    assert {name: found[name] for name in kept} == kept
    assert not set(absent) & set(found)
    if "restartPolicy" in pod:
        assert found["template"]["spec"]["restartPolicy"] == pod["restartPolicy"]


def test_restarts_are_those_of_the_whole_job_set_too() -> None:
    policy = {**BOUNDS, "maxRestarts": 3}
    assert objects(train_job(), elastic(policy=policy))["JobSet"]["spec"]["failurePolicy"] == {"maxRestarts": 3}
    own = {"failurePolicy": {"maxRestarts": 1}}
    assert objects(train_job(), elastic(policy=policy, jobset=own))["JobSet"]["spec"]["failurePolicy"] == {
        "maxRestarts": 1
    }
    assert "failurePolicy" not in objects(train_job(), elastic())["JobSet"]["spec"]


def test_jobs_that_are_not_elastic_keep_the_defaults() -> None:
    job = job_of(runtime(trainer(), mlPolicy={"torch": {}}))
    assert set(job) == {"template", "parallelism", "completions"}


def test_rendering_twice_shares_nothing() -> None:
    first = job_of(elastic())
    only_rule(first)["action"] = "Count"
    first["successPolicy"]["rules"].clear()
    assert only_rule(job_of(elastic()))["action"] == "Ignore"
    assert job_of(elastic())["successPolicy"]["rules"]
