"""Causes in pods, initializers, restarts, admission, platform, runtimes and suspension, each beside a near miss."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.explain.recorded_clusters import NOW, PROGRAMS, Cluster, Job, body, check, ended, minutes_ago, owner
from trainyard.api.constants import JOB_SET_NAME_LABEL
from trainyard.explain import State, explain, observed_of_text
from trainyard.explain.explanation import UNKNOWN

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


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"])
def test_image_that_cannot_be_pulled(reason: str) -> None:
    cluster = Cluster()
    placed(cluster, containerStatuses=waiting(reason, "manifest unknown"))
    found = cluster.explain("train")
    check(found, "image-pull", "pull secret", count=2, pods=2, image="train:1", reason=reason)
    assert found.state is State.STARTING


def test_pods_are_counted_whose_images_cannot_be_pulled() -> None:
    cluster = Cluster()
    first = waiting("ErrImagePull")
    both = [*first, {**first[0], "name": "log", "image": "log:2"}]
    job = placed(cluster, containerStatuses=both)
    job.pods[1]["status"]["containerStatuses"] = []
    check(cluster.explain("train"), "image-pull", "correct the image", count=1, pods=2, image="train:1, log:2")


def test_container_that_is_being_created_is_no_failed_pull() -> None:
    cluster = Cluster()
    placed(cluster, containerStatuses=waiting("ContainerCreating"))
    found = cluster.explain("train")
    assert (found.causes, found.state, found.cause) == ((), State.STARTING, None)


def test_container_that_cannot_be_created() -> None:
    cluster = Cluster()
    placed(cluster, containerStatuses=waiting("CreateContainerConfigError", 'secret "token" not found'))
    found = cluster.explain("train")
    check(found, "container-configuration", "namespace vision", container="node", pod="train-node-0-0")


def crash(code: int, restarts: int) -> list[dict[str, Any]]:
    last = {"terminated": {"exitCode": code, "reason": "OOMKilled"}}
    return [{**waiting("CrashLoopBackOff")[0], "restartCount": restarts, "lastState": last}]


def test_container_that_ends_again_and_again() -> None:
    cluster = Cluster()
    placed(cluster, containerStatuses=crash(137, 4))
    found = cluster.explain("train")
    check(found, "container-crash", "--previous", code=137, restarts=4, reason="OOMKilled", pod="train-node-0-0")


def test_container_that_runs_again_is_no_crash() -> None:
    cluster = Cluster()
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


def test_missing_claim() -> None:
    cluster = Cluster()
    cluster.job("train").everywhere(volumes=VOLUMES)
    check(cluster.explain("train"), "volume-missing", "correct claimName", claim="datasets", namespace="vision")


def test_pending_claim() -> None:
    cluster = Cluster()
    cluster.job("train").everywhere(volumes=VOLUMES)
    cluster.event(claim(cluster, "Pending"), "ProvisioningFailed", 'storageclass "fast" not found')
    found = cluster.explain("train")
    check(found, "volume-pending", "another storage class", claim="datasets", storage_class="fast")
    assert 'storageclass "fast" not found' in found.message


def test_bound_claim_and_one_that_waits_for_the_pods() -> None:
    cluster = Cluster()
    cluster.job("train").everywhere(volumes=VOLUMES)
    found = claim(cluster, "Bound")
    assert cluster.causes("train") == []
    found["status"]["phase"] = "Pending"
    cluster.event(found, "WaitForFirstConsumer", "waiting for first consumer to be created before binding", "Normal")
    assert cluster.causes("train") == []
    cluster.event(found, "WaitForPodScheduled", "waiting for pod train-node-0-0 to be scheduled", "Normal")
    assert cluster.causes("train") == []


def test_volume_that_cannot_be_mounted() -> None:
    cluster = Cluster()
    job = placed(cluster)
    cluster.event(job.pods[0], "FailedMount", 'secret "keys" not found')
    check(cluster.explain("train"), "volume-mount", "create what is missing", pod="train-node-0-0")
    for pod in job.pods:
        pod["status"]["phase"] = "Running"
    assert cluster.causes("train") == []


def test_scheduling_gates() -> None:
    cluster = Cluster()
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


def test_initializer_that_runs() -> None:
    cluster = Cluster()
    with_initializer(cluster)
    found = cluster.explain("train")
    check(found, "initializer-running", "kubectl logs -n vision", initializers=["dataset-initializer"])
    assert found.state is State.WAITING
    assert len(found.causes) == 1


def unplaced(job: Job, **spec: Any) -> None:
    job.pods[0]["status"] = {"phase": "Pending"}
    job.pods[0]["spec"] = {"schedulerName": "volcano", "containers": [{"name": "c"}], **spec}


@pytest.mark.parametrize(
    "cause", ["image-pull", "volume-missing", "node-selector-unmatched", "node-too-small", "scheduler-not-running"]
)
def test_what_keeps_the_initializer_from_running_comes_first(cause: str) -> None:
    cluster = Cluster()
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


def test_the_gang_behind_an_initializer_is_no_cause() -> None:
    cluster = Cluster()
    job = with_initializer(cluster)
    job.job_set["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"gpu": "h200"}
    assert cluster.causes("train") == ["initializer-running"]


def test_initializer_that_failed() -> None:
    cluster = Cluster()
    job = with_initializer(cluster, failed=1)
    state = {"terminated": {"exitCode": 3, "reason": "Error"}}
    job.pods[0]["status"] = {"phase": "Failed", "containerStatuses": [{"name": "c", "state": state}]}
    found = cluster.explain("train")
    check(found, "initializer-failed", "storageUri", times=1, initializer="dataset-initializer")
    assert "exit code 3 (Error)" in found.message


def test_initializer_that_succeeded() -> None:
    cluster = Cluster()
    job = with_initializer(cluster, succeeded=1)
    job.job_set["status"]["replicatedJobsStatus"] = [{"name": "dataset-initializer", "succeeded": 1}]
    assert not {"initializer-running", "initializer-failed"} & set(cluster.causes("train"))


def test_gang_that_lost_a_member_and_restarts() -> None:
    cluster = Cluster()
    job = cluster.job("train", pods=2)
    job.job_set["status"]["restarts"] = 2
    job.job_set["spec"]["failurePolicy"] = {"maxRestarts": 3}
    gone = body(CORE, "Pod", "train-node-0-1", "vision")
    cluster.event(gone, "Evict", "Pod is evicted, because of reclaim")
    found = cluster.explain("train")
    check(found, "gang-restarting", "request within the share", restarts=2, bound=" of at most 3")
    assert "pod train-node-0-1 was evicted" in found.message


def test_an_eviction_in_another_namespace_is_no_reason_of_a_restart() -> None:
    cluster = Cluster()
    cluster.job("train").job_set["status"]["restarts"] = 2
    other = cluster.job("train", "language")
    cluster.event(other.pods[0], "Evict", "Pod is evicted, because of reclaim")
    assert "its events are gone" in cluster.explain("train").message


def test_gang_that_restarted_and_runs_again() -> None:
    cluster = Cluster()
    job = cluster.job("train", nodes=cluster.names[:2])
    job.job_set["status"]["restarts"] = 2
    job.job_set["spec"]["failurePolicy"] = {"maxRestarts": 3}
    cluster.event(body(CORE, "Pod", "train-node-0-1", "vision"), "Evict", "Pod is evicted, because of reclaim")
    found = cluster.explain("train")
    check(found, "gang-restarted", "request within the share", restarts=2, bound=" of at most 3")
    assert (found.state, len(found.causes)) == (State.RUNNING, 1)
    assert "pod train-node-0-1 was evicted" in found.message
    job.job_set["status"]["restarts"] = 0
    assert cluster.causes("train") == []


def test_the_last_reason_of_a_restart_is_the_newest() -> None:
    cluster = Cluster()
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


def test_an_eviction_of_another_job_is_no_restart() -> None:
    cluster = Cluster()
    cluster.job("train")
    cluster.event(body(CORE, "Pod", "other-node-0-1", "vision"), "Evict", "because of reclaim")
    assert cluster.causes("train") == []


def test_restarts_are_exhausted() -> None:
    cluster = Cluster()
    job = cluster.job("train")
    cluster.without(*job.pods)
    job.train_job["status"] = ended("Failed", "ReachedMaxRestarts")
    job.job_set["status"] = {"restarts": 3}
    job.job["status"] = ended("Failed", "BackoffLimitExceeded", "it failed")
    found = cluster.explain("train")
    check(found, "restarts-exhausted", "higher maxRestarts", restarts=3)
    assert "BackoffLimitExceeded" in found.message
    assert found.state is State.FAILED


def refused(message: str, reason: str = "TrainJobResourcesCreationFailed") -> Cluster:
    """Return a cluster with a TrainJob for which nothing is created."""
    cluster = Cluster()
    job = cluster.job("train")
    cluster.without(job.job_set, job.job, job.pod_group, *job.pods)
    return cluster.event(job.train_job, reason, f"TrainJob resources reconciliation failed: {message}")


def test_policy_that_denies() -> None:
    message = "ACC-002 JobSet train spec.replicatedJobs[0].template[a/b]: 40 accelerators exceed the limit of 32"
    found = refused(message, "PolicyDenied").explain("train")
    check(found, "policy-denied", "ask the platform team about rule ACC-002", rule="ACC-002")
    assert found.causes[0].numbers["field"] == "spec.replicatedJobs[0].template[a/b]"
    assert found.causes[0].numbers["reason"] == "40 accelerators exceed the limit of 32"


def test_denial_of_an_earlier_state_is_no_cause() -> None:
    cluster = Cluster()
    job = cluster.job("train")
    cluster.event(job.train_job, "PolicyDenied", "TrainJob resources reconciliation failed: ACC-002 too many")
    assert cluster.causes("train") == []


def test_policy_server_without_an_answer() -> None:
    found = refused("POL-000 no decision: the policy server did not answer within 2 s").explain("train")
    check(found, "policy-server-away", "policy server")


def creation(message: str) -> Cluster:
    """Return a cluster with a Job whose pods are rejected."""
    cluster = Cluster()
    job = cluster.job("train")
    return cluster.without(*job.pods).event(job.job, "FailedCreate", f"Error creating: {message}")


def running_with_one_pod(message: str, minutes: int) -> Cluster:
    """Return a cluster with an elastic job that runs with one of two pods, and an earlier rejection."""
    cluster = Cluster()
    job = cluster.job("train", nodes=cluster.names[:2])
    job.pod_group["spec"]["minMember"] = 1
    cluster.without(job.pods[1]).event(job.job, "FailedCreate", f"Error creating: {message}")
    cluster.bodies[-1]["lastTimestamp"] = minutes_ago(minutes)
    return cluster


QUOTA = 'pods "x" is forbidden: exceeded quota: tenant, requested: pods=1, used: pods=9, limited: pods=9'


def test_a_rejection_before_the_newest_pod_was_created_is_no_cause() -> None:
    cluster = running_with_one_pod(QUOTA, minutes=1)
    check(cluster.explain("train"), "quota-exceeded", "larger quota", quota="tenant")
    assert running_with_one_pod(QUOTA, minutes=11).causes("train") == []  # the pods are ten minutes old


def test_a_rejection_that_is_not_repeated_is_no_cause_of_a_running_job() -> None:
    cluster = running_with_one_pod(QUOTA, minutes=16)
    for each in cluster.bodies:
        each["metadata"].pop("creationTimestamp", None)
    assert cluster.causes("train") == []


def test_pods_that_succeeded_and_are_gone_are_not_missing() -> None:
    cluster = running_with_one_pod(QUOTA, minutes=1)
    cluster.find("Job", "train-node-0")["status"]["succeeded"] = 1
    assert cluster.causes("train") == []


def test_webhook_without_an_answer() -> None:
    cluster = creation(
        'Internal error occurred: failed calling webhook "validatepod.volcano.sh": failed to call webhook: Post "https://'
        'volcano-admission:443/pods/validate": dial tcp 10.0.0.7:443: connect: connection refused'
    )
    check(cluster.explain("train"), "webhook-away", "look at the Deployment", webhook="validatepod.volcano.sh")


def test_webhook_that_rejects() -> None:
    cluster = creation('admission webhook "validatepod.volcano.sh" denied the request: queue is not open')
    found = cluster.explain("train")
    check(found, "webhook-rejected", "change what the message names", webhook="validatepod.volcano.sh")
    assert "queue is not open" in found.message


def test_admission_policy_that_denies_pods() -> None:
    cluster = creation(
        "pods \"x\" is forbidden: ValidatingAdmissionPolicy 'pod-004' with binding 'pod-004' denied request: "
        "POD-004 spec.hostNetwork: the host network is not allowed"
    )
    check(cluster.explain("train"), "policy-denied", "POD-004", rule="POD-004", field="spec.hostNetwork")


def test_object_quota() -> None:
    cluster = creation(
        'pods "x" is forbidden: exceeded quota: tenant, requested: pods=1, used: pods=9, limited: pods=9'
    )
    numbers = {"quota": "tenant", "requested": "pods=1", "used": "pods=9", "limited": "pods=9", "namespace": "vision"}
    check(cluster.explain("train"), "quota-exceeded", "larger quota", **numbers)


def test_quota_that_is_not_counted() -> None:
    cluster = creation('pods "x" is forbidden: status unknown for quota: tenant, resources: pods')
    check(cluster.explain("train"), "quota-not-counted", "five minutes", quota="tenant")


def test_full_quota_whose_pods_exist_is_no_cause() -> None:
    cluster = Cluster()
    job = cluster.job("train")
    cluster.event(job.job, "FailedCreate", "exceeded quota: tenant, requested: pods=1, used: pods=9, limited: pods=9")
    status = {"hard": {"pods": "9"}, "used": {"pods": "9"}}
    cluster.bodies.append(body(CORE, "ResourceQuota", "tenant", "vision", spec={}, status=status))
    assert cluster.causes("train") == []


@pytest.mark.parametrize("message", ["image digest: expected SHA-256, got ISO-860", "created by SHA-256: no"])
def test_words_that_look_like_rules_are_none(message: str) -> None:
    found = refused(message).explain("train")
    check(found, "creation-failed", "trainyard render")
    assert message in found.message


def test_objects_that_cannot_be_created() -> None:
    found = refused("spec.trainer.numNodes: 0 is less than 1").explain("train")
    check(found, "creation-failed", "trainyard render")
    assert "spec.trainer.numNodes: 0 is less than 1" in found.message


def test_event_about_an_earlier_object_of_the_name_is_no_cause() -> None:
    cluster = refused("spec.trainer.numNodes: 0 is less than 1")
    cluster.find("TrainJob", "train")["metadata"]["uid"] = "new"
    next(each for each in cluster.bodies if each["kind"] == "Event")["involvedObject"]["uid"] = "old"
    assert cluster.causes("train") == []


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


def test_program_of_another_name_that_renews_its_lease_runs() -> None:
    """A chart names Deployments after its release; the Lease has the same name in each."""
    cluster = Cluster()
    cluster.without(cluster.find("Deployment", "volcano-scheduler"))
    lease(cluster, "vc-scheduler", minutes_ago(0))
    cluster.job("train")
    assert cluster.causes("train") == []
    lease(cluster, "trainer.kubeflow.org", minutes_ago(-5))
    check(cluster.explain("train"), "scheduler-not-running", "", state="it does not exist")


def test_a_file_of_some_deployments_says_nothing_about_others() -> None:
    cluster = Cluster()
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


def test_an_aborted_volcano_job_can_be_resumed() -> None:
    cluster = Cluster()
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


def test_message_of_an_earlier_session_is_no_cause() -> None:
    cluster = Cluster()
    job = cluster.job("train", nodes=cluster.names[:2])
    job.pod_group["status"]["conditions"] = [{"type": "Unschedulable", "status": "True", "message": "2/2 tasks"}]
    assert cluster.causes("train") == []


@pytest.mark.parametrize(
    "message",
    [
        "POL-000 no decision",
        'failed calling webhook "a.b.c": connection refused',
        'admission webhook "a.b.c" denied the request: no',
        "status unknown for quota: tenant, resources: pods",
    ],
)
def test_rejections_before_the_objects_were_created_are_no_cause(message: str) -> None:
    cluster = Cluster()
    job = cluster.job("train")
    cluster.event(job.train_job, "TrainJobResourcesCreationFailed", message)
    cluster.event(job.job, "FailedCreate", message)
    assert cluster.causes("train") == []


def test_missing_runtime() -> None:
    cluster = Cluster()
    job = cluster.job("train")
    job.train_job["spec"]["runtimeRef"]["name"] = "torch"
    assert cluster.causes("train") == []  # the JobSet was created from it
    cluster.without(job.job_set, job.job, job.pod_group, *job.pods)
    found = cluster.explain("train")
    check(found, "runtime-missing", "torch-distributed-gang", name="torch", kind="ClusterTrainingRuntime")


def test_runtime_of_the_namespace() -> None:
    cluster = Cluster()
    job = cluster.job("train")
    cluster.without(job.job_set, job.job, job.pod_group, *job.pods)
    job.train_job["spec"]["runtimeRef"] = {"name": "own", "kind": "TrainingRuntime"}
    check(cluster.explain("train"), "runtime-missing", "own", kind="TrainingRuntime")
    cluster.bodies.append(body("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", "own", "vision"))
    assert cluster.causes("train") == []


def test_deprecated_runtime() -> None:
    cluster = Cluster()
    cluster.job("train")
    metadata = cluster.find("ClusterTrainingRuntime", "torch-distributed-gang")["metadata"]
    metadata["labels"] = {"trainer.kubeflow.org/support": "deprecated"}
    metadata["annotations"] = {"trainyard.dev/remove-after": "2027-01-31"}
    found = cluster.explain("train")
    check(found, "runtime-deprecated", "trainyard runtimes list", removal=" and is removed after 2027-01-31")


def test_suspended_by_a_person() -> None:
    cluster = Cluster()
    job = cluster.job("train", suspend=True)
    cluster.without(*job.pods)
    found = cluster.explain("train")
    check(found, "suspended-by-user", "kubectl patch trainjob train -n vision", since=minutes_ago(10))
    assert found.state is State.SUSPENDED
    job.train_job["spec"]["suspend"] = False
    assert "suspended-by-user" not in cluster.causes("train")


def workload(cluster: Cluster, **condition: str) -> None:
    metadata = {"ownerReferences": owner("trainjob", "train")}
    status = {"conditions": [condition]}
    cluster.bodies.append(body("kueue.x-k8s.io/v1beta2", "Workload", "w", "vision", metadata=metadata, status=status))


def test_suspended_by_kueue() -> None:
    cluster = Cluster()
    job = cluster.job("train", suspend=True)
    cluster.without(*job.pods)
    job.train_job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "local"}
    workload(cluster, type="QuotaReserved", status="False", message="insufficient quota")
    found = cluster.explain("train")
    check(
        found, "suspended-by-kueue", "kubectl describe workload w -n vision", queue="local", reason="insufficient quota"
    )
    assert len(found.causes) == 1


def test_suspended_by_a_person_though_kueue_admitted_it() -> None:
    cluster = Cluster()
    job = cluster.job("train", suspend=True)
    cluster.without(*job.pods)
    job.train_job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "local"}
    workload(cluster, type="Admitted", status="True")
    assert cluster.causes("train") == ["suspended-by-user"]


def test_managed_by_another_controller() -> None:
    cluster = Cluster()
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
def test_failed_job(reason: str, cause: tuple[str, str]) -> None:
    cluster = Cluster()
    job = cluster.job("train", activeDeadlineSeconds=60)
    job.train_job["status"] = ended("Failed", reason, "it ended")
    found = cluster.explain("train")
    check(found, *cause)
    assert (found.state, len(found.causes)) == (State.FAILED, 1)


def test_exit_code_of_a_failed_job() -> None:
    cluster = Cluster()
    job = cluster.job("train")
    job.train_job["status"] = ended("Failed", "FailedJobs")
    state = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    job.pods[1]["status"] = {"phase": "Failed", "containerStatuses": [{"name": "node", "state": state}]}
    found = cluster.explain("train")
    check(found, "job-failed", "kubectl logs -n vision train-node-0-1")
    assert "exit code 137 (OOMKilled)" in found.message


def test_job_that_is_complete_needs_no_cause() -> None:
    cluster = Cluster()
    cluster.job("train").train_job["status"] = ended("Complete", "AllJobsCompleted")
    found = cluster.explain("train")
    assert (found.state, found.cause, found.fix) == (State.COMPLETE, None, "")


def test_unknown_cause_names_what_was_looked_at() -> None:
    cluster = Cluster()
    cluster.job("train")
    found = cluster.explain("train")
    assert found.cause == UNKNOWN
    assert "none of the known causes applies" in found.message
    steps = ["TrainJob", "runtime", "admission", "JobSet", "Jobs", "PodGroup", "queue", "nodes", "pods", "events"]
    assert [link.step for link in found.chain] == steps
    assert all(step in found.message for step in steps)
    assert "trainyard snapshot save" in found.fix


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ('failed calling webhook "validatepod.volcano.sh": connection refused', "webhook-away"),
        ('admission webhook "validatepod.volcano.sh" denied the request: queue is not open', "webhook-rejected"),
        ('pods "x" is forbidden: status unknown for quota: tenant, resources: pods', "quota-not-counted"),
        ("POL-000 no decision: the policy server did not answer within 2 s", "policy-server-away"),
        ("spec.trainer.numNodes: 0 is less than 1", "creation-failed"),
    ],
)
def test_a_refusal_after_which_everything_was_created_is_no_cause(message: str, cause: str) -> None:
    cluster = creation(message) if "POL-000" not in message else refused(message)
    assert cluster.causes("train")[0] == cause
    cluster = Cluster()
    job = cluster.job("train")
    for each in (job.train_job, job.job_set, job.job):
        cluster.event(each, "FailedCreate", message)
    assert cluster.causes("train") == []


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
def test_how_a_job_failed_has_one_cause(reason: str, cause: str) -> None:
    causes = {"deadline-exceeded", "restarts-exhausted", "job-set-deleted", "runtime-not-supported", "job-failed"}
    cluster = Cluster()
    job = cluster.job("train")
    cluster.without(*job.pods)
    job.train_job["status"] = ended("Failed", reason)
    assert causes & set(cluster.causes("train")) == {cause}
    job.train_job["status"] = {"conditions": [{**job.train_job["status"]["conditions"][0], "status": "False"}]}
    assert not causes & set(cluster.causes("train"))
