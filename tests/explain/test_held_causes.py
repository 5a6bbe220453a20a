"""Causes in objects below a job that are held: suspended, being deleted, gated, or without a volume of their own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.explain.recorded_clusters import NOW, Cluster, Job, body, check, minutes_ago
from trainyard.insight.explain.job_state import ExplainedState

CORE = "v1"


def volcano_job(cluster: Cluster, phase: str, **status: Any) -> dict[str, Any]:
    template = {"spec": {"schedulerName": "volcano", "containers": [{"name": "c"}]}}
    spec = {"queue": "vision", "tasks": [{"name": "t", "replicas": 2, "template": template}]}
    state = {"phase": phase, "message": "suspended by command", "lastTransitionTime": minutes_ago(7)}
    status = {"state": state, **status}
    found = body("batch.volcano.sh/v1alpha1", "Job", "vc", "vision", spec=spec, status=status)
    cluster.bodies.append(found)
    return found


def test_a_volcano_job_that_is_being_aborted(cluster: Cluster) -> None:
    job = volcano_job(cluster, "Aborting")
    found = cluster.explain("vcjob/vc")
    check(found, "volcano-job-aborted", "vcctl job resume -n vision -N vc", when=minutes_ago(7))
    assert "its pods are being deleted" in found.message
    job["status"]["state"]["phase"] = "Pending"
    assert "volcano-job-aborted" not in cluster.causes("vcjob/vc")


@pytest.mark.parametrize(
    ("phase", "state", "cause"),
    [("Completing", ExplainedState.COMPLETE, None), ("Terminating", ExplainedState.FAILED, "job-failed")],
)
def test_a_volcano_job_that_is_ending_has_ended(
    phase: str, state: ExplainedState, cause: str | None, cluster: Cluster
) -> None:
    volcano_job(cluster, phase)
    found = cluster.explain("vcjob/vc")
    assert (found.state, found.cause) == (state, cause)


def test_a_volcano_job_that_is_restarting(cluster: Cluster) -> None:
    job = volcano_job(cluster, "Restarting", retryCount=2)
    check(cluster.explain("vcjob/vc"), "gang-restarting", "kubectl logs", restarts=2)
    del job["status"]["retryCount"]
    assert "gang-restarting" not in cluster.causes("vcjob/vc")


def suspended_job_set(cluster: Cluster) -> Job:
    job = cluster.job("train")
    cluster.without(*job.pods)
    job.job_set["spec"]["suspend"] = True
    job.job_set["status"]["conditions"] = [
        {"type": "Suspended", "status": "True", "reason": "SuspendedJobs", "lastTransitionTime": minutes_ago(3)}
    ]
    return job


def test_a_job_set_that_is_suspended_below_its_train_job(cluster: Cluster) -> None:
    job = suspended_job_set(cluster)
    found = cluster.explain("train")
    check(found, "child-suspended", "within a minute", object="JobSet train", since=minutes_ago(3))
    assert found.state is ExplainedState.SUSPENDED
    job.train_job["spec"]["suspend"] = True
    assert cluster.causes("train") == ["suspended-by-user"]
    job.train_job["spec"]["suspend"] = job.job_set["spec"]["suspend"] = False
    assert "child-suspended" not in cluster.causes("train")


def test_a_job_set_that_no_controller_resumes() -> None:
    cluster = Cluster().deployment("kubeflow-trainer-controller-manager", "trainyard-system", ready=0)
    job = suspended_job_set(cluster)
    found = cluster.explain("train")
    check(found, "controller-not-running", "kubectl get pods -n trainyard-system")
    assert "its JobSet is still suspended, because" in found.message
    job.train_job["spec"]["suspend"] = True
    assert cluster.causes("train") == ["suspended-by-user"]


def test_a_job_set_whose_resumption_is_denied(cluster: Cluster) -> None:
    job = suspended_job_set(cluster)
    cluster.event(job.train_job, "PolicyDenied", "TrainJob resources reconciliation failed: ACC-002 spec.trainer: no")
    check(cluster.explain("train"), "policy-denied", "rule ACC-002", rule="ACC-002")
    job.train_job["spec"]["suspend"] = True
    assert cluster.causes("train") == ["suspended-by-user"]


def test_a_job_that_is_suspended_below_its_job_set(cluster: Cluster) -> None:
    job = cluster.job("train")
    cluster.without(*job.pods)
    job.job["spec"]["suspend"] = True
    found = cluster.explain("train")
    check(found, "child-suspended", "kubectl describe jobset train -n vision", object="Job train-node-0")
    job.job["spec"]["suspend"] = False
    assert "child-suspended" not in cluster.causes("train")
    job.job["spec"]["suspend"] = job.job_set["spec"]["suspend"] = job.train_job["spec"]["suspend"] = True
    assert cluster.causes("train") == ["suspended-by-user"]


def test_a_job_that_no_controller_resumes() -> None:
    cluster = Cluster().deployment("jobset-controller-manager", "jobset-system", ready=0)
    job = cluster.job("train")
    cluster.without(*job.pods)
    job.job["spec"]["suspend"] = True
    found = cluster.explain("train")
    check(found, "job-set-controller-not-running", "kubectl get pods -n jobset-system")
    assert "the Jobs of the JobSet are still suspended" in found.message


SCRATCH = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}}]


def scratch(cluster: Cluster, pod: str, phase: str) -> dict[str, Any]:
    found = body(
        CORE, "PersistentVolumeClaim", f"{pod}-scratch", "vision",
        spec={"storageClassName": "fast"}, status={"phase": phase},
    )  # fmt: skip
    cluster.bodies.append(found)
    return found


def test_a_pending_claim_of_an_ephemeral_volume(cluster: Cluster) -> None:
    cluster.job("train").everywhere(volumes=SCRATCH)
    scratch(cluster, "train-node-0-0", "Bound")
    claim = scratch(cluster, "train-node-0-1", "Pending")
    cluster.event(claim, "ProvisioningFailed", 'storageclass "fast" not found')
    found = cluster.explain("train")
    check(found, "volume-pending", "another storage class", claim="train-node-0-1-scratch", storage_class="fast")
    claim["status"]["phase"] = "Bound"
    assert cluster.causes("train") == []


def test_a_claim_of_an_ephemeral_volume_that_is_not_created(cluster: Cluster) -> None:
    job = cluster.job("train", minutes=5)
    job.everywhere(volumes=SCRATCH)
    found = cluster.explain("train")
    check(found, "volume-missing", "kubectl describe pod train-node-0-0 -n vision", claim="train-node-0-0-scratch")
    for pod in job.pods:
        pod["metadata"]["creationTimestamp"] = NOW.isoformat()
    assert cluster.causes("train") == []


def leaving(cluster: Cluster, job: Job, minutes: int) -> Job:
    for pod in job.pods:
        pod["metadata"]["deletionTimestamp"] = minutes_ago(minutes)
    return job


def test_pods_that_are_being_deleted_on_a_failed_node(cluster: Cluster) -> None:
    job = cluster.job("train", nodes=cluster.names[:2])
    leaving(cluster, job, 0)
    assert "pods-terminating" not in cluster.causes("train")
    cluster.find("Node", cluster.names[1])["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    found = cluster.explain("train")
    check(found, "pods-terminating", "kubectl delete pod train-node-0-1 -n vision --force", count=1)
    assert f"{cluster.names[1]}, which is not ready" in found.message


def test_pods_that_are_being_deleted_on_a_node_that_is_gone(cluster: Cluster) -> None:
    leaving(cluster, cluster.job("train", nodes=["gone", "gone"]), 0)
    found = cluster.explain("train")
    check(found, "pods-terminating", "--force", count=2)
    assert "gone, which does not exist" in found.message


def test_pods_whose_deletion_takes_longer_than_their_grace_period(cluster: Cluster) -> None:
    job = leaving(cluster, cluster.job("train", nodes=cluster.names[:2]), 5)
    job.pods[0]["metadata"]["finalizers"] = ["example.com/keep"]
    found = cluster.explain("train")
    check(found, "pods-terminating", "kubectl describe pod train-node-0-0 -n vision", count=2, since=minutes_ago(5))
    assert "finalizer example.com/keep" in found.message


def test_a_gang_that_runs_beside_a_pod_that_is_being_deleted_has_no_cause(cluster: Cluster) -> None:
    job = cluster.job("train", nodes=cluster.names[:2])
    old = body(CORE, "Pod", "train-node-0-old", "vision", metadata=dict(job.pods[0]["metadata"]), spec={}, status={})
    old["metadata"] |= {"name": "train-node-0-old", "deletionTimestamp": minutes_ago(5)}
    cluster.bodies.append(old)
    assert cluster.causes("train") == []


@pytest.mark.parametrize(("pods", "together"), [(7, False), (8, True)])
def test_cordoned_and_failed_nodes_that_help_together(pods: int, together: bool, cluster: Cluster) -> None:
    cluster.find("Node", cluster.names[0])["spec"]["unschedulable"] = True
    cluster.find("Node", cluster.names[1])["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    cluster.job("train", pods=pods)
    cordoned, failed = cluster.explain("train").causes[:2]
    assert (cordoned.cause.id, failed.cause.id) == ("nodes-cordoned", "nodes-not-ready")
    assert ("together with the nodes that are not ready" in cordoned.message) is together
    assert ("together with the cordoned nodes" in failed.message) is together


def test_cordoned_and_failed_nodes_that_do_not_suffice_together(cluster: Cluster) -> None:
    cluster.find("Node", cluster.names[0])["spec"]["unschedulable"] = True
    cluster.find("Node", cluster.names[1])["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    cluster.fill("language", cluster.names[2:4])
    cluster.job("train", pods=8)
    assert not {"nodes-cordoned", "nodes-not-ready"} & set(cluster.causes("train"))


GATE = "kueue.x-k8s.io/admission"


def gated_pod(cluster: Cluster, gate: str = GATE, **labels: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c"}], "schedulingGates": [{"name": gate}]}
    pod = body(CORE, "Pod", "lone", "vision", metadata={"labels": labels}, spec=spec, status={"phase": "Pending"})
    above = [{"apiVersion": "v1", "kind": "Pod", "name": "lone", "controller": True}]
    status = {"conditions": [{"type": "QuotaReserved", "status": "False", "message": "insufficient quota"}]}
    made = body("kueue.x-k8s.io/v1beta2", "Workload", "w", "vision", metadata={"ownerReferences": above}, status=status)
    cluster.bodies += [pod, made]
    return pod


def test_a_pod_that_kueue_gates(cluster: Cluster) -> None:
    pod = gated_pod(cluster, **{"kueue.x-k8s.io/queue-name": "local"})
    found = cluster.explain("pod/lone")
    check(found, "suspended-by-kueue", "kubectl describe workload w", queue="local", reason="insufficient quota")
    assert [each.cause.id for each in found.causes] == ["suspended-by-kueue"]
    pod["spec"]["schedulingGates"] = []
    assert cluster.causes("pod/lone") == []


def test_a_gate_of_another_controller_is_none_of_kueue(cluster: Cluster) -> None:
    gated_pod(cluster, "example.com/wait", **{"kueue.x-k8s.io/queue-name": "local"})
    check(cluster.explain("pod/lone"), "pods-gated", "removes the gates", gates=["example.com/wait"])
