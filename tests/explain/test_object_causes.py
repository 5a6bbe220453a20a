"""Causes in pods, initializers, restarts, runtimes and suspension, each beside a near miss."""

from __future__ import annotations

from typing import Any

import pytest

from tests.explain.recorded_clusters import Cluster, Job, body, check, ended, minutes_ago, owner
from trainyard.api.constants import JOB_SET_NAME_LABEL
from trainyard.insight.explain.explanation import UNKNOWN
from trainyard.insight.explain.job_state import ExplainedState

CORE = "v1"


def placed(cluster: Cluster, **status: Any) -> Job:
    """Add a job whose pods have nodes and do not run yet."""
    job = cluster.job("train", nodes=cluster.names[:2])
    for pod in job.pods:
        pod["status"] = {"phase": "Pending", **status}
    return job


def waiting(reason: str, message: str = "") -> list[dict[str, Any]]:
    state = {"waiting": {"reason": reason, "message": message}}
    return [{"name": "node", "image": "train:1", "state": state}]


@pytest.mark.parametrize(
    "reason", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ImageInspectError", "SignatureValidationFailed"]
)
def test_image_that_cannot_be_pulled(reason: str, cluster: Cluster) -> None:
    placed(cluster, containerStatuses=waiting(reason, "manifest unknown"))
    found = cluster.explain("train")
    check(found, "image-pull", "pull secret", count=2, pods=2, image="train:1", reason=reason)
    assert found.state is ExplainedState.STARTING


def test_pods_are_counted_whose_images_cannot_be_pulled(cluster: Cluster) -> None:
    first = waiting("ErrImagePull")
    both = [*first, {**first[0], "name": "log", "image": "log:2"}]
    job = placed(cluster, containerStatuses=both)
    job.pods[1]["status"]["containerStatuses"] = []
    check(cluster.explain("train"), "image-pull", "correct the image", count=1, pods=2, image="train:1, log:2")


def test_container_that_is_being_created_is_no_failed_pull(cluster: Cluster) -> None:
    placed(cluster, containerStatuses=waiting("ContainerCreating"))
    found = cluster.explain("train")
    assert (found.causes, found.state, found.cause) == ((), ExplainedState.STARTING, None)


def test_container_that_cannot_be_created(cluster: Cluster) -> None:
    placed(cluster, containerStatuses=waiting("CreateContainerConfigError", 'secret "token" not found'))
    found = cluster.explain("train")
    check(found, "container-configuration", "namespace vision", container="node", pod="train-node-0-0")


@pytest.mark.parametrize("reason", ["RunContainerError", "CreateContainerError", "PostStartHookError"])
def test_a_program_that_the_image_lacks_is_missing_in_no_namespace(reason: str, cluster: Cluster) -> None:
    placed(cluster, containerStatuses=waiting(reason, 'exec: "torchrun": executable file not found in $PATH'))
    found = cluster.explain("train")
    check(found, "container-configuration", "correct the command", container="node", reason=reason)
    assert "namespace" not in found.fix


def crash(code: int, restarts: int) -> list[dict[str, Any]]:
    last = {"terminated": {"exitCode": code, "reason": "OOMKilled"}}
    return [{**waiting("CrashLoopBackOff")[0], "restartCount": restarts, "lastState": last}]


def test_container_that_ends_again_and_again(cluster: Cluster) -> None:
    placed(cluster, containerStatuses=crash(137, 4))
    found = cluster.explain("train")
    check(found, "container-crash", "--previous", code=137, restarts=4, reason="OOMKilled", pod="train-node-0-0")


def test_container_that_runs_again_is_no_crash(cluster: Cluster) -> None:
    job = placed(cluster)
    status = {"name": "node", "restartCount": 1, "state": {"running": {}}, "lastState": crash(1, 1)[0]["lastState"]}
    for pod in job.pods:
        pod["status"] = {"phase": "Running", "containerStatuses": [status]}
    assert cluster.causes("train") == []


