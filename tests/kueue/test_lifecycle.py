"""Jobs that Kueue admits, keeps waiting, preempts, evicts and places, on the whole platform."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import LiveCluster, awaited, require

pytestmark = pytest.mark.cluster

QUEUE, PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
RACK = "topology.trainyard.dev/rack"
LONG = {"trainyard.dev/simulated-duration": "1h"}
NAMESPACE = "vision"


def job(
    name: str,
    *,
    nodes: int = 2,
    runtime: str = "torch-distributed",
    queue: str | None = "training",
    priority: str | None = None,
    annotations: dict[str, str] | None = None,
    pod: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a TrainJob of eight GPUs a node; annotations and pod change its pods."""
    amount = {"nvidia.com/gpu": "8", "cpu": "4", "memory": "16Gi"}
    labels = {QUEUE: queue, PRIORITY: priority}
    override = {
        "targetJobs": [{"name": "node"}],
        **({"metadata": {"annotations": annotations}} if annotations else {}),
        **({"spec": pod} if pod else {}),
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {key: value for key, value in labels.items() if value},
        },
        "spec": {
            "runtimeRef": {"name": runtime},
            "trainer": {
                "numNodes": nodes,
                "command": ["torchrun", "-m", "train"],
                "resourcesPerNode": {"requests": amount, "limits": amount},
            },
            **({"podTemplateOverrides": [override]} if annotations or pod else {}),
        },
    }


@pytest.fixture
def submit(kueue_platform: LiveCluster) -> Iterator[Any]:
    """Submit TrainJobs, and delete them after the test."""
    names: list[str] = []

    def create(*bodies: dict[str, Any]) -> None:
        names.extend(body["metadata"]["name"] for body in bodies)
        require(kueue_platform.apply(*bodies))

    yield create
    kueue_platform.kubectl("delete", "trainjobs", *names, "-n", NAMESPACE, "--ignore-not-found")
    awaited("the Workloads to go", lambda: not {workload_owner(each) for each in workloads(kueue_platform)} & {*names})


def workloads(platform: LiveCluster) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = platform.get("workloads.kueue.x-k8s.io", "-n", NAMESPACE)["items"]
    return items


def workload_owner(body: dict[str, Any]) -> str:
    return str(body["metadata"]["ownerReferences"][0]["name"])


def workload(platform: LiveCluster, name: str) -> dict[str, Any]:
    """Return the Workload of a job."""
    return awaited(
        f"the Workload of {name}",
        lambda: next((each for each in workloads(platform) if workload_owner(each) == name), None),
    )


def condition(platform: LiveCluster, name: str, kind: str, status: str = "True") -> dict[str, Any]:
    """Wait for a condition of the Workload of a job."""

    def probe() -> dict[str, Any] | None:
        conditions = workload(platform, name).get("status", {}).get("conditions", [])
        return next((each for each in conditions if (each["type"], each["status"]) == (kind, status)), None)

    return awaited(f"condition {kind}={status} of the Workload of {name}", probe, timeout=60)


def suspended(platform: LiveCluster, name: str) -> bool:
    return bool(platform.get("trainjob", name, "-n", NAMESPACE)["spec"].get("suspend"))


def running(platform: LiveCluster, name: str, pods: int) -> list[dict[str, Any]]:
    """Wait until a job has its pods on nodes, and return them."""

    def placed() -> list[dict[str, Any]] | None:
        found = platform.pods(name, NAMESPACE)
        return found if len(found) == pods and all(pod["spec"].get("nodeName") for pod in found) else None

    return awaited(f"{pods} pods of {name} on nodes", placed, timeout=60)


def used(platform: LiveCluster, queue: str = "vision") -> int:
    """Return the GPUs of the admitted jobs of a ClusterQueue."""
    status = platform.get("clusterqueue", queue).get("status", {})
    amounts = [
        each["total"]
        for flavor in status.get("flavorsUsage", [])
        for each in flavor["resources"]
        if each["name"] == "nvidia.com/gpu"
    ]
    return sum(map(int, amounts))


def test_a_job_is_suspended_at_creation_admitted_and_completes(kueue_platform: LiveCluster, submit: Any) -> None:
    submit(job("admitted"))
    found = workload(kueue_platform, "admitted")
    assert [(each["name"], each["count"]) for each in found["spec"]["podSets"]] == [("node", 2)]
    condition(kueue_platform, "admitted", "Admitted")
    kueue_platform.condition("admitted", NAMESPACE, "Complete")
    assert condition(kueue_platform, "admitted", "Finished")["reason"] == "Succeeded"
    assert len(kueue_platform.pods("admitted", NAMESPACE)) == 2


