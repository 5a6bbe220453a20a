"""TensorFlow: who is in TF_CONFIG, which task a pod is, and when the job has succeeded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.render.builders import (
    container,
    environment,
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

COMPLETION_INDEX = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
JOB_INDEX = {"fieldRef": {"fieldPath": "metadata.labels['jobset.sigs.k8s.io/job-index']"}}


def tensorflow(*jobs: Any, **spec: Any) -> Any:
    return runtime(*(jobs or (trainer(),)), mlPolicy={"tensorflow": {}, **spec.pop("policy", {})}, **spec)


def role(name: str, *, pods: int = 1, **fields: Any) -> Any:
    return replicated_job(name, containers=[container()], job={"parallelism": pods}, **fields)


def config(pod: Any, index: int = 0) -> Any:
    """Return TF_CONFIG as the pod of an index sees it: the kubelet expands variables that come earlier."""
    variables = pod["spec"]["containers"][0]["env"]
    assert [variable["name"] for variable in variables[:2]] == ["TF_TASK_INDEX", "TF_CONFIG"]
    return json.loads(variables[1]["value"].replace("$(TF_TASK_INDEX)", str(index)))


def test_a_task_that_is_alone_trains_locally() -> None:
    pod = pods(train_job(), tensorflow())["node"]
    assert "env" not in pod["spec"]["containers"][0]


def test_workers_know_each_other_and_their_own_index() -> None:
    pod = pods(train_job(trainer={"numNodes": 2}), tensorflow())["node"]
    assert config(pod, 1) == {
        "cluster": {"worker": ["job-node-0-0.job:2222", "job-node-0-1.job:2222"]},
        "task": {"type": "worker", "index": 1},
    }
    assert environment(pod["spec"]["containers"][0])["TF_TASK_INDEX"] == COMPLETION_INDEX
    assert pod["spec"]["containers"][0]["ports"] == [{"containerPort": 2222, "protocol": "TCP"}]


def test_every_role_gets_its_task() -> None:
    jobs = (initializer(), role("evaluator"), role("ps", pods=2), role("chief"), trainer())
    found = pods(train_job(trainer={"numNodes": 2}), tensorflow(*jobs))
    cluster = {
        "chief": ["job-chief-0-0.job:2222"],
        "worker": ["job-node-0-0.job:2222", "job-node-0-1.job:2222"],
        "ps": ["job-ps-0-0.job:2222", "job-ps-0-1.job:2222"],
    }
    roles = {"evaluator": "evaluator", "ps": "ps", "chief": "chief", "node": "worker"}
    for name, task in roles.items():
        assert config(found[name]) == {"cluster": cluster, "task": {"type": task, "index": 0}}
    assert "env" not in found["dataset-initializer"]["spec"]["containers"][0]
    assert "ports" not in found["evaluator"]["spec"]["containers"][0]


def test_the_port_of_the_runtime_counts() -> None:
    ports = [{"name": "tfjob-port", "containerPort": 3333}]
    of = tensorflow(trainer(containers=[container(ports=ports)]))
    pod = pods(train_job(trainer={"numNodes": 2}), of)["node"]
    assert config(pod)["cluster"]["worker"][0] == "job-node-0-0.job:3333"
    assert pod["spec"]["containers"][0]["ports"] == ports


def test_servers_of_several_jobs_take_their_index_from_the_job() -> None:
    pod = pods(train_job(), tensorflow(trainer(), role("ps", replicas=2)))["ps"]
    assert config(pod)["cluster"]["ps"] == ["job-ps-0-0.job:2222", "job-ps-1-0.job:2222"]
    assert environment(pod["spec"]["containers"][0])["TF_TASK_INDEX"] == JOB_INDEX


def test_a_container_named_node_of_another_role_runs_the_program_of_the_trainjob() -> None:
    jobs = (trainer(), role("ps"), replicated_job("evaluator", containers=[container("evaluator", command=["own"])]))
    asked = {"image": "mine", "command": ["python"], "args": ["train.py"], "env": [{"name": "A", "value": "1"}]}
    found = pods(train_job(trainer=asked), tensorflow(*jobs))
    server, evaluator = (found[name]["spec"]["containers"][0] for name in ("ps", "evaluator"))
    assert (server["image"], server["command"], server["args"]) == ("mine", ["python"], ["train.py"])
    assert environment(server)["A"] == "1"
    assert (evaluator["image"], evaluator["command"]) == ("image", ["own"])


@pytest.mark.parametrize(
    ("jobs", "policy"),
    [
        ((trainer(),), None),
        ((role("chief"), trainer()), None),
        ((trainer(), role("ps")), ["node"]),
        ((role("chief"), trainer(), role("ps")), ["chief"]),
        ((trainer(), role("evaluator")), ["node"]),
    ],
)
def test_the_job_succeeds_without_waiting_for_those_that_serve(jobs: Any, policy: Any) -> None:
    found = objects(train_job(trainer={"numNodes": 2}), tensorflow(*jobs))["JobSet"]["spec"].get("successPolicy")
    assert found == (policy and {"operator": "All", "targetReplicatedJobs": policy})


def test_numnodes_is_the_number_of_workers_when_the_chief_is_labelled() -> None:
    jobs = (role("chief", ancestor="trainer"), role("worker", pods=3))
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    for asked, workers in (({"numNodes": 2, "resourcesPerNode": limits}, 2), ({"resourcesPerNode": limits}, 3)):
        job_set = objects(train_job(trainer=asked), tensorflow(*jobs))["JobSet"]
        counts = {job["name"]: job["template"]["spec"]["parallelism"] for job in job_set["spec"]["replicatedJobs"]}
        assert counts == {"chief": 1, "worker": workers}
        for job in job_set["spec"]["replicatedJobs"]:
            assert job["template"]["spec"]["template"]["spec"]["containers"][0]["resources"] == limits


def test_a_chief_beside_servers_only_coordinates_and_takes_no_accelerator_of_a_worker() -> None:
    of = tensorflow(role("chief", ancestor="trainer"), role("worker"), role("ps"))
    limits = {"limits": {"nvidia.com/gpu": "2"}}
    found = pods(train_job(trainer={"numNodes": 2, "resourcesPerNode": limits}), of)
    resources = {name: pod["spec"]["containers"][0].get("resources") for name, pod in found.items()}
    assert resources == {"chief": None, "worker": limits, "ps": None}


@pytest.mark.parametrize("name", ["TF_CONFIG", "TF_TASK_INDEX"])
def test_reserved_variables(name: str) -> None:
    job = train_job(trainer={"env": [{"name": name, "value": "1"}]})
    assert only(verdict(job, tensorflow()).errors).path == "spec.trainer.env"


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ((trainer(), role("worker")), "2 replicatedJobs have the TensorFlow role worker"),
        ((trainer(), role("chief"), role("master")), "2 replicatedJobs have the TensorFlow role chief"),
        ((trainer(), role("ps", pods=2, replicas=2)), 'replicatedJob "ps" has 2 replicas of 2 pods'),
    ],
)
def test_roles_that_cannot_be_distinguished(jobs: Any, message: str) -> None:
    assert only(verdict(train_job(), tensorflow(*jobs)).errors).message == message