def claim(cluster: Cluster, phase: str) -> dict[str, Any]:
    spec = {"storageClassName": "fast"}
    found = body(CORE, "PersistentVolumeClaim", "datasets", "vision", spec=spec, status={"phase": phase})
    cluster.bodies.append(found)
    return found


VOLUMES = [{"name": "data", "persistentVolumeClaim": {"claimName": "datasets"}}]


def test_missing_claim(cluster: Cluster) -> None:
    cluster.job("train").everywhere(volumes=VOLUMES)
    check(cluster.explain("train"), "volume-missing", "correct claimName", claim="datasets", namespace="vision")


def test_pending_claim(cluster: Cluster) -> None:
    cluster.job("train").everywhere(volumes=VOLUMES)
    cluster.event(claim(cluster, "Pending"), "ProvisioningFailed", 'storageclass "fast" not found')
    found = cluster.explain("train")
    check(found, "volume-pending", "another storage class", claim="datasets", storage_class="fast")
    assert 'storageclass "fast" not found' in found.message


def test_bound_claim_and_one_that_waits_for_the_pods(cluster: Cluster) -> None:
    cluster.job("train").everywhere(volumes=VOLUMES)
    found = claim(cluster, "Bound")
    assert cluster.causes("train") == []
    found["status"]["phase"] = "Pending"
    cluster.event(found, "WaitForFirstConsumer", "waiting for first consumer to be created before binding", "Normal")
    assert cluster.causes("train") == []
    cluster.event(found, "WaitForPodScheduled", "waiting for pod train-node-0-0 to be scheduled", "Normal")
    assert cluster.causes("train") == []


def test_volume_that_cannot_be_mounted(cluster: Cluster) -> None:
    job = placed(cluster)
    cluster.event(job.pods[0], "FailedMount", 'secret "keys" not found')
    check(cluster.explain("train"), "volume-mount", "create what is missing", pod="train-node-0-0")
    for pod in job.pods:
        pod["status"]["phase"] = "Running"
    assert cluster.causes("train") == []


@pytest.mark.parametrize("reason", ["FailedCreatePodSandBox", "NetworkNotReady", "FailedPrepareDynamicResources"])
def test_a_pod_that_its_node_cannot_start(reason: str, cluster: Cluster) -> None:
    """Its container stays in ContainerCreating, and only an event names the reason (kubernetes#92903)."""
    job = placed(cluster, containerStatuses=waiting("ContainerCreating"))
    cluster.event(job.pods[1], reason, 'plugin type="multus" failed: network rdma not found')
    found = cluster.explain("train")
    check(found, "pod-sandbox", "platform team about rack-0-node-1", pod="train-node-0-1", node="rack-0-node-1")
    assert "network rdma not found" in found.message
    conditions = [{"type": "PodReadyToStartContainers", "status": "False"}]
    job.pods[1]["status"] |= {"podIP": "10.0.0.7", "conditions": conditions}  # that of its machine
    assert cluster.causes("train") == ["pod-sandbox"]
    conditions[0]["status"] = "True"
    assert cluster.causes("train") == []
    job.pods[1]["status"]["conditions"] = []
    assert cluster.causes("train") == []


def test_scheduling_gates(cluster: Cluster) -> None:
    job = cluster.job("train")
    for pod in job.pods:
        pod["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    found = cluster.explain("train")
    check(found, "pods-gated", "removes the gates", count=2, pods=2, gates=["kueue.x-k8s.io/admission"])
    for pod in job.pods:
        pod["spec"]["schedulingGates"] = []
    assert cluster.causes("train") == []


def with_initializer(cluster: Cluster, **status: Any) -> Job:
    """Add a job whose pods wait for an initializer."""
    found = cluster.job("train")
    cluster.without(*found.pods, found.job)
    parts = found.job_set["spec"]["replicatedJobs"]
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "dataset-initializer"}
    parts.insert(0, {"name": "dataset-initializer", "replicas": 1, "template": {"metadata": {"labels": labels}}})
    parts[1]["dependsOn"] = [{"name": "dataset-initializer", "status": "Complete"}]
    name = "train-dataset-initializer-0"
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "dataset-initializer", JOB_SET_NAME_LABEL: "train"}
    metadata = {"ownerReferences": owner("jobset", "train"), "labels": labels}
    job = body("batch/v1", "Job", name, "vision", metadata=metadata, spec={"parallelism": 1}, status=status)
    owned = {"ownerReferences": owner("job", name)}
    spec = {"nodeName": "platform", "containers": [{"name": "c"}]}
    pod = body(CORE, "Pod", f"{name}-x", "vision", metadata=owned, spec=spec, status={"phase": "Running"})
    cluster.bodies += [job, pod]
    return Job(found.train_job, found.job_set, job, found.pod_group, [pod])