def test_a_job_of_volcanos_tenant_is_not_kueues(kueue_platform: LiveCluster) -> None:
    body = job("other", queue=None)
    body["metadata"]["namespace"] = "language"
    require(kueue_platform.apply(body))
    kueue_platform.condition("other", "language", "Complete")
    assert kueue_platform.get("workloads.kueue.x-k8s.io", "-n", "language")["items"] == []


def test_a_job_beyond_the_quota_waits_and_never_gets_a_part_of_it(kueue_platform: LiveCluster, submit: Any) -> None:
    submit(job("first", nodes=3, annotations=LONG))
    running(kueue_platform, "first", 3)
    submit(job("second"), job("huge", nodes=5))
    pending = condition(kueue_platform, "second", "QuotaReserved", "False")
    assert "nvidia.com/gpu" in pending["message"]
    condition(kueue_platform, "huge", "QuotaReserved", "False")
    assert not any("minCount" in each for each in workload(kueue_platform, "huge")["spec"]["podSets"])
    assert suspended(kueue_platform, "second")
    assert kueue_platform.pods("second", NAMESPACE) == []
    require(kueue_platform.kubectl("delete", "trainjob", "first", "-n", NAMESPACE))
    kueue_platform.condition("second", NAMESPACE, "Complete")
    assert suspended(kueue_platform, "huge")


def test_an_urgent_job_preempts_and_the_preempted_one_resumes(kueue_platform: LiveCluster, submit: Any) -> None:
    submit(job("lower", nodes=3, priority="ordinary", annotations=LONG))
    before = {pod["metadata"]["uid"] for pod in running(kueue_platform, "lower", 3)}
    submit(job("urgent", nodes=2, priority="urgent"))
    assert condition(kueue_platform, "lower", "Preempted")["reason"] == "InClusterQueue"
    kueue_platform.condition("urgent", NAMESPACE, "Complete")
    again = running(kueue_platform, "lower", 3)
    assert not before & {pod["metadata"]["uid"] for pod in again}
    assert condition(kueue_platform, "lower", "Admitted")


def test_a_deactivated_job_is_suspended_until_it_is_activated(kueue_platform: LiveCluster, submit: Any) -> None:
    submit(job("stopped", annotations=LONG))
    running(kueue_platform, "stopped", 2)
    name = workload(kueue_platform, "stopped")["metadata"]["name"]

    def activate(active: bool) -> None:
        change = json.dumps({"spec": {"active": active}})
        target = ("workloads.kueue.x-k8s.io", name, "-n", NAMESPACE)
        require(kueue_platform.kubectl("patch", *target, "--type=merge", "-p", change))

    activate(False)
    assert condition(kueue_platform, "stopped", "Evicted")["reason"].startswith("Deactivated")
    awaited("no pods", lambda: suspended(kueue_platform, "stopped") and not kueue_platform.pods("stopped", NAMESPACE))
    awaited("the quota to be free", lambda: used(kueue_platform) == 0)
    activate(True)
    running(kueue_platform, "stopped", 2)


def test_a_job_whose_pods_do_not_become_ready_is_evicted_and_then_deactivated(
    kueue_platform: LiveCluster, submit: Any
) -> None:
    nowhere = {"nodeSelector": {"node.kubernetes.io/instance-type": "no-such-node"}}
    submit(job("stuck", pod=nowhere))
    condition(kueue_platform, "stuck", "Admitted")

    def evicted(reason: str) -> str:
        """Wait for an eviction and return its message."""

        def probe() -> str | None:
            conditions = workload(kueue_platform, "stuck").get("status", {}).get("conditions", [])
            return next((each["message"] for each in conditions if each["reason"] == reason), None)

        return awaited(f"eviction {reason}", probe, timeout=60)

    message = evicted("PodsReadyTimeout")
    assert "45s" in message or "PodsReady" in message
    assert workload(kueue_platform, "stuck")["status"]["requeueState"]["count"] == 1
    message = evicted("DeactivatedDueToRequeuingLimitExceeded")
    assert "exceeding the maximum number of re-queuing retries" in message
    assert workload(kueue_platform, "stuck")["spec"]["active"] is False
    assert condition(kueue_platform, "stuck", "QuotaReserved", "False")["message"] == message
    awaited("no pods", lambda: suspended(kueue_platform, "stuck") and not kueue_platform.pods("stuck", NAMESPACE))
    awaited("the quota to be free", lambda: used(kueue_platform) == 0)

    def messages() -> list[str]:
        events = kueue_platform.get("events", "-n", NAMESPACE)["items"]
        return [each["message"] for each in events if each["involvedObject"]["name"] == "stuck"]

    awaited("the event", lambda: message in messages())


