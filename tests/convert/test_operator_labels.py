"""Labels that only the old operators put on pods: set, mapped to the labels of a JobSet, or reported as lost."""

from __future__ import annotations

from typing import Any

import pytest

from tests.convert.conversions import conversion_of, lost, pod_templates
from trainyard.api import Body

PREFIX = "training.kubeflow.org/"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"


def term(**labels: str) -> Body:
    selector = {"matchLabels": {f"{PREFIX}{key.replace('_', '-')}": value for key, value in labels.items()}}
    return {"topologyKey": "zone", "labelSelector": selector}


def spread(**labels: str) -> Body:
    return {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term(**labels)}]}


def index_variable(key: str = "replica-index") -> Body:
    return {"name": "INDEX", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{PREFIX}{key}']"}}}


def job(kind: str, field: str, container: str, roles: dict[str, int], pod: Body | None = None, **more: Any) -> Body:
    def role(replicas: int) -> Body:
        main = {"name": container, "image": "registry.example/app:1", "command": ["python", "train.py"]}
        return {"replicas": replicas, "template": {"spec": {"containers": [main], **(pod or {})}}}

    spec = {field: {name: role(replicas) for name, replicas in roles.items()}, **more}
    version = "kubeflow.org/v2beta1" if kind == "MPIJob" else "kubeflow.org/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "old", "namespace": "vision"}, "spec": spec}


def pytorch(roles: dict[str, int], pod: Body | None = None) -> Body:
    return job("PyTorchJob", "pytorchReplicaSpecs", "pytorch", roles, pod)


def labels(template: Body) -> Body:
    found: Body = template.get("metadata", {}).get("labels", {})
    return {key.removeprefix(PREFIX): value for key, value in found.items()}


def selected(template: Body) -> Body:
    found: Body = template["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"]
    return found


def test_a_job_that_names_no_label_gets_none() -> None:
    assert labels(pod_templates(conversion_of(pytorch({"Worker": 2})))["node"]) == {}


def test_a_named_label_is_set_with_its_old_value() -> None:
    pod = spread(job_name="old", replica_type="worker", operator_name="pytorchjob-controller")
    conversion = conversion_of(pytorch({"Worker": 2}, pod))
    assert labels(pod_templates(conversion)["node"]) == {
        "operator-name": "pytorchjob-controller",
        "job-name": "old",
        "replica-type": "worker",
    }
    assert not lost(conversion)


def test_the_old_name_stays_the_value_when_the_job_gets_another() -> None:
    body = pytorch({"Worker": 2}, spread(job_name="7th.run"))
    body["metadata"]["name"] = "7th.run"
    assert labels(pod_templates(conversion_of(body))["node"]) == {"job-name": "7th.run"}


def test_a_generated_name_is_that_of_the_job() -> None:
    body = pytorch({"Worker": 2}, spread(job_name="old"))
    body["metadata"] = {"generateName": "old-", "namespace": "vision"}
    assert labels(pod_templates(conversion_of(body))["node"]) == {"job-name": "old"}


def test_a_label_reaches_the_pods_on_a_runtime_of_the_catalog() -> None:
    pod = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(job_name="old")]}}}
    (train_job,) = conversion_of(pytorch({"Worker": 2}, pod), runtime="auto").objects
    (patched,) = train_job["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert labels(patched["template"]["spec"]["template"]) == {"job-name": "old"}


def test_roles_with_unlike_labels_stay_apart() -> None:
    """One replicatedJob cannot have the label of the master on its first pod only."""
    found = pod_templates(conversion_of(pytorch({"Master": 1, "Worker": 2}, spread(job_role="master"))))
    assert {name: labels(template) for name, template in found.items()} == {
        "master": {"job-role": "master"},
        "worker": {},
    }


def test_the_index_is_the_completion_index() -> None:
    pod = spread(replica_index="1")
    conversion = conversion_of(pytorch({"Worker": 2}, pod))
    assert selected(pod_templates(conversion)["node"]) == {COMPLETION_INDEX: "1"}
    assert not lost(conversion)


def test_the_index_of_a_role_of_its_own_jobs_is_the_index_of_the_job() -> None:
    """Master and workers count from 0 each, which one replicatedJob does not."""
    pod = {"containers": [{"name": "pytorch", "image": "a", "env": [index_variable()]}]}
    conversion = conversion_of(pytorch({"Master": 1, "Worker": 2}, pod))
    found = pod_templates(conversion)
    assert [note.path for note in conversion.notes if "the index of a pod in its role" in note.message] == [
        f"spec.pytorchReplicaSpecs.{role}.template.spec.containers[0].env[0].valueFrom.fieldRef.fieldPath"
        for role in ("Master", "Worker")
    ]
    paths = {
        name: next(
            entry["valueFrom"]["fieldRef"]["fieldPath"]
            for entry in template["spec"]["containers"][0]["env"]
            if entry["name"] == "INDEX"
        )
        for name, template in found.items()
    }
    assert paths == {"master": f"metadata.labels['{COMPLETION_INDEX}']", "worker": f"metadata.labels['{JOB_INDEX}']"}


def test_files_of_the_downward_api_follow() -> None:
    item = {"path": "index", "fieldRef": {"fieldPath": f"metadata.labels['{PREFIX}replica-index']"}}
    projected = {"name": "b", "projected": {"sources": [{"downwardAPI": {"items": [item]}}]}}
    pod = {"volumes": [{"name": "a", "downwardAPI": {"items": [item]}}, projected]}
    text = str(pod_templates(conversion_of(pytorch({"Worker": 2}, pod))))
    assert PREFIX not in text
    assert text.count(COMPLETION_INDEX) == 2


def test_a_file_of_all_labels_gets_those_with_one_value() -> None:
    item = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    pod = {"volumes": [{"name": "a", "downwardAPI": {"items": [item]}}]}
    assert set(labels(pod_templates(conversion_of(pytorch({"Worker": 2}, pod)))["node"])) == {
        "operator-name",
        "job-name",
        "replica-type",
    }


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (pytorch({"Worker": 2}, spread(job_role="master")), [COMPLETION_INDEX]),
        (job("JAXJob", "jaxReplicaSpecs", "jax", {"Worker": 2}, spread(job_role="master")), [COMPLETION_INDEX]),
        (pytorch({"Worker": 1}, spread(job_role="master")), []),
        (pytorch({"Worker": 2}, spread(group="x")), ["remove it, or set the label"]),
        (job("XGBoostJob", "xgbReplicaSpecs", "xgboost", {"Master": 1}, spread(job_role="master")), []),
    ],
)
def test_what_no_template_can_say_is_lost(body: Body, expected: list[str]) -> None:
    found = lost(conversion_of(body))
    assert len(found) == len(expected)
    for text, part in zip(found, expected, strict=True):
        assert "which the new pods do not have" in text
        assert part in text