def test_initializer_that_runs(cluster: Cluster) -> None:
    with_initializer(cluster)
    found = cluster.explain("train")
    check(found, "initializer-running", "kubectl logs -n vision", initializers=["dataset-initializer"])
    assert found.state is ExplainedState.WAITING
    assert len(found.causes) == 1


def unplaced(job: Job, **spec: Any) -> None:
    job.pods[0]["status"] = {"phase": "Pending"}
    job.pods[0]["spec"] = {"schedulerName": "volcano", "containers": [{"name": "c"}], **spec}


@pytest.mark.parametrize(
    "cause", ["image-pull", "volume-missing", "node-selector-unmatched", "node-too-small", "scheduler-not-running"]
)
def test_what_keeps_the_initializer_from_running_comes_first(cause: str, cluster: Cluster) -> None:
    job = with_initializer(cluster)
    if cause == "image-pull":
        job.pods[0]["status"] = {"phase": "Pending", "containerStatuses": waiting("ErrImagePull", "manifest unknown")}
    elif cause == "volume-missing":
        job.pods[0]["spec"]["volumes"] = VOLUMES
    elif cause == "node-selector-unmatched":
        unplaced(job, nodeSelector={"gpu": "h200"})
    elif cause == "node-too-small":
        unplaced(job, containers=[{"name": "c", "resources": {"requests": {"memory": "2Ti"}}}])
    else:
        unplaced(job)
        cluster.deployment("volcano-scheduler", "volcano-system", ready=0)
    found = cluster.causes("train")
    assert found[0] == cause
    assert "initializer-running" in found[1:]


def test_what_the_scheduler_says_about_the_initializer_is_its_progress() -> None:
    cluster = Cluster(unread=frozenset({"Node"}))
    job = with_initializer(cluster)
    unplaced(job)
    waits = {"type": "PodScheduled", "status": "False", "message": "0/8 nodes are available"}
    job.pods[0]["status"]["conditions"] = [waits]
    found = cluster.explain("train")
    check(found, "initializer-running", "kubectl logs -n vision", initializers=["dataset-initializer"])
    assert "1 pod, Pending: 0/8 nodes are available" in found.message


