"""Causes in the platform: programs that do not run, and the message of the scheduler, each beside a near miss."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.explain.recorded_clusters import NOW, PROGRAMS, Cluster, body, check, minutes_ago
from trainyard.cluster_state.recorded_file import observed_of_text
from trainyard.insight.explain.explanation import explain

CORE = "v1"


def lease(cluster: Cluster, name: str, when: str, seconds: int = 15) -> Cluster:
    spec = {"renewTime": when, "leaseDurationSeconds": seconds}
    cluster.bodies.append(body("coordination.k8s.io/v1", "Lease", name, "volcano-system", spec=spec))
    return cluster


@pytest.mark.parametrize("how", ["replicas", "lease"])
def test_scheduler_that_does_not_run(how: str) -> None:
    cluster = Cluster().deployment("volcano-scheduler", "volcano-system", ready=0 if how == "replicas" else 1)
    lease(lease(cluster, "vc-scheduler", minutes_ago(5)), "vc-controller-manager", minutes_ago(0))
    cluster.job("train")
    state = "0 of 1 replicas are ready" if how == "replicas" else "its Lease vc-scheduler was renewed 300 s ago"
    check(cluster.explain("train"), "scheduler-not-running", "kubectl get pods -n volcano-system", state=state)


STOPPED = {
    "volcano-scheduler": "scheduler-not-running",
    "volcano-controllers": "volcano-controllers-not-running",
    "kubeflow-trainer-controller-manager": "controller-not-running",
    "jobset-controller-manager": "job-set-controller-not-running",
}


def stopped(name: str) -> tuple[Cluster, str]:
    """Return a cluster with a job that waits for a program, and a reference of the job."""
    cluster = Cluster()
    if name == "volcano-controllers":
        volcano_job(cluster)
        return cluster, "vcjob/vc"
    job = cluster.job("train")
    if name != "volcano-scheduler":
        cluster.without(job.job, *job.pods)
    if name == "kubeflow-trainer-controller-manager":
        cluster.without(job.job_set, job.pod_group)
    return cluster, "train"


@pytest.mark.parametrize("name", STOPPED)
def test_program_that_does_not_exist(name: str) -> None:
    cluster, job = stopped(name)
    assert STOPPED[name] not in cluster.causes(job)
    cluster.without(cluster.find("Deployment", name))
    check(cluster.explain(job), STOPPED[name], f"kubectl get deployments -A | grep {name}", state="it does not exist")


@pytest.mark.parametrize("name", STOPPED)
def test_program_that_is_scaled_to_nothing(name: str) -> None:
    cluster, job = stopped(name)
    cluster.deployment(name, PROGRAMS[name], ready=0, replicas=0)
    fix = f"kubectl scale deployment {name} -n {PROGRAMS[name]} --replicas=1"
    check(cluster.explain(job), STOPPED[name], fix, state="it is scaled to 0 replicas", namespace=PROGRAMS[name])


def test_program_of_another_name_that_renews_its_lease_runs(cluster: Cluster) -> None:
    """A chart names Deployments after its release; the Lease has the same name in each."""
    cluster.without(cluster.find("Deployment", "volcano-scheduler"))
    lease(cluster, "vc-scheduler", minutes_ago(0))
    cluster.job("train")
    assert cluster.causes("train") == []
    lease(cluster, "trainer.kubeflow.org", minutes_ago(-5))
    check(cluster.explain("train"), "scheduler-not-running", "", state="it does not exist")


def test_a_file_of_some_deployments_says_nothing_about_others(cluster: Cluster) -> None:
    cluster.without(cluster.find("Deployment", "volcano-scheduler"))
    cluster.job("train")
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster.bodies})
    assert explain(observed_of_text(text, "f", NOW), "train", "vision").cause == "unknown"


def test_scheduler_that_runs() -> None:
    cluster = lease(Cluster().deployment("volcano-scheduler", "volcano-system"), "vc-scheduler", NOW.isoformat())
    cluster.job("train")
    assert cluster.causes("train") == []


@pytest.mark.parametrize("newer", ["event", "heartbeat", "lease"])
def test_the_age_of_a_lease_is_that_of_the_cluster(newer: str) -> None:
    """The clock of the person may be wrong; the newest time of the cluster counts."""
    cluster = lease(Cluster().deployment("volcano-scheduler", "volcano-system"), "vc-scheduler", minutes_ago(9))
    job = cluster.job("train")
    assert cluster.causes("train") == []
    if newer == "event":
        cluster.event(job.job_set, "Created", "m", "Normal")
    elif newer == "heartbeat":
        cluster.find("Node", cluster.names[0])["status"]["conditions"][0]["lastHeartbeatTime"] = minutes_ago(1)
    else:
        lease(cluster, "trainer.kubeflow.org", minutes_ago(1))
    state = "its Lease vc-scheduler was renewed 480 s ago"
    check(cluster.explain("train"), "scheduler-not-running", "kubectl", state=state)


def test_a_lease_in_a_file_without_time_has_no_age() -> None:
    cluster = lease(Cluster().deployment("volcano-scheduler", "volcano-system"), "vc-scheduler", minutes_ago(9))
    lease(cluster, "trainer.kubeflow.org", minutes_ago(0))
    cluster.job("train")
    assert cluster.causes("train") == ["scheduler-not-running"]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster.bodies})
    assert explain(observed_of_text(text, "f", NOW), "train", "vision").cause == "unknown"


def test_a_second_scheduler_that_runs_is_enough() -> None:
    cluster = (
        Cluster().deployment("volcano-scheduler", "volcano-system").deployment("volcano-scheduler", "old", ready=0)
    )
    cluster.job("train")
    assert cluster.causes("train") == []


def test_a_lease_of_any_duration_has_an_answer() -> None:
    cluster = lease(Cluster().deployment("volcano-scheduler", "volcano-system"), "vc-scheduler", minutes_ago(9), 10**15)
    lease(cluster, "trainer.kubeflow.org", minutes_ago(0))
    cluster.job("train")
    assert cluster.causes("train") == []


def test_controller_that_does_not_run() -> None:
    cluster = Cluster().deployment("kubeflow-trainer-controller-manager", "trainyard-system", ready=0)
    job = cluster.job("train")
    cluster.job("other")
    cluster.without(job.job_set, job.job, job.pod_group, *job.pods)
    check(cluster.explain("train"), "controller-not-running", "trainyard-system", namespace="trainyard-system")
    assert cluster.causes("other") == []


def test_job_set_controller_that_does_not_run() -> None:
    cluster = Cluster().deployment("jobset-controller-manager", "jobset-system", ready=0)
    job = cluster.job("train")
    cluster.job("other")
    cluster.without(job.job, *job.pods)
    check(cluster.explain("train"), "job-set-controller-not-running", "jobset-system", jobs=0, wanted=1)
    assert cluster.causes("other") == []


def volcano_job(cluster: Cluster, **fields: Any) -> dict[str, Any]:
    template = {"spec": {"schedulerName": "volcano", "containers": [{"name": "c"}]}}
    spec = {"queue": "vision", "tasks": [{"name": "t", "replicas": 2, "template": template}]}
    found = body("batch.volcano.sh/v1alpha1", "Job", "vc", "vision", spec=spec, **fields)
    cluster.bodies.append(found)
    return found


def test_volcano_controllers_that_do_not_run() -> None:
    cluster = Cluster().deployment("volcano-controllers", "volcano-system", ready=0)
    volcano_job(cluster)
    cluster.job("train")
    check(cluster.explain("vcjob/vc"), "volcano-controllers-not-running", "volcano-system", missing="PodGroup")
    assert cluster.causes("train") == []


def test_an_aborted_volcano_job_can_be_resumed(cluster: Cluster) -> None:
    state = {"phase": "Aborted", "message": "job suspended by command", "lastTransitionTime": minutes_ago(7)}
    job = volcano_job(cluster, status={"state": state})
    found = cluster.explain("vcjob/vc")
    check(found, "volcano-job-aborted", "vcctl job resume -n vision -N vc", when=minutes_ago(7))
    assert "job suspended by command" in found.message
    job["status"]["state"]["phase"] = "Failed"
    check(cluster.explain("vcjob/vc"), "job-failed", "kubectl logs")


def test_message_of_the_scheduler_where_nodes_may_not_be_read() -> None:
    cluster = Cluster(unread=frozenset({"Node", "Pod", "PodGroup.scheduling.volcano.sh"}))
    job = cluster.job("train")
    status = {"type": "Unschedulable", "status": "True", "message": "2/2 tasks in gang unschedulable"}
    job.pod_group["status"]["conditions"] = [status]
    found = cluster.explain("train")
    check(
        found,
        "scheduler-message",
        "a person who may list all Nodes and PodGroups",
        message="2/2 tasks in gang unschedulable",
    )
    assert found.unread == ("Node", "Pod", "PodGroup")


def test_message_of_an_earlier_session_is_no_cause(cluster: Cluster) -> None:
    job = cluster.job("train", nodes=cluster.names[:2])
    job.pod_group["status"]["conditions"] = [{"type": "Unschedulable", "status": "True", "message": "2/2 tasks"}]
    assert cluster.causes("train") == []
