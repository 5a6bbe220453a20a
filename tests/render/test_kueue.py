"""Kueue: it rebuilds a TrainJob's pod sets from the JobSet, and admits the job by a patch of its own."""

from __future__ import annotations

from tests.render.builders import QUEUE, initializer, objects, patch, replicated_job, torch, trainer
from trainyard.api import TrainJob

GATE = {"name": "kueue.x-k8s.io/topology"}
TOLERATION = {"key": "spot", "operator": "Exists"}


def admitted(name: str) -> dict[str, object]:
    pod = {"nodeSelector": {"pool": "a"}, "tolerations": [TOLERATION], "schedulingGates": [GATE]}
    metadata = {"labels": {"kueue.x-k8s.io/podset": name}, "annotations": {"kueue.x-k8s.io/workload": "w"}}
    return {"name": name, "template": {"spec": {"template": {"metadata": metadata, "spec": pod}}}}


def queued(**spec: object) -> TrainJob:
    metadata = {"name": "job", "namespace": "team", "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}}
    return TrainJob.from_body({"metadata": metadata, "spec": {"runtimeRef": {"name": "runtime"}, **spec}})


def test_a_queued_job_is_suspended_and_its_pod_counts_are_in_the_job_set() -> None:
    of = torch(initializer(), trainer(), replicated_job("log", replicas=2, job={"parallelism": 3}), volcano={})
    job_set = objects(queued(suspend=True, trainer={"numNodes": 4}), of)["JobSet"]
    assert job_set["spec"]["suspend"] is True
    counts = {
        job["name"]: (
            job.get("replicas", 1),
            job["template"]["spec"]["parallelism"],
            job["template"]["spec"]["completions"],
        )
        for job in job_set["spec"]["replicatedJobs"]
    }
    assert counts == {"dataset-initializer": (1, 1, 1), "node": (1, 4, 4), "log": (2, 3, 3)}


def test_the_queue_label_of_the_train_job_stays_with_the_train_job() -> None:
    assert "labels" not in objects(queued(), torch())["JobSet"]["metadata"]


def test_what_kueue_patches_in_reaches_the_pods_and_changes_nothing_else() -> None:
    before = objects(queued(suspend=True), torch(volcano={}), default_queue="leaf")
    patches = [patch(admitted("node"), manager="kueue.x-k8s.io/manager")]
    after = objects(queued(suspend=False, runtimePatches=patches), torch(volcano={}), default_queue="leaf")
    template = after["JobSet"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert template["spec"].pop("nodeSelector") == {"pool": "a"}
    assert template["spec"].pop("tolerations") == [TOLERATION]
    assert template["spec"].pop("schedulingGates") == [GATE]
    assert template["metadata"].pop("labels") == {"kueue.x-k8s.io/podset": "node"}
    assert template["metadata"]["annotations"].pop("kueue.x-k8s.io/workload") == "w"
    assert template["metadata"]["annotations"][QUEUE] == "leaf"
    after["JobSet"]["spec"]["suspend"] = True
    assert after == before