def test_the_gang_behind_an_initializer_is_no_cause(cluster: Cluster) -> None:
    job = with_initializer(cluster)
    job.job_set["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"gpu": "h200"}
    assert cluster.causes("train") == ["initializer-running"]


def test_initializer_that_failed(cluster: Cluster) -> None:
    job = with_initializer(cluster, failed=1)
    state = {"terminated": {"exitCode": 3, "reason": "Error"}}
    job.pods[0]["status"] = {"phase": "Failed", "containerStatuses": [{"name": "c", "state": state}]}
    found = cluster.explain("train")
    check(found, "initializer-failed", "storageUri", times=1, initializer="dataset-initializer")
    assert "exit code 3 (Error)" in found.message


def test_initializer_that_succeeded(cluster: Cluster) -> None:
    job = with_initializer(cluster, succeeded=1)
    job.job_set["status"]["replicatedJobsStatus"] = [{"name": "dataset-initializer", "succeeded": 1}]
    assert not {"initializer-running", "initializer-failed"} & set(cluster.causes("train"))


def test_gang_that_lost_a_member_and_restarts(cluster: Cluster) -> None:
    job = cluster.job("train", pods=2)
    job.job_set["status"]["restarts"] = 2
    job.job_set["spec"]["failurePolicy"] = {"maxRestarts": 3}
    gone = body(CORE, "Pod", "train-node-0-1", "vision")
    cluster.event(gone, "Evict", "Pod is evicted, because of reclaim")
    found = cluster.explain("train")
    check(found, "gang-restarting", "request within the share", restarts=2, bound=" of at most 3")
    assert "pod train-node-0-1 was evicted" in found.message


def test_an_eviction_in_another_namespace_is_no_reason_of_a_restart(cluster: Cluster) -> None:
    cluster.job("train").job_set["status"]["restarts"] = 2
    other = cluster.job("train", "language")
    cluster.event(other.pods[0], "Evict", "Pod is evicted, because of reclaim")
    assert "its events are gone" in cluster.explain("train").message


def test_gang_that_restarted_and_runs_again(cluster: Cluster) -> None:
    job = cluster.job("train", nodes=cluster.names[:2])
    job.job_set["status"]["restarts"] = 2
    job.job_set["spec"]["failurePolicy"] = {"maxRestarts": 3}
    cluster.event(body(CORE, "Pod", "train-node-0-1", "vision"), "Evict", "Pod is evicted, because of reclaim")
    found = cluster.explain("train")
    check(found, "gang-restarted", "request within the share", restarts=2, bound=" of at most 3")
    assert (found.state, len(found.causes)) == (ExplainedState.RUNNING, 1)
    assert "pod train-node-0-1 was evicted" in found.message
    job.job_set["status"]["restarts"] = 0
    assert cluster.causes("train") == []


def test_the_last_reason_of_a_restart_is_the_newest(cluster: Cluster) -> None:
    job = cluster.job("train")
    job.job_set["status"]["restarts"] = 2
    cluster.event(body(CORE, "Pod", "train-node-0-1", "vision"), "Evict", "Pod is evicted, because of reclaim")
    evicted = cluster.bodies[-1]
    job.job["status"] = ended("Failed", "BackoffLimitExceeded", "it failed")
    evicted["lastTimestamp"] = minutes_ago(30)
    assert "last: Job train-node-0 failed (BackoffLimitExceeded: it failed)" in cluster.explain("train").message
    evicted["lastTimestamp"] = minutes_ago(1)
    assert "last: pod train-node-0-1 was evicted" in cluster.explain("train").message
    state = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": minutes_ago(0)}}
    job.pods[1]["status"]["containerStatuses"] = [{"name": "node", "lastState": state}]
    assert "last: container node of pod train-node-0-1 ended with exit code 137" in cluster.explain("train").message


def test_an_eviction_of_another_job_is_no_restart(cluster: Cluster) -> None:
    cluster.job("train")
    cluster.event(body(CORE, "Pod", "other-node-0-1", "vision"), "Evict", "because of reclaim")
    assert cluster.causes("train") == []


def test_restarts_are_exhausted(cluster: Cluster) -> None:
    job = cluster.job("train")
    cluster.without(*job.pods)
    job.train_job["status"] = ended("Failed", "ReachedMaxRestarts")
    job.job_set["status"] = {"restarts": 3}
    job.job["status"] = ended("Failed", "BackoffLimitExceeded", "it failed")
    found = cluster.explain("train")
    check(found, "restarts-exhausted", "higher maxRestarts", restarts=3)
    assert "BackoffLimitExceeded" in found.message
    assert found.state is ExplainedState.FAILED


def test_missing_runtime(cluster: Cluster) -> None:
    job = cluster.job("train")
    job.train_job["spec"]["runtimeRef"]["name"] = "torch"
    assert cluster.causes("train") == []  # the JobSet was created from it
    cluster.without(job.job_set, job.job, job.pod_group, *job.pods)
    found = cluster.explain("train")
    check(found, "runtime-missing", "torch-distributed-gang", name="torch", kind="ClusterTrainingRuntime")


def test_runtime_of_the_namespace(cluster: Cluster) -> None:
    job = cluster.job("train")
    cluster.without(job.job_set, job.job, job.pod_group, *job.pods)
    job.train_job["spec"]["runtimeRef"] = {"name": "own", "kind": "TrainingRuntime"}
    check(cluster.explain("train"), "runtime-missing", "own", kind="TrainingRuntime")
    cluster.bodies.append(body("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", "own", "vision"))
    assert cluster.causes("train") == []


def test_deprecated_runtime(cluster: Cluster) -> None:
    cluster.job("train")
    metadata = cluster.find("ClusterTrainingRuntime", "torch-distributed-gang")["metadata"]
    metadata["labels"] = {"trainer.kubeflow.org/support": "deprecated"}
    metadata["annotations"] = {"trainyard.dev/remove-after": "2027-01-31"}
    found = cluster.explain("train")
    check(found, "runtime-deprecated", "trainyard runtimes list", removal=" and is removed after 2027-01-31")


def test_suspended_by_a_person(cluster: Cluster) -> None:
    job = cluster.job("train", suspend=True)
    cluster.without(*job.pods)
    found = cluster.explain("train")
    check(found, "suspended-by-user", "kubectl patch trainjob train -n vision", since=minutes_ago(10))
    assert found.state is ExplainedState.SUSPENDED
    job.train_job["spec"]["suspend"] = False
    assert "suspended-by-user" not in cluster.causes("train")


def workload(cluster: Cluster, *conditions: dict[str, str], **status: Any) -> dict[str, Any]:
    """Add a suspended job of a Kueue queue, and its Workload."""
    job = cluster.job("train", suspend=True)
    cluster.without(*job.pods)
    job.train_job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "local"}
    metadata = {"ownerReferences": owner("trainjob", "train")}
    status = {"conditions": list(conditions), **status}
    cluster.bodies.append(body("kueue.x-k8s.io/v1beta2", "Workload", "w", "vision", metadata=metadata, status=status))
    return cluster.bodies[-1]


