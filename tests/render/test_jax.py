"""JAX: the variables, and whose value counts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.builders import container, environment, node, pods, runtime, train_job, trainer

INDEX = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
PORT = {"containerPort": 29500, "protocol": "TCP"}


def jax(*jobs: Any, **spec: Any) -> Any:
    return runtime(*(jobs or (trainer(),)), mlPolicy={"jax": {}, **spec.pop("policy", {})}, **spec)


@pytest.mark.parametrize(
    ("job", "policy", "processes"),
    [
        ({}, {}, "1"),
        ({"trainer": {}}, {}, "1"),
        ({"trainer": {"numNodes": 4}}, {}, "4"),
        ({}, {"numNodes": 3}, "3"),
        ({"trainer": {"numNodes": 2}}, {"numNodes": 3}, "2"),
    ],
)
def test_every_node_is_one_process(job: Any, policy: Any, processes: str) -> None:
    assert environment(node(train_job(**job), jax(policy=policy))) == {
        "JAX_NUM_PROCESSES": processes,
        "JAX_PROCESS_ID": INDEX,
        "JAX_COORDINATOR_ADDRESS": "job-node-0-0.job:29500",
    }


def test_the_coordinator_is_found_under_the_jobs_own_names() -> None:
    body = trainer()
    body["name"] = "workers"
    of = jax(body, jobset={"network": {"subdomain": "net"}})
    found = pods(train_job(), of)["workers"]["spec"]["containers"][0]
    assert environment(found)["JAX_COORDINATOR_ADDRESS"] == "job-workers-0-0.net:29500"


def test_the_variables_come_first_and_the_trainjobs_own_value_wins() -> None:
    of = jax(trainer(containers=[container(env=[{"name": "A", "value": "$(JAX_NUM_PROCESSES)"}])]))
    own = [{"name": "JAX_COORDINATOR_ADDRESS", "value": "elsewhere:1"}, {"name": "B", "value": "2"}]
    found = node(train_job(trainer={"env": own}), of)
    assert [variable["name"] for variable in found["env"]] == [
        "JAX_NUM_PROCESSES",
        "JAX_PROCESS_ID",
        "JAX_COORDINATOR_ADDRESS",
        "A",
        "B",
    ]
    assert environment(found)["JAX_COORDINATOR_ADDRESS"] == "elsewhere:1"


def test_unnamed_ports_stay_as_they_are() -> None:
    declared = [{"containerPort": 8080}, {"containerPort": 8081}]
    found = node(train_job(trainer={}), jax(trainer(containers=[container(ports=declared)])))
    assert found["ports"] == [*declared, PORT]
