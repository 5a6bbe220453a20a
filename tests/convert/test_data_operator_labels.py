"""Labels that only Volcano, KubeRay or the Spark operator put on pods, where affinity and others name them."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.convert.conversions import conversion_of, pod_templates
from trainyard.api import Body
from trainyard.jobs.convert.conversion import Conversion

IMAGE: Final = "registry.example/app:1"
INDEX: Final = "batch.kubernetes.io/job-completion-index"


def labels(conversion: Conversion, name: str) -> Body:
    found: Body = pod_templates(conversion)[name].get("metadata", {}).get("labels", {})
    return found


def apart(**matched: str) -> Body:
    """Return an affinity that keeps a pod apart from others by their labels."""
    selector = {"matchLabels": {key.replace("__", "/").replace("_", "-"): value for key, value in matched.items()}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def field(name: str, path: str) -> Body:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def volcano(pod: Body, **spec: Any) -> Body:
    tasks = [
        {"name": name, "replicas": replicas, "template": {"spec": {"containers": [main(pod)], **without_env(pod)}}}
        for name, replicas in (("lead", 1), ("follow", 2))
    ]
    about = {"name": "old", "namespace": "vision"}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": about,
        "spec": {"tasks": tasks, **spec},
    }


def main(pod: Body) -> Body:
    return {"name": "main", "image": IMAGE, "command": ["true"], **({"env": pod["env"]} if "env" in pod else {})}


def without_env(pod: Body) -> Body:
    return {key: value for key, value in pod.items() if key != "env"}


def spark(**executor: Any) -> Body:
    spec = {"type": "Scala", "image": IMAGE, "mainApplicationFile": "local:///a.jar", "sparkVersion": "3.5.4"}
    about = {"name": "app", "namespace": "vision"}
    fields = {"driver": {}, "executor": executor}
    return {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": about,
        "spec": spec | fields,
    }


def ray(pod: Body, own: Body | None = None) -> Body:
    head = {"spec": {"containers": [{"name": "head", "image": IMAGE}]}}
    worker = {"spec": {"containers": [{"name": "worker", "image": IMAGE}], **pod}}
    if own:
        worker["metadata"] = {"labels": own}
    groups = [{"groupName": "gpu", "replicas": 2, "rayStartParams": {}, "template": worker}]
    spec = {"headGroupSpec": {"rayStartParams": {}, "template": head}, "workerGroupSpecs": groups}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "c", "namespace": "vision"},
        "spec": spec,
    }


def test_static_labels_of_volcano() -> None:
    affinity = apart(**{"volcano.sh__job_name": "old", "volcano.sh__task_spec": "follow"})
    conversion = conversion_of(volcano({"affinity": affinity}))
    assert labels(conversion, "lead") == {"volcano.sh/job-name": "old", "volcano.sh/task-spec": "lead"}
    assert labels(conversion, "follow") == {"volcano.sh/job-name": "old", "volcano.sh/task-spec": "follow"}
    assert not conversion.lost


def test_labels_of_namespace_and_queue_are_named_by_another_object() -> None:
    selector = {"matchLabels": {"volcano.sh/job-namespace": "vision", "volcano.sh/queue-name": "lq"}}
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "only-own"},
        "spec": {"podSelector": selector},
    }
    conversion = conversion_of(policy, volcano({}, queue="lq"))
    wanted = {"volcano.sh/job-namespace": "vision", "volcano.sh/queue-name": "lq"}
    assert labels(conversion, "lead") == labels(conversion, "follow") == wanted


@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_the_index_of_a_task_is_the_completion_index(place: str) -> None:
    conversion = conversion_of(volcano({"env": [field("RANK", f"metadata.{place}['volcano.sh/task-index']")]}))
    for template in pod_templates(conversion).values():
        (variable,) = template["spec"]["containers"][0]["env"]
        assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.{place}['{INDEX}']"
    assert not conversion.lost


def test_an_annotation_with_one_value_is_set() -> None:
    conversion = conversion_of(volcano({"env": [field("TASK", "metadata.annotations['volcano.sh/task-spec']")]}))
    assert pod_templates(conversion)["lead"]["metadata"]["annotations"] == {"volcano.sh/task-spec": "lead"}


def test_annotations_of_the_gang_are_not_lost_and_those_of_the_old_job_are() -> None:
    variables = [
        field("GROUP", "metadata.annotations['scheduling.k8s.io/group-name']"),
        field("RETRY", "metadata.annotations['volcano.sh/job-retry-count']"),
    ]
    conversion = conversion_of(volcano({"env": variables}))
    assert {str(note.value) for note in conversion.lost} == {"volcano.sh/job-retry-count"}


def test_labels_of_spark() -> None:
    affinity = apart(spark_role="executor", **{"sparkoperator.k8s.io__app_name": "app"})
    conversion = conversion_of(spark(affinity=affinity))
    wanted = {"spark-role": "executor", "sparkoperator.k8s.io/app-name": "app"}
    assert labels(conversion, "executor") == wanted
    assert labels(conversion, "driver") == wanted | {"spark-role": "driver"}
    assert not conversion.lost
    conversion = conversion_of(spark(affinity=apart(spark_app_selector="spark-1")))
    assert {str(note.value) for note in conversion.lost} == {"spark-app-selector"}


def test_labels_of_ray() -> None:
    affinity = apart(**{"ray.io__cluster": "c", "ray.io__node_type": "worker", "ray.io__group": "gpu"})
    conversion = conversion_of(ray({"affinity": affinity}))
    wanted = {"ray.io/cluster": "c", "ray.io/node-type": "worker", "ray.io/group": "gpu"}
    assert labels(conversion, "node") == wanted
    assert labels(conversion, "head") == wanted | {"ray.io/node-type": "head", "ray.io/group": "headgroup"}
    assert not conversion.lost
    conversion = conversion_of(ray({"affinity": apart(**{"ray.io__replica_host_index": "0"})}))
    assert {str(note.value) for note in conversion.lost} == {"ray.io/replica-host-index"}


def test_a_label_of_the_job_counts_over_that_of_kuberay_except_for_its_own() -> None:
    affinity = apart(**{"app.kubernetes.io__name": "mine", "ray.io__group": "gpu"})
    conversion = conversion_of(ray({"affinity": affinity}, {"app.kubernetes.io/name": "mine", "ray.io/group": "other"}))
    assert labels(conversion, "node") == {"app.kubernetes.io/name": "mine", "ray.io/group": "gpu"}
    assert labels(conversion, "head")["app.kubernetes.io/name"] == "kuberay"