def state(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def test_suspended_by_kueue(cluster: Cluster) -> None:
    workload(cluster, state("QuotaReserved", "False", message="insufficient quota"))
    found = cluster.explain("train")
    check(
        found, "suspended-by-kueue", "kubectl describe workload w -n vision", queue="local", reason="insufficient quota"
    )
    assert len(found.causes) == 1


def test_kueue_does_not_queue_a_deactivated_workload_again(cluster: Cluster) -> None:
    """Its quota may be free for days: nothing admits it (kueue#15255)."""
    why = "The workload is deactivated due to exceeding the maximum number of re-queuing retries"
    made = workload(
        cluster,
        state("QuotaReserved", "False", "Pending", "Exceeded the PodsReady timeout vision/w"),
        state("Evicted", "True", "Deactivated", why),
    )
    made["spec"] = {"active": False}
    found = cluster.explain("train")
    check(found, "suspended-by-kueue", "ask the platform team to activate Workload w", reason=why)
    assert "quota" not in found.fix
    made["spec"]["active"] = True
    check(cluster.explain("train"), "suspended-by-kueue", "wait until quota of local is free")


def test_kueue_queues_an_evicted_workload_again_later(cluster: Cluster) -> None:
    again = {"count": 1, "requeueAt": "2026-11-24T12:05:00Z"}
    message = "Exceeded the PodsReady timeout vision/w"
    workload(cluster, state("Evicted", "True", "PodsReadyTimeout", message), requeueState=again)
    reason = f"{message}; it is queued again at 2026-11-24T12:05:00Z"
    check(cluster.explain("train"), "suspended-by-kueue", "kept its pods from running", reason=reason)


@pytest.mark.parametrize("message", ["LocalQueue local doesn't exist", "ClusterQueue vision is inactive"])
def test_no_quota_of_a_missing_or_stopped_queue_becomes_free(message: str, cluster: Cluster) -> None:
    workload(cluster, state("QuotaReserved", "False", "Inadmissible", message))
    found = cluster.explain("train")
    check(found, "suspended-by-kueue", "kubectl get localqueues -n vision", reason=message)
    assert "wait" not in found.fix


def test_kueue_waits_for_admission_checks_after_it_has_reserved_quota(cluster: Cluster) -> None:
    checks = [
        {"name": "east", "state": "Ready", "message": "connected"},
        {"name": "provision", "state": "Pending", "message": "waiting for nodes"},
    ]
    workload(cluster, state("QuotaReserved", "True", message="Quota reserved in vision"), admissionChecks=checks)
    reason = "its quota is reserved, and admission check provision is Pending: waiting for nodes"
    check(cluster.explain("train"), "suspended-by-kueue", "wait for the admission check", reason=reason)


def test_kueue_admitted_it_and_does_not_resume_it(cluster: Cluster) -> None:
    """Kueue resumes what it has admitted, so no person keeps it suspended (kueue#11931)."""
    workload(cluster, state("Admitted", "True"))
    found = cluster.explain("train")
    check(found, "suspended-by-kueue", "patch trainjob train -n vision --type merge --dry-run=server", workload="w")
    assert "has admitted it, and not resumed it" in found.message
    assert len(found.causes) == 1
    job = cluster.find("TrainJob", "train")
    job["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    assert cluster.causes("train") == ["managed-elsewhere"]


def test_managed_by_another_controller(cluster: Cluster) -> None:
    job = cluster.job("train", managedBy="kueue.x-k8s.io/multikueue")
    cluster.without(job.job_set, job.job, job.pod_group, *job.pods)
    check(cluster.explain("train"), "managed-elsewhere", "kueue", manager="kueue.x-k8s.io/multikueue")
    job.train_job["spec"]["managedBy"] = "trainer.kubeflow.org/trainjob-controller"
    assert cluster.causes("train") == []


ENDS = {
    "DeadlineExceeded": ("deadline-exceeded", "activeDeadlineSeconds"),
    "JobSetMissing": ("job-set-deleted", "create it again"),
    "TrainingRuntimeNotSupported": ("runtime-not-supported", "ClusterTrainingRuntime"),
    "FailedJobs": ("job-failed", "kubectl logs"),
}


@pytest.mark.parametrize(("reason", "cause"), [(reason, ENDS[reason]) for reason in ENDS])
def test_failed_job(reason: str, cause: tuple[str, str], cluster: Cluster) -> None:
    job = cluster.job("train", activeDeadlineSeconds=60)
    job.train_job["status"] = ended("Failed", reason, "it ended")
    found = cluster.explain("train")
    check(found, *cause)
    assert (found.state, len(found.causes)) == (ExplainedState.FAILED, 1)


def test_exit_code_of_a_failed_job(cluster: Cluster) -> None:
    job = cluster.job("train")
    job.train_job["status"] = ended("Failed", "FailedJobs")
    state = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    job.pods[1]["status"] = {"phase": "Failed", "containerStatuses": [{"name": "node", "state": state}]}
    found = cluster.explain("train")
    check(found, "job-failed", "kubectl logs -n vision train-node-0-1")
    assert "exit code 137 (OOMKilled)" in found.message


def test_job_that_is_complete_needs_no_cause(cluster: Cluster) -> None:
    cluster.job("train").train_job["status"] = ended("Complete", "AllJobsCompleted")
    found = cluster.explain("train")
    assert (found.state, found.cause, found.fix) == (ExplainedState.COMPLETE, None, "")


def test_unknown_cause_names_what_was_looked_at(cluster: Cluster) -> None:
    cluster.job("train")
    found = cluster.explain("train")
    assert found.cause == UNKNOWN
    assert "none of the known causes applies" in found.message
    steps = ["TrainJob", "runtime", "admission", "JobSet", "Jobs", "PodGroup", "queue", "nodes", "pods", "events"]
    assert [link.step for link in found.chain] == steps
    assert all(step in found.message for step in steps)
    assert "trainyard snapshot save" in found.fix


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("DeadlineExceeded", "deadline-exceeded"),
        ("ReachedMaxRestarts", "restarts-exhausted"),
        ("JobSetMissing", "job-set-deleted"),
        ("TrainingRuntimeNotSupported", "runtime-not-supported"),
        ("FailedJobs", "job-failed"),
    ],
)
def test_how_a_job_failed_has_one_cause(reason: str, cause: str, cluster: Cluster) -> None:
    causes = {"deadline-exceeded", "restarts-exhausted", "job-set-deleted", "runtime-not-supported", "job-failed"}
    job = cluster.job("train")
    cluster.without(*job.pods)
    job.train_job["status"] = ended("Failed", reason)
    assert causes & set(cluster.causes("train")) == {cause}
    job.train_job["status"] = {"conditions": [{**job.train_job["status"]["conditions"][0], "status": "False"}]}
    assert not causes & set(cluster.causes("train"))


