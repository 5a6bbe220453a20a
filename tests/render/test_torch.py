"""PyTorch: the variables, the number of processes, the port."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.builders import (
    container,
    environment,
    node,
    only,
    pods,
    runtime,
    torch,
    train_job,
    trainer,
    verdict,
)

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
    ("resources", "processes"),
    [
        ({"limits": {GPU: "8"}}, "auto"),
        ({"requests": {GPU: 8}}, "auto"),
        ({"limits": {"cpu": "6", "example.com/gpu": "2"}}, "auto"),
        ({"limits": {"example.com/GPU-shared": "1"}, "requests": {"cpu": "4"}}, "auto"),
        ({"limits": {"a.com/gpu": "0", "b.com/gpu": "1", "cpu": "4"}}, "auto"),
        ({"limits": {GPU: "0", "cpu": "3"}}, "3"),
        ({"limits": {GPU: "2"}, "requests": {GPU: "0", "cpu": "4"}}, "auto"),
        ({"limits": {"cpu": "4"}}, "4"),
        ({"limits": {"cpu": "2"}}, "2"),
        ({"requests": {"cpu": "3"}}, "3"),
        ({"limits": {"cpu": "2.5"}}, "3"),
        ({"limits": {"cpu": "2500m"}}, "3"),
        ({"limits": {"cpu": "0.7"}}, "1"),
        ({"limits": {"cpu": "3.7"}}, "4"),
        ({"requests": {"cpu": "1m"}}, "1"),
        ({"limits": {"cpu": "8"}, "requests": {"cpu": "4"}}, "4"),
        ({"limits": {"cpu": "8"}, "requests": {"cpu": "0"}}, "8"),
        ({"requests": {"memory": "1Gi"}}, "1"),
        ({"limits": {"nvidia.com/gpumem": "3031", "nvidia.com/gpucores": "30", "cpu": "2"}}, "2"),
        ({"limits": {"volcano.sh/vgpu-memory": "3031"}}, "1"),
        ({"limits": {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "3031"}}, "auto"),
        ({}, "1"),
    ],
)
def test_processes_follow_from_the_resources_of_the_node(resources: dict[str, Any], processes: str) -> None:
    of_job = node(train_job(trainer={"resourcesPerNode": resources}), torch())
    of_runtime = node(train_job(), torch(trainer(containers=[container(resources=resources)])))
    assert environment(of_job)["PET_NPROC_PER_NODE"] == processes
    assert environment(of_runtime)["PET_NPROC_PER_NODE"] == processes


@pytest.mark.parametrize(
    ("asked", "processes"),
    [
        ({"requests": {"cpu": "4"}}, "auto"),
        ({"limits": {GPU: "0", "cpu": "3"}}, "3"),
        ({}, "auto"),
    ],
)
def test_resources_of_the_job_are_seen_merged_over_the_runtimes(asked: dict[str, Any], processes: str) -> None:
    runtime = torch(trainer(containers=[container(resources={"limits": {GPU: "2"}})]))
    job = train_job(trainer={"resourcesPerNode": asked})
    assert environment(node(job, runtime))["PET_NPROC_PER_NODE"] == processes


@pytest.mark.parametrize(
    ("asked", "processes"),
    [
        ({"limits": {"cpu": "3"}}, "3"),
        ({"limits": {"cpu": "3"}, "requests": {"cpu": "2"}}, "2"),
        ({"requests": {"cpu": "5"}}, "5"),
        ({"limits": {"memory": "1Gi"}}, "1"),
    ],
)
def test_the_cores_that_the_job_names_count_and_not_the_request_of_the_runtime(
    asked: dict[str, Any], processes: str
) -> None:
    runtime = torch(trainer(containers=[container(resources={"requests": {"cpu": "1"}, "limits": {"cpu": "9"}})]))
    job = train_job(trainer={"resourcesPerNode": asked})
    assert environment(node(job, runtime))["PET_NPROC_PER_NODE"] == processes


@pytest.mark.parametrize(
    ("of_job", "of_runtime", "resources", "processes"),
    [
        (3, None, {"cpu": "8"}, "3"),
        (3, 5, {"cpu": "8"}, "3"),
        (None, 5, {"cpu": "8"}, "5"),
        (4, None, {GPU: "8"}, "4"),
        (None, None, {GPU: "8"}, "auto"),
        ("auto", 5, {"cpu": "8"}, "8"),
        (None, "auto", {"cpu": "8"}, "8"),
        (None, "auto", {GPU: "8"}, "auto"),
        (None, "cpu", {"cpu": "4"}, "4"),
        (None, "cpu", {"cpu": "3.7"}, "4"),
        (None, "cpu", {"cpu": "6", GPU: "2"}, "6"),
        (None, "cpu", {GPU: "2"}, "1"),
        (None, "gpu", {GPU: "2"}, "gpu"),
        (None, "gpu", {"cpu": "2"}, "gpu"),
    ],
)
def test_processes_of_the_job_win_over_the_runtimes_which_win_over_auto(
    of_job: Any, of_runtime: Any, resources: dict[str, str], processes: str
) -> None:
    policy = {} if of_runtime is None else {"numProcPerNode": of_runtime}
    asked = {} if of_job is None else {"numProcPerNode": of_job}
    job = train_job(trainer={**asked, "resourcesPerNode": {"limits": resources}})
    container = node(job, runtime(trainer(), mlPolicy={"torch": policy}))
    assert environment(container)["PET_NPROC_PER_NODE"] == processes


@pytest.mark.parametrize("processes", ["npu", "4", "", 0, -1])
def test_other_words_and_numbers_are_no_number_of_processes(processes: Any) -> None:
    of_job = only(verdict(train_job(trainer={"numProcPerNode": processes}), torch()).errors)
    assert (of_job.path, of_job.message) == (
        "spec.trainer.numProcPerNode",
        "must have an int value or [auto cpu gpu]",
    )
    of_runtime = only(
        verdict(train_job(), runtime(trainer(), mlPolicy={"torch": {"numProcPerNode": processes}})).errors
    )
    assert of_runtime.path == "spec.runtimeRef"
    assert "spec.mlPolicy.torch.numProcPerNode" in of_runtime.message


def test_reserved_variables_are_refused_all_at_once() -> None:
    env = [{"name": name} for name in ("PET_NNODES", "PET_RDZV_ID", "PET_MASTER_PORT", "OTHER")]
    found = only(verdict(train_job(trainer={"env": env}), torch()).errors)
    assert found.path == "spec.trainer.env"
    assert found.message == "must not have reserved envs, invalid envs configured: [PET_MASTER_PORT PET_NNODES]"


def test_aliases_are_set_only_where_a_container_refers_to_them() -> None:
    args = ["--nnodes=$(TRAINER_NNODES)", "--rdzv_id=$(TRAINER_JOB_ID)", "--host=$(TRAINER_NODE_0_HOSTNAME)"]
    script = "torchrun --nproc_per_node=$TRAINER_NPROC_PER_NODE train.py"
    job = train_job(trainer={"numNodes": 2, "command": ["sh", "-c", script], "args": args, "numProcPerNode": 4})
    variables = environment(node(job, torch()))
    aliases = {name: value for name, value in variables.items() if name.startswith("TRAINER_")}
    assert aliases == {
        "TRAINER_NNODES": "2",
        "TRAINER_NPROC_PER_NODE": "4",
        "TRAINER_NODE_0_HOSTNAME": "job-node-0-0.job",
        "TRAINER_JOB_ID": "job",
    }


def test_an_alias_that_the_job_sets_itself_is_left_alone() -> None:
    env = [{"name": "TRAINER_JOB_ID", "value": "mine"}, {"name": "A", "value": "$(TRAINER_JOB_ID)/$(TRAINER_NNODES)"}]
    names = [variable["name"] for variable in node(train_job(trainer={"env": env}), torch())["env"]]
    assert names[-3:] == ["TRAINER_NNODES", "TRAINER_JOB_ID", "A"]
    assert names.count("TRAINER_JOB_ID") == 1


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
