"""XGBoost: the variables of the tracker, the number of workers, and what is reserved."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.builders import container, environment, node, runtime, train_job, trainer, verdict

GPU = "nvidia.com/gpu"
INDEX = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
NAMES = ["DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"]


def xgboost(*jobs: Any, **policy: Any) -> Any:
    return runtime(*(jobs or (trainer(),)), mlPolicy={"xgboost": {}, **policy})


def test_variables_are_set_even_without_a_trainer() -> None:
    found = node(train_job(), xgboost())
    assert environment(found) == {
        "DMLC_TRACKER_URI": "job-node-0-0.job",
        "DMLC_TRACKER_PORT": "29500",
        "DMLC_TASK_ID": INDEX,
        "DMLC_NUM_WORKER": "1",
    }
    assert found["ports"] == [{"containerPort": 29500, "protocol": "TCP"}]


def test_variables_come_first_in_a_fixed_order() -> None:
    of = xgboost(trainer(containers=[container(env=[{"name": "A", "value": "1"}])]))
    job = train_job(trainer={"env": [{"name": "B", "value": "$(DMLC_NUM_WORKER)"}]})
    assert [variable["name"] for variable in node(job, of)["env"]] == [*NAMES, "A", "B"]


@pytest.mark.parametrize(
    ("asked", "of", "workers"),
    [
        ({"numNodes": 3}, {}, "3"),
        ({"numNodes": 3, "resourcesPerNode": {"limits": {GPU: "4"}}}, {}, "12"),
        ({"resourcesPerNode": {"requests": {GPU: 2}, "limits": {GPU: 2}}}, {}, "2"),
        ({"numNodes": 2, "resourcesPerNode": {"limits": {"cpu": "8"}}}, {}, "2"),
        ({"numNodes": 2, "resourcesPerNode": {"limits": {GPU: "0"}}}, {}, "2"),
        ({"numNodes": 2}, {"limits": {GPU: "2"}}, "4"),
        ({"numNodes": 2, "numProcPerNode": 7}, {}, "2"),
    ],
)
def test_workers_are_one_for_each_gpu_or_else_one_for_each_node(asked: Any, of: Any, workers: str) -> None:
    found = node(train_job(trainer=asked), xgboost(trainer(containers=[container(resources=of)])))
    assert environment(found)["DMLC_NUM_WORKER"] == workers


def test_each_reserved_variable_is_an_error_of_its_own() -> None:
    own = [{"name": "A", "value": "1"}, *({"name": name, "value": "1"} for name in NAMES)]
    errors = verdict(train_job(trainer={"env": own}), xgboost()).errors
    assert [(error.path, error.message) for error in errors] == [
        (f"spec.trainer.env[{index}]", f"{name} is reserved for the XGBoost runtime")
        for index, name in enumerate(NAMES, start=1)
    ]


def test_further_unnamed_ports_stay_as_they_are() -> None:
    declared = [{"containerPort": 8080}, {"containerPort": 8081}]
    found = node(train_job(), xgboost(trainer(containers=[container(ports=declared)])))
    assert found["ports"] == [*declared, {"containerPort": 29500, "protocol": "TCP"}]