REJECTED = {
    "phase": "Failed",
    "reason": "UnexpectedAdmissionError",
    "message": "Pod Allocate failed due to no healthy devices present",
}
REASON = "UnexpectedAdmissionError: Pod Allocate failed due to no healthy devices present"


def test_pods_that_their_nodes_reject_are_lost_members(cluster: Cluster) -> None:
    """After a reboot, a node rejects pods until its devices are there (kubernetes#125579); they have no containers."""
    job = cluster.job("train", nodes=cluster.names[:2])
    for pod in job.pods:
        pod["status"] = dict(REJECTED)
    found = cluster.explain("train")
    check(found, "gang-restarting", "ask the platform team about rack-0-node-0", restarts=0)
    assert f"pod train-node-0-0 failed ({REASON})" in found.message
    job.job_set["status"]["restarts"] = 1
    check(cluster.explain("train"), "gang-restarting", "ask the platform team about rack-0-node-0", restarts=1)
    for pod in job.pods:
        pod["status"] = {"phase": "Running"}
    job.job_set["status"]["restarts"] = 0
    assert cluster.causes("train") == []


def test_a_failed_job_names_pods_that_their_nodes_rejected_and_no_log(cluster: Cluster) -> None:
    job = cluster.job("train", nodes=cluster.names[:2])
    job.train_job["status"] = ended("Failed", "FailedJobs")
    state = {"terminated": {"exitCode": 137, "reason": "Error"}}
    for pod in job.pods:
        pod["status"] = {**REJECTED, "containerStatuses": [{"name": "node", "state": state}]}
    found = cluster.explain("train")
    check(found, "job-failed", "ask the platform team about rack-0-node-0; then delete the job")
    assert f"pod train-node-0-0 failed ({REASON})" in found.message
    assert "kubectl logs" not in found.fix
    job.pods[0]["status"] |= {"reason": "DeadlineExceeded", "message": ""}
    check(cluster.explain("train"), "job-failed", "use a longer activeDeadlineSeconds")


def test_an_init_container_that_failed_is_named_with_its_log(cluster: Cluster) -> None:
    job = cluster.job("train", nodes=cluster.names[:2])
    job.train_job["status"] = ended("Failed", "FailedJobs")
    fetch = {"name": "fetch", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}
    done = {"name": "check", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
    for pod in job.pods:
        pod["status"] = {"phase": "Failed", "initContainerStatuses": [done, fetch], "containerStatuses": waiting("")}
    found = cluster.explain("train")
    check(found, "job-failed", "kubectl logs -n vision train-node-0-0 -c fetch`")
    assert "init container fetch of pod train-node-0-0 ended with exit code 3 (Error)" in found.message


def test_an_initializer_that_its_node_rejected_has_no_log(cluster: Cluster) -> None:
    job = with_initializer(cluster, failed=1)
    job.pods[0]["status"] = dict(REJECTED)
    found = cluster.explain("train")
    check(found, "initializer-failed", "ask the platform team about", ended=f", last with {REASON}")
    assert "kubectl logs" not in found.fix
