"""PaddlePaddle: what its launcher reads, collective and with parameter servers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.builders import (
    container,
    environment,
    node,
    objects,
    only,
    pods,
    replicated_job,
    runtime,
    train_job,
    trainer,
    verdict,
)

GPU = "nvidia.com/gpu"
INDEX = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}


def paddle(*jobs: Any, processes: int | None = None, **policy: Any) -> Any:
    own = {} if processes is None else {"numProcPerNode": processes}
    return runtime(*(jobs or (trainer(),)), mlPolicy={"paddle": own, **policy})


def servers(name: str = "ps", *, pods: int = 1, **fields: Any) -> Any:
    return replicated_job(name, containers=[container()], job={"parallelism": pods}, **fields)


def test_launchers_meet_at_the_first_node_which_knows_itself_by_its_host_name() -> None:
    found = node(train_job(trainer={"numNodes": 2}), paddle())
    assert [*environment(found).items()] == [
        ("PADDLE_RANK", INDEX),
        ("POD_IP", "job-node-0-$(PADDLE_RANK).job"),
        ("PADDLE_MASTER", "job-node-0-0.job:36543"),
        ("PADDLE_NNODES", "2"),
        ("PADDLE_NPROC_PER_NODE", "1"),
        ("PADDLE_JOB_ID", "job"),
    ]
    assert found["ports"] == [{"containerPort": 36543, "protocol": "TCP"}]


def test_variables_are_set_even_without_a_trainer() -> None:
    assert environment(node(train_job(), paddle(numNodes=3)))["PADDLE_NNODES"] == "3"


@pytest.mark.parametrize(
    ("asked", "policy", "processes"),
    [
        ({}, None, "1"),
        ({}, 2, "2"),
        ({"numProcPerNode": 4}, 2, "4"),
        ({"resourcesPerNode": {"limits": {GPU: "8"}}}, None, "8"),
        ({"resourcesPerNode": {"limits": {GPU: "8"}}}, 2, "2"),
        ({"numProcPerNode": "gpu", "resourcesPerNode": {"limits": {GPU: "8"}}}, None, "8"),
        ({"numProcPerNode": "auto", "resourcesPerNode": {"limits": {"cpu": "8"}}}, None, "1"),
        ({"numProcPerNode": "cpu", "resourcesPerNode": {"limits": {"cpu": "2500m"}}}, None, "3"),
    ],
)
def test_processes_of_a_node(asked: Any, policy: int | None, processes: str) -> None:
    found = node(train_job(trainer=asked), paddle(processes=policy))
    assert environment(found)["PADDLE_NPROC_PER_NODE"] == processes


def test_the_port_of_the_runtime_counts() -> None:
    ports = [{"name": "master", "containerPort": 4000}, {"containerPort": 8080}, {"containerPort": 8081}]
    found = node(train_job(), paddle(trainer(containers=[container(ports=ports)])))
    assert environment(found)["PADDLE_MASTER"] == "job-node-0-0.job:4000"
    assert found["ports"] == ports


@pytest.mark.parametrize("name", ["ps", "server"])
def test_servers_and_trainers_get_each_others_endpoints(name: str) -> None:
    of = paddle(servers(name, pods=2), trainer())
    job = train_job(trainer={"numNodes": 2, "numProcPerNode": 2, "image": "mine", "command": ["python"]})
    found = pods(job, of)
    both = {
        "PADDLE_SERVERS_ENDPOINTS": f"job-{name}-0-0.job:36543,job-{name}-0-1.job:36543",
        "PADDLE_TRAINERS_ENDPOINTS": "job-node-0-0.job:36543,job-node-0-0.job:36544,"
        "job-node-0-1.job:36543,job-node-0-1.job:36544",
        "PADDLE_NNODES": "4",
        "PADDLE_JOB_ID": "job",
    }
    for part in (name, "node"):
        main = found[part]["spec"]["containers"][0]
        own = {"PADDLE_POD_INDEX": INDEX, "POD_IP": f"job-{part}-0-$(PADDLE_POD_INDEX).job"}
        assert environment(main) == {**own, **both}
        assert (main["image"], main["command"]) == ("mine", ["python"])


def test_servers_of_several_jobs_are_named_by_the_job() -> None:
    found = pods(train_job(), paddle(servers(replicas=2), trainer()))["ps"]["spec"]["containers"][0]
    variables = environment(found)
    assert variables["PADDLE_POD_INDEX"] == {
        "fieldRef": {"fieldPath": "metadata.labels['jobset.sigs.k8s.io/job-index']"}
    }
    assert variables["POD_IP"] == "job-ps-$(PADDLE_POD_INDEX)-0.job"


def test_the_job_succeeds_with_the_trainers() -> None:
    spec = objects(train_job(), paddle(servers(), trainer()))["JobSet"]["spec"]
    assert spec["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["node"]}
    assert "successPolicy" not in objects(train_job(), paddle())["JobSet"]["spec"]


def test_every_process_of_a_node_has_a_port() -> None:
    job = train_job(trainer={"numProcPerNode": 4_000})
    main = pods(job, paddle(trainer(), servers()))["node"]["spec"]["containers"][0]
    assert [port["containerPort"] for port in main["ports"]] == list(range(36_543, 40_543))


@pytest.mark.parametrize(
    ("asked", "jobs", "path"),
    [
        ({"env": [{"name": "PADDLE_MASTER", "value": "x"}]}, (), "spec.trainer.env"),
        ({"env": [{"name": "POD_IP", "value": "x"}]}, (), "spec.trainer.env"),
        ({"numProcPerNode": 0}, (), "spec.trainer.numProcPerNode"),
        ({"numProcPerNode": 28_994}, (trainer(), servers()), "spec.trainer.numProcPerNode"),
        ({"numProcPerNode": 2**31 - 1}, (trainer(), servers()), "spec.trainer.numProcPerNode"),
        ({"numNodes": 3_000, "numProcPerNode": 2}, (trainer(), servers()), "spec.trainer.numNodes"),
        ({"numProcPerNode": 6_000}, (trainer(), servers()), "spec.runtimeRef"),
        ({"resourcesPerNode": {"limits": {"a/gpu": "1P"}}}, (trainer(), servers()), "spec.trainer.resourcesPerNode"),
        ({}, (trainer(), servers(pods=2, replicas=2)), "spec.runtimeRef"),
        ({}, (trainer(), servers("ps"), servers("server")), "spec.runtimeRef"),
    ],
)
def test_rejections(asked: Any, jobs: Any, path: str) -> None:
    assert only(verdict(train_job(trainer=asked), paddle(*jobs)).errors).path == path