def test_a_job_whose_pods_are_ready_is_not_evicted(kueue_platform: LiveCluster, submit: Any) -> None:
    submit(job("ready", annotations=LONG))
    running(kueue_platform, "ready", 2)
    assert condition(kueue_platform, "ready", "PodsReady")


def test_a_gang_is_placed_in_the_domain_that_kueue_assigned(kueue_platform: LiveCluster, submit: Any) -> None:
    submit(job("placed", queue="placed", annotations={REQUIRED_TOPOLOGY: RACK, **LONG}))
    pods = running(kueue_platform, "placed", 2)
    (assignment,) = workload(kueue_platform, "placed")["status"]["admission"]["podSetAssignments"]
    assert assignment["topologyAssignment"]["levels"] == ["kubernetes.io/hostname"]
    assert {pod["spec"]["nodeSelector"]["kubernetes.io/hostname"] for pod in pods} == {
        pod["spec"]["nodeName"] for pod in pods
    }
    racks = {kueue_platform.get("node", pod["spec"]["nodeName"])["metadata"]["labels"][RACK] for pod in pods}
    assert len(racks) == 1


def test_a_deleted_job_frees_its_quota(kueue_platform: LiveCluster, submit: Any) -> None:
    submit(job("deleted", nodes=4, annotations=LONG))
    running(kueue_platform, "deleted", 4)
    awaited("the quota to be used", lambda: used(kueue_platform) == 32)
    require(kueue_platform.kubectl("delete", "trainjob", "deleted", "-n", NAMESPACE))
    awaited("the quota to be free", lambda: used(kueue_platform) == 0)
    awaited("no pods", lambda: not kueue_platform.pods("deleted", NAMESPACE))


def test_a_job_that_restarts_has_the_quota_of_its_finished_pods(kueue_platform: LiveCluster, submit: Any) -> None:
    """JobSet starts them again, and Kueue does not take back what it has released (kueue#14609)."""
    runtime = kueue_platform.get("clustertrainingruntime", "torch-distributed")
    runtime["metadata"] = {"name": "restarts", "labels": {"trainer.kubeflow.org/framework": "torch"}}
    job_set = runtime["spec"]["template"]["spec"]
    job_set["failurePolicy"] = {"maxRestarts": 1}
    (node,) = job_set["replicatedJobs"]
    node["template"]["spec"]["backoffLimit"] = 0
    amount = {"nvidia.com/gpu": "8"}
    container = {"name": "prepare", "image": "prepare:1", "resources": {"requests": amount, "limits": amount}}
    template = {"spec": {"containers": [container], "schedulerName": "volcano"}}
    job_set["replicatedJobs"] = [{"name": "prepare", "template": {"spec": {"template": template}}}, node]
    submit(runtime, job("again", runtime="restarts", annotations=LONG))

    def phases() -> list[tuple[str, str]]:
        pods = kueue_platform.pods("again", NAMESPACE)
        return sorted(
            (pod["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"], pod["status"].get("phase"))
            for pod in pods
            if "deletionTimestamp" not in pod["metadata"]
        )

    prepared = [("node", "Running"), ("node", "Running"), ("prepare", "Succeeded")]
    awaited("the first step to end", lambda: phases() == prepared)
    pod = next(each for each in kueue_platform.pods("again", NAMESPACE) if "-node-" in each["metadata"]["name"])
    failed = ("--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Failed"}}')
    require(kueue_platform.kubectl("patch", "pod", pod["metadata"]["name"], "-n", NAMESPACE, *failed))
    awaited("a restart", lambda: kueue_platform.get("jobset", "again", "-n", NAMESPACE)["status"]["restarts"] == 1)
    awaited("the first step to end again", lambda: phases() == prepared)
    assert used(kueue_platform) == 24
    submit(job("urgent", nodes=2, priority="urgent"))
    kueue_platform.condition("urgent", NAMESPACE, "Complete")
    require(kueue_platform.kubectl("delete", "clustertrainingruntime", "restarts"))


def test_the_controller_has_every_permission_that_it_asks_for(kueue_platform: LiveCluster) -> None:
    log = require(kueue_platform.trainyard("cluster", "logs", "kueue", "--name", kueue_platform.name, "-n", "100000"))
    assert "is forbidden" not in log
