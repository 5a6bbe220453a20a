"""PyTorchJobs: the pods that the operator ran, its variables for torchrun, and the pod that decides."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.convert import conversions
from tests.convert.conversions import catalog
from trainyard.api import Body
from trainyard.jobs.convert.conversion import AUTO, Conversion
from trainyard.jobs.convert.conversion_report import as_yaml
from trainyard.jobs.render.rendered_documents import render_documents

DEVICES = {"limits": {"nvidia.com/gpu": "8"}}
METRICS = [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]


def job(
    roles: dict[str, int],
    *,
    args: list[str] | None = None,
    unlike: bool = False,
    container: Body | None = None,
    **spec: Any,
) -> Body:
    def role(name: str, replicas: int) -> Body:
        words = ["torchrun", *(args or []), "train.py", *([name] if unlike else [])]
        main = {"name": "pytorch", "image": "registry.example/train:1", "command": words, "resources": DEVICES}
        main |= container or {}
        return {"replicas": replicas, "restartPolicy": "OnFailure", "template": {"spec": {"containers": [main]}}}

    found = {name: role(name, replicas) for name, replicas in roles.items()}
    metadata = {"name": "old", "namespace": "vision"}
    spec = {**spec, "pytorchReplicaSpecs": found}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": metadata, "spec": spec}


conversion_of = partial(conversions.conversion_of, runtime=AUTO)


def job_set(conversion: Conversion) -> Body:
    names = [body["spec"]["runtimeRef"]["name"] for body in conversion.objects if body["kind"] == "TrainJob"]
    runtimes = [catalog()[name] for name in names if name in catalog()]
    (answer,) = render_documents({"job": as_yaml([*runtimes, *conversion.objects])})
    assert not answer.errors
    return next(body for body in answer.objects if body["kind"] == "JobSet")


def pods(conversion: Conversion) -> int:
    jobs = job_set(conversion)["spec"]["replicatedJobs"]
    return sum(part.get("replicas", 1) * part["template"]["spec"]["parallelism"] for part in jobs)


def variables(conversion: Conversion) -> list[dict[str, str]]:
    """Return the variables of the training container of each replicatedJob; the last one of a name counts."""
    jobs = job_set(conversion)["spec"]["replicatedJobs"]
    containers = [part["template"]["spec"]["template"]["spec"]["containers"][0] for part in jobs]
    return [{entry["name"]: entry.get("value", "index") for entry in each["env"]} for each in containers]


def notes(conversion: Conversion, path: str) -> list[str]:
    return [f"{note.fidelity}: {note.message}" for note in conversion.notes if note.path == path]


@pytest.mark.parametrize("args", [[], ["--nnodes=2"], ["--nnodes", "2"]])
@pytest.mark.parametrize("runtime", ["auto", "always"])
def test_without_metrics_the_replicas_run(runtime: str, args: list[str]) -> None:
    """The operator creates an autoscaler only for metrics; nothing else changes the number of pods."""
    policy = {"rdzvBackend": "c10d", "minReplicas": 1, "maxReplicas": 64, "maxRestarts": 3}
    conversion = conversion_of(job({"Worker": 2}, args=args, elasticPolicy=policy), runtime=runtime)
    assert pods(conversion) == 2
    (found,) = variables(conversion)
    assert {name: found.get(name) for name in ("PET_NNODES", "PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT")} == {
        "PET_NNODES": "2:2",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": "old-node-0-0.old:29500",
    }
    assert (found["PET_MAX_RESTARTS"], found["PET_RDZV_ID"]) == ("3", "old")
    assert "changed: the number of replicas: without metrics" in notes(conversion, "spec.elasticPolicy.maxReplicas")[0]


def test_with_metrics_the_range_stays() -> None:
    policy = {"minReplicas": 1, "maxReplicas": 4, "metrics": METRICS}
    conversion = conversion_of(job({"Worker": 2}, elasticPolicy=policy))
    assert pods(conversion) == 4
    assert variables(conversion)[0]["PET_NNODES"] == "1:4"
    assert notes(conversion, "spec.elasticPolicy.metrics")[0].startswith("lost")


@pytest.mark.parametrize(
    ("args", "nodes"),
    [
        (["--nnodes=2"], 2),
        (["--nnodes", "2"], 2),
        (["--nnodes=3"], 3),
        (["--nnodes=5"], 2),
        (["--num_machines=2"], 2),
        (["--nnodes=1:4"], 4),
        (["--nnodes=$(PET_NNODES)"], 4),
        (["--nnodes", "$PET_NNODES"], 4),
        (["--nproc-per-node=2"], 4),
    ],
)
def test_a_fixed_number_in_the_command_is_respected(args: list[str], nodes: int) -> None:
    policy = {"minReplicas": 1, "maxReplicas": 4, "metrics": METRICS}
    assert pods(conversion_of(job({"Worker": 2}, args=args, elasticPolicy=policy))) == nodes


@pytest.mark.parametrize(
    ("policy", "bounds"),
    [({"minReplicas": 3}, "3"), ({"maxReplicas": 5}, "5"), ({}, "2")],
)
def test_one_bound_is_both(policy: Body, bounds: str) -> None:
    """As the operator defaults them: a bound that is unset is the other one, else the replicas."""
    conversion = conversion_of(job({"Worker": 2}, elasticPolicy={**policy, "metrics": METRICS}))
    assert variables(conversion)[0]["PET_NNODES"] == f"{bounds}:{bounds}"


def test_elastic_roles_that_differ_meet_at_the_master() -> None:
    bounds = {"minReplicas": 1, "maxReplicas": 9, "maxRestarts": 3}
    meeting = {"rdzvPort": 29400, "rdzvId": "run-7", "rdzvConf": [{"key": "timeout", "value": "900"}]}
    conversion = conversion_of(job({"Master": 1, "Worker": 2}, unlike=True, elasticPolicy={**bounds, **meeting}))
    assert pods(conversion) == 3
    for found in variables(conversion):
        assert (found["PET_NNODES"], found["PET_MAX_RESTARTS"]) == ("3", "3")
        assert found["PET_RDZV_ENDPOINT"] == "old-master-0-0.old:29400"
        assert (found["PET_RDZV_ID"], found["PET_RDZV_CONF"]) == ("run-7", "timeout=900")


@pytest.mark.parametrize("roles", [{"Worker": 2}, {"Master": 1, "Worker": 1}, {"Master": 1}])
@pytest.mark.parametrize("unlike", [False, True])
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, "auto"),
        ({"nprocPerNode": "auto"}, "auto"),
        ({"nprocPerNode": "4"}, "4"),
        ({"elasticPolicy": {"rdzvBackend": "c10d"}}, "auto"),
        ({"elasticPolicy": {"nProcPerNode": 2}}, "2"),
        ({"elasticPolicy": {"nProcPerNode": 2}, "nprocPerNode": "4"}, "2"),
    ],
)
def test_processes_are_those_of_the_operator(roles: dict[str, int], unlike: bool, spec: Body, expected: str) -> None:
    for found in variables(conversion_of(job(roles, unlike=unlike, **spec))):
        assert found["PET_NPROC_PER_NODE"] == expected


def test_the_count_that_does_not_count_is_named() -> None:
    conversion = conversion_of(job({"Worker": 2}, nprocPerNode="4", elasticPolicy={"nProcPerNode": 2}))
    assert notes(conversion, "spec.nprocPerNode") == [
        "changed: nProcPerNode of spec.elasticPolicy counts, as for the operator"
    ]


def test_the_job_ends_with_its_master() -> None:
    found = job_set(conversion_of(job({"Master": 1, "Worker": 2}, unlike=True)))
    assert found["spec"]["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["master"]}


@pytest.mark.parametrize("policy", [None, {"rdzvBackend": "c10d"}])
def test_variables_that_the_operator_overrides_are_left_out(policy: Body | None) -> None:
    names = ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_RDZV_ID", "OWN")
    own = {"env": [{"name": name, "value": "own-value"} for name in names]}
    body = job({"Worker": 2}, container=own, **({"elasticPolicy": policy} if policy else {}))
    conversion = conversion_of(body, runtime="always")
    kept = {name for name, value in variables(conversion)[0].items() if value == "own-value"}
    assert kept == ({"OWN"} if policy else {"OWN", "PET_RDZV_ID"})
    path = "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].env[1]"
    assert notes(conversion, path)[0].startswith("changed: left out: the framework sets it")


@pytest.mark.parametrize(
    ("limits", "spec", "noted"),
    [
        ({"nvidia.com/gpu": "8"}, {}, False),
        ({"cpu": "4"}, {}, True),
        ({"cpu": "4"}, {"nprocPerNode": "auto"}, True),
        ({"cpu": "4"}, {"nprocPerNode": "2"}, False),
    ],
)
def test_processes_of_a_node_without_devices_are_noted(limits: Body, spec: Body, noted: bool) -> None:
    body = job({"Worker": 2}, container={"resources": {"limits": limits}}, **spec)
    found = [note for note in notes(conversion_of(body), "spec.nprocPerNode") if note.startswith("changed: auto")]
    assert bool(found) == noted


def test_an_autoscaled_job_has_the_nodes_for_which_its_command_waits() -> None:
    policy = {"minReplicas": 1, "maxReplicas": 4, "metrics": METRICS}
    conversion = conversion_of(job({"Worker": 2}, args=["--nnodes=3"], elasticPolicy=policy))
    message = "changed: the number of nodes in the command"
    assert notes(conversion, "spec.pytorchReplicaSpecs.Worker.replicas") == [message]
    assert notes(conversion, "spec.elasticPolicy.maxReplicas") == [message]


def test_a_program_that_reads_the_name_of_its_pod_is_said_to_get_another_one() -> None:
    """Pods of the operator had the name of their Service, with their index at the end."""
    variable = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    body = job({"Worker": 2}, container={"env": [variable]})
    path = "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].env[0].valueFrom.fieldRef.fieldPath"
    (message,) = notes(conversion_of(body), path)
    assert message.startswith("changed: ends in random letters")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("run --node_rank $(hostname | cut -d- -f4-)", True),
        ("R=`echo $HOSTNAME | awk -F- '{print $3}'`; run $R", True),
        ("run --node_rank ${HOSTNAME##*-}; tail log | cut -c1-9", False),
        ("hostname; cat list | cut -d, -f1", False),
    ],
)
def test_a_command_that_splits_the_host_name_is_said_to_get_another_one(text: str, said: bool) -> None:
    body = job({"Worker": 2}, container={"command": ["sh", "-c"], "args": [text]})
    found = notes(conversion_of(body), "spec.pytorchReplicaSpecs.Worker.template.spec.containers")
    assert any("splits the host name" in each for each in found) == said


@pytest.mark.parametrize("argument", ["--nproc_per_node=32", "--nproc-per-node 32"])
def test_processes_that_the_command_names_are_not_said_to_be_counted(argument: str) -> None:
    body = job({"Worker": 2}, args=argument.split(), container={"resources": {"limits": {"cpu": "4"}}})
    assert not [note for note in notes(conversion_of(body), "spec.nprocPerNode") if note.startswith("changed")]
