"""Causes in admission: what webhooks, policies and quotas reject, each beside a near miss."""

from __future__ import annotations

import pytest

from tests.explain.recorded_clusters import Cluster, body, check, minutes_ago

CORE = "v1"


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


def test_denial_of_an_earlier_state_is_no_cause(cluster: Cluster) -> None:
    job = cluster.job("train")
    cluster.event(job.train_job, "PolicyDenied", "TrainJob resources reconciliation failed: ACC-002 too many")
    assert cluster.causes("train") == []


def test_policy_server_without_an_answer() -> None:
    found = refused("POL-000 no decision: the policy server did not answer within 2 s").explain("train")
    check(found, "policy-server-away", "policy server")


def test_the_condition_is_read_when_the_events_are_gone(cluster: Cluster) -> None:
    job = cluster.job("train")
    cluster.without(job.job_set, job.job, job.pod_group, *job.pods)
    message = "JobSet train exists and has no owner, so this TrainJob cannot use it"
    blocked = {"type": "Blocked", "status": "True", "reason": "TrainJobResourcesCreationFailed", "message": message}
    job.train_job["status"] = {"conditions": [blocked]}
    check(cluster.explain("train"), "creation-failed", "change what the message names", reason=message)
    blocked["status"] = "False"
    assert "creation-failed" not in cluster.causes("train")


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


def test_full_quota_whose_pods_exist_is_no_cause(cluster: Cluster) -> None:
    job = cluster.job("train")
    cluster.event(job.job, "FailedCreate", "exceeded quota: tenant, requested: pods=1, used: pods=9, limited: pods=9")
    status = {"hard": {"pods": "9"}, "used": {"pods": "9"}}
    cluster.bodies.append(body(CORE, "ResourceQuota", "tenant", "vision", spec={}, status=status))
    assert cluster.causes("train") == []


@pytest.mark.parametrize("message", ["image digest: expected SHA-256, got ISO-860", "created by SHA-256: no"])
def test_words_that_look_like_rules_are_none(message: str) -> None:
    found = refused(message).explain("train")
    check(found, "creation-failed", "but no quotas, other objects or webhooks")
    assert message in found.message


def test_objects_that_cannot_be_created() -> None:
    found = refused("spec.trainer.numNodes: 0 is less than 1").explain("train")
    check(found, "creation-failed", "but no quotas, other objects or webhooks")
    assert "spec.trainer.numNodes: 0 is less than 1" in found.message


def test_event_about_an_earlier_object_of_the_name_is_no_cause() -> None:
    cluster = refused("spec.trainer.numNodes: 0 is less than 1")
    cluster.find("TrainJob", "train")["metadata"]["uid"] = "new"
    next(each for each in cluster.bodies if each["kind"] == "Event")["involvedObject"]["uid"] = "old"
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
def test_rejections_before_the_objects_were_created_are_no_cause(message: str, cluster: Cluster) -> None:
    job = cluster.job("train")
    cluster.event(job.train_job, "TrainJobResourcesCreationFailed", message)
    cluster.event(job.job, "FailedCreate", message)
    assert cluster.causes("train") == []


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
