"""PyTorch: the variables, the number of processes, the port."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.builders import container, environment, node, pods, torch, train_job, trainer

GPU = "nvidia.com/gpu"


def test_variables_are_set_even_without_a_trainer() -> None:
    assert environment(node(train_job(), torch())) == {
        "PET_NNODES": "1",
        "PET_NPROC_PER_NODE": "1",
        "PET_NODE_RANK": {
            "fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
        },
        "PET_MASTER_ADDR": "job-node-0-0.job",
        "PET_MASTER_PORT": "29500",
    }


def test_variables_come_first_so_that_others_can_refer_to_them() -> None:
    runtime = torch(
        trainer(containers=[container(env=[{"name": "A", "value": "1"}, {"name": "PET_NNODES", "value": "9"}])])
    )
    job = train_job(trainer={"numNodes": 3, "env": [{"name": "B", "value": "$(PET_NNODES)"}]})
    names = [variable["name"] for variable in node(job, runtime)["env"]]
    assert names == [
        "PET_NNODES",
        "PET_NPROC_PER_NODE",
        "PET_NODE_RANK",
        "PET_MASTER_ADDR",
        "PET_MASTER_PORT",
        "A",
        "B",
    ]
    assert environment(node(job, runtime))["PET_NNODES"] == "3"


def test_the_master_is_found_under_the_jobs_own_names() -> None:
    runtime = torch(jobset={"network": {"subdomain": "net"}})
    assert environment(node(train_job(), runtime))["PET_MASTER_ADDR"] == "job-node-0-0.net"


@pytest.mark.parametrize(
    ("asked", "processes"),
    [
        ({"numProcPerNode": 4, "resourcesPerNode": {"limits": {GPU: "8"}}}, "4"),
        ({"resourcesPerNode": {"limits": {GPU: "8"}}}, "auto"),
        ({"resourcesPerNode": {"requests": {GPU: 8}}}, "auto"),
        ({"resourcesPerNode": {"limits": {"example.com/GPU-shared": "1"}, "requests": {"cpu": "4"}}}, "auto"),
        ({"resourcesPerNode": {"limits": {GPU: "0", "cpu": "3"}}}, "3"),
        ({"resourcesPerNode": {"limits": {"cpu": "8"}, "requests": {"cpu": "4"}}}, "4"),
        ({"resourcesPerNode": {"limits": {"cpu": "8"}, "requests": {"cpu": "0"}}}, "8"),
        ({"resourcesPerNode": {"requests": {"cpu": "2500m"}}}, "3"),
        ({"resourcesPerNode": {"requests": {"cpu": "1m"}}}, "1"),
        ({"resourcesPerNode": {"requests": {"memory": "1Gi"}}}, "1"),
        ({"resourcesPerNode": {}}, "1"),
        ({}, "auto"),
    ],
)
def test_processes_of_a_node(asked: dict[str, Any], processes: str) -> None:
    runtime = torch(trainer(containers=[container(resources={"limits": {GPU: "2"}})]))
    assert environment(node(train_job(trainer=asked), runtime))["PET_NPROC_PER_NODE"] == processes


@pytest.mark.parametrize(
    ("declared", "ports"),
    [
        ([], [{"containerPort": 29500, "protocol": "TCP"}]),
        (
            [{"containerPort": 8080}, {"containerPort": 8081}],
            [{"containerPort": 8080}, {"containerPort": 8081}, {"containerPort": 29500, "protocol": "TCP"}],
        ),
        (
            [{"name": "rdzv", "containerPort": 29500, "hostPort": 29500}],
            [{"name": "rdzv", "containerPort": 29500, "hostPort": 29500}],
        ),
        (
            [{"name": "u", "containerPort": 29500, "protocol": "UDP"}],
            [{"name": "u", "containerPort": 29500, "protocol": "UDP"}, {"containerPort": 29500, "protocol": "TCP"}],
        ),
    ],
)
def test_the_port_is_added_and_no_other_port_is_touched(declared: list[Any], ports: list[Any]) -> None:
    runtime = torch(trainer(containers=[container(ports=declared)]))
    assert node(train_job(), runtime)["ports"] == ports


def test_injection_targets_get_the_variables_too() -> None:
    job = trainer(
        containers=[container(), container("sidecar")], pod={"initContainers": [container("check"), container("other")]}
    )
    runtime = torch(job)
    injection = {"targets": [{"jobName": "node", "containerNames": ["sidecar", "check"]}]}
    body = runtime.body()
    body["spec"]["mlPolicy"]["torch"]["envInjection"] = injection
    pod = pods(train_job(), type(runtime).from_body(body))["node"]["spec"]
    assert "PET_MASTER_ADDR" in environment(pod["containers"][1])
    assert "ports" not in pod["containers"][1]
    assert "PET_NNODES" in environment(pod["initContainers"][0])
    assert environment(pod["initContainers"][1]) == {}