def test_a_command_that_names_the_index_is_lost() -> None:
    command = ["kubectl", "get", "pods", "-l", f"{PREFIX}replica-index=0,{PREFIX}job-name=old"]
    pod = {"containers": [{"name": "pytorch", "image": "a", "command": command}]}
    conversion = conversion_of(pytorch({"Worker": 2}, pod))
    assert labels(pod_templates(conversion)["node"]) == {"job-name": "old"}
    (note,) = lost(conversion)
    assert f"use the label {COMPLETION_INDEX}" in note


def test_other_objects_of_the_input_are_heard() -> None:
    selector = {f"{PREFIX}job-name": "old", f"{PREFIX}replica-index": "0"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"selector": selector}}
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "own", "namespace": "vision"},
        "spec": {"podSelector": {"matchLabels": {f"{PREFIX}replica-type": "worker"}}},
    }
    conversion = conversion_of(pytorch({"Worker": 2}), policy, service)
    assert labels(pod_templates(conversion)["node"]) == {"job-name": "old", "replica-type": "worker"}
    (note,) = lost(conversion)
    assert "Service default/web" in note
    assert COMPLETION_INDEX in note


@pytest.mark.parametrize(("trains", "indexed"), [(False, True), (True, False)])
def test_labels_of_the_mpi_operator(trains: bool, indexed: bool) -> None:
    pod = spread(job_role="worker", replica_index="1", operator_name="mpi-operator")
    body = job("MPIJob", "mpiReplicaSpecs", "mpi", {"Launcher": 1, "Worker": 2}, pod, runLauncherAsWorker=trains)
    conversion = conversion_of(body)
    found = pod_templates(conversion)
    assert labels(found["launcher"]) == {"job-role": "launcher", "operator-name": "mpi-operator"}
    assert labels(found["node"]) == {"job-role": "worker", "operator-name": "mpi-operator"}
    assert (COMPLETION_INDEX in selected(found["node"])) == indexed
    assert bool(lost(conversion)) == (not indexed)
