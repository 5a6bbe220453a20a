"""Real TrainJobs on the whole platform: placed as gangs, waiting where they must, and refused clearly when bad."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.cluster.jobs import lasting, node_patch, train_job
from tests.cluster.platform_changes import process
from tests.support import LiveCluster, awaited, require

pytestmark = pytest.mark.cluster


def rack_of(platform: LiveCluster, node: str) -> str:
    return str(platform.get("node", node)["metadata"]["labels"]["topology.trainyard.dev/rack"])


def pod_group(platform: LiveCluster, name: str) -> dict[str, Any]:
    """Return the PodGroup of a job that runs; it goes with the end of the job."""
    return awaited(f"PodGroup {name}", lambda: platform.get("podgroup", name, "-n", "vision"))


def test_a_gang_lands_in_one_rack_and_completes(platform: LiveCluster) -> None:
    require(platform.apply(train_job("gang", "vision", "torch-distributed-gang")))
    group = pod_group(platform, "gang")
    condition = platform.condition("gang", "vision", "Complete")
    assert condition["reason"] == "AllJobsCompleted"
    pods = platform.pods("gang", "vision")
    assert len(pods) == 2
    assert {pod["spec"]["schedulerName"] for pod in pods} == {"volcano"}
    assert len({rack_of(platform, pod["spec"]["nodeName"]) for pod in pods}) == 1
    awaited(
        "the PodGroup to go, so that its queue can close", lambda: not platform.get("podgroup", "gang", "-n", "vision")
    )
    assert group["spec"]["minMember"] == 2
    assert group["spec"]["queue"] == "vision"
    assert group["spec"]["minResources"]["nvidia.com/gpu"] == "16"
    assert group["spec"]["networkTopology"] == {"mode": "hard", "highestTierAllowed": 1}
    environment = {e["name"]: e.get("value") for e in pods[0]["spec"]["containers"][0]["env"]}
    assert environment["PET_NNODES"] == "2"
    assert environment["PET_MASTER_ADDR"] == "gang-node-0-0.gang"
    snapshot = platform.get("configmap", "gang-runtime-snapshot", "-n", "vision")
    assert yaml.safe_load(snapshot["data"]["runtime"])["metadata"]["name"] == "torch-distributed-gang"


def test_each_group_of_a_gang_lands_in_one_rack(platform: LiveCluster) -> None:
    rack = {"mode": "hard", "highestTierName": "rack"}
    make_runtime(
        platform, "torch-groups", subGroupPolicy=[{"name": "node", "subGroupSize": 3, "networkTopology": rack}]
    )
    require(platform.apply(train_job("groups", "vision", "torch-groups", nodes=6)))
    assert_groups_of_three(platform, "groups")
    require(platform.kubectl("delete", "clustertrainingruntime", "torch-groups"))


def test_a_train_job_requests_groups(platform: LiveCluster) -> None:
    make_runtime(platform, "torch-spine")
    annotations = {"trainyard.dev/subgroup-size": "3", "trainyard.dev/subgroup-tier": "rack"}
    job = train_job("requested", "vision", "torch-spine", nodes=6)
    template = {"template": {"metadata": {"annotations": annotations}}}
    job["spec"].setdefault("runtimePatches", []).append({"manager": "example.com/ann", "trainingRuntimeSpec": template})
    require(platform.apply(job))
    assert_groups_of_three(platform, "requested")
    require(platform.kubectl("delete", "clustertrainingruntime", "torch-spine"))


def test_amounts_that_a_float_rounds_do_not_end_the_scheduler(platform: LiveCluster) -> None:
    """Volcano adds and subtracts thousandths as 64-bit floats, and its assertions about the difference can panic."""
    job = train_job("rounded", "vision", "torch-distributed-gang", nodes=3)
    cpu = {"cpu": "2048000000000000768m"}
    job["spec"].setdefault("trainer", {})["resourcesPerNode"] = {"requests": cpu, "limits": cpu}
    scheduler = process(platform, "vc-scheduler")
    require(platform.apply(job))
    awaited("its pods", lambda: len(platform.pods("rounded", "vision")) == 3)
    require(platform.kubectl("delete", "trainjob", "rounded", "-n", "vision"))
    awaited("the end of its pods", lambda: not platform.pods("rounded", "vision"))
    require(platform.apply(train_job("after", "vision", "torch-distributed-gang")))
    platform.condition("after", "vision", "Complete")
    assert process(platform, "vc-scheduler") == scheduler


def make_runtime(platform: LiveCluster, name: str, **volcano: Any) -> None:
    """Create a runtime whose gangs stay inside one spine."""
    runtime = platform.get("clustertrainingruntime", "torch-distributed-gang")
    runtime["metadata"] = {"name": name, "labels": {"trainer.kubeflow.org/framework": "torch"}}
    spine = {"mode": "hard", "highestTierName": "spine"}
    runtime["spec"]["podGroupPolicy"]["volcano"] = {"networkTopology": spine, **volcano}
    require(platform.apply(runtime))


def assert_groups_of_three(platform: LiveCluster, name: str) -> None:
    group = pod_group(platform, name)
    platform.condition(name, "vision", "Complete")
    nodes = {
        int(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]): pod["spec"]["nodeName"]
        for pod in platform.pods(name, "vision")
    }
    racks = [{rack_of(platform, nodes[rank]) for rank in ranks} for ranks in ((0, 1, 2), (3, 4, 5))]
    assert [len(each) for each in racks] == [1, 1]
    assert racks[0] != racks[1]
    assert [each["networkTopology"] for each in group["spec"]["subGroupPolicy"]] == [
        {"mode": "hard", "highestTierAllowed": 1}
    ] * 2


def test_a_job_whose_pods_the_api_server_rejects_says_so_and_creates_nothing(platform: LiveCluster) -> None:
    mount = node_patch(spec={"containers": [{"name": "node", "volumeMounts": [{"name": "gone", "mountPath": "/x"}]}]})
    require(platform.apply(train_job("mounts", "vision", "torch-distributed-gang", runtimePatches=[mount])))
    blocked = platform.condition("mounts", "vision", "Blocked")
    assert blocked["reason"] == "TrainJobResourcesCreationFailed"
    assert blocked["message"].startswith("spec.runtimePatches[0].trainingRuntimeSpec.")
    assert 'volumeMounts[0].name: Not found: "gone"' in blocked["message"]
    for kind, name in (("jobset", "mounts"), ("podgroup", "mounts"), ("configmap", "mounts-runtime-snapshot")):
        assert not platform.get(kind, name, "-n", "vision")
    require(platform.kubectl("delete", "trainjob", "mounts", "-n", "vision"))


def test_a_job_whose_name_is_taken_says_so_until_it_runs(platform: LiveCluster) -> None:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "example.com/c:1"}]}
    jobs = [{"name": "w", "template": {"spec": {"template": {"spec": pod}}}}]
    taken = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "taken", "namespace": "vision"},
        "spec": {"suspend": True, "replicatedJobs": jobs},
    }
    require(platform.apply(taken))
    require(platform.apply(train_job("taken", "vision", "torch-distributed-gang")))
    message = "JobSet taken exists and has no owner, so this TrainJob cannot use it"
    assert message in platform.condition("taken", "vision", "Blocked")["message"]
    state = platform.kubectl("get", "trainjob", "taken", "-n", "vision", "--no-headers").stdout.split()
    assert "Blocked" in state
    require(platform.kubectl("delete", "jobset", "taken", "-n", "vision"))
    platform.condition("taken", "vision", "Complete")
    conditions = platform.get("trainjob", "taken", "-n", "vision")["status"]["conditions"]
    assert [entry["type"] for entry in conditions] == ["Complete"]


def test_status_is_copied_from_the_jobset(platform: LiveCluster) -> None:
    require(platform.apply(train_job("status", "vision", "torch-distributed-gang")))
    platform.condition("status", "vision", "Complete")

    def succeeded() -> list[dict[str, Any]] | None:
        statuses = platform.get("trainjob", "status", "-n", "vision")["status"].get("jobsStatus", [])
        return statuses if statuses and statuses[0]["succeeded"] == 1 else None

    (node,) = awaited("jobsStatus of the finished job", succeeded)
    assert node["name"] == "node"


def test_a_trainer_waits_for_its_dataset_without_holding_up_the_gang(platform: LiveCluster) -> None:
    job = train_job(
        "dataset", "vision", "torch-with-dataset", initializer={"dataset": {"storageUri": "hf://tatsu-lab/alpaca"}}
    )
    require(platform.apply(job))
    group = pod_group(platform, "dataset")
    platform.condition("dataset", "vision", "Complete", timeout=120)
    pods = platform.pods("dataset", "vision")
    by_job: dict[str, list[dict[str, Any]]] = {}
    for pod in pods:
        by_job.setdefault(pod["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"], []).append(pod)
    assert {name: len(members) for name, members in by_job.items()} == {"dataset-initializer": 1, "node": 2}
    initializer = by_job["dataset-initializer"][0]
    assert "scheduling.k8s.io/group-name" not in initializer["metadata"].get("annotations", {}) or (
        initializer["metadata"]["annotations"]["scheduling.k8s.io/group-name"] != "dataset"
    )
    finished = initializer["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    assert all(pod["metadata"]["creationTimestamp"] >= finished for pod in by_job["node"])
    assert group["spec"]["minMember"] == 2


def test_a_gang_too_big_for_its_queue_waits_whole_and_runs_once_the_queue_is_raised(platform: LiveCluster) -> None:
    require(platform.apply(train_job("big", "small", "torch-distributed-gang")))
    awaited("pods of the waiting gang", lambda: len(platform.pods("big", "small")) == 2)
    awaited(
        "the scheduler's word on the waiting gang",
        lambda: platform.get("podgroup", "big", "-n", "small").get("status", {}).get("conditions"),
    )
    assert [pod["spec"].get("nodeName") for pod in platform.pods("big", "small")] == [None, None]

    document = yaml.safe_load(platform.config_file.read_text())
    document["config"]["trainyard:queues"]["small"]["capability"]["nvidia.com/gpu"] = "16"
    platform.config_file.write_text(yaml.safe_dump(document, sort_keys=False))
    require(platform.trainyard("up", "--yes", "--config-file", str(platform.config_file)))

    platform.condition("big", "small", "Complete")
    assert platform.get("queue", "small")["spec"]["capability"]["nvidia.com/gpu"] == "16"


def test_a_suspended_job_holds_no_pods_and_resumes(platform: LiveCluster) -> None:
    require(platform.apply(train_job("pause", "vision", "torch-distributed-gang", suspend=True)))
    assert platform.condition("pause", "vision", "Suspended")["message"] == "TrainJob is suspended"
    assert platform.pods("pause", "vision") == []
    require(
        platform.kubectl(
            "patch", "trainjob", "pause", "-n", "vision", "--type=merge", "-p", '{"spec":{"suspend":false}}'
        )
    )
    platform.condition("pause", "vision", "Complete")


def test_a_resumed_job_runs_for_kubectl_and_the_sdk(platform: LiveCluster) -> None:
    from kubeflow.common.types import KubernetesBackendConfig
    from kubeflow.trainer import TrainerClient

    body = train_job("resumed", "vision", "torch-distributed-gang", suspend=True, runtimePatches=[lasting("1h")])
    require(platform.apply(body))
    platform.condition("resumed", "vision", "Suspended")
    resume = '{"spec":{"suspend":false}}'
    require(platform.kubectl("patch", "trainjob", "resumed", "-n", "vision", "--type=merge", "-p", resume))
    client = TrainerClient(KubernetesBackendConfig(namespace="vision", config_file=str(platform.kubeconfig)))
    assert client.wait_for_job_status("resumed", status={"Running"}, timeout=60, polling_interval=1).status == "Running"
    (line,) = require(platform.kubectl("get", "trainjob", "resumed", "-n", "vision", "--no-headers")).splitlines()
    assert "Suspended" not in line
    deleted = require(platform.kubectl("delete", "trainjob", "resumed", "-n", "vision"))
    assert "deleted" in deleted


def test_runtimes_are_deleted_and_labeled_with_warnings(platform: LiveCluster) -> None:
    make_runtime(platform, "torch-used")
    require(platform.apply(train_job("uses", "vision", "torch-used", suspend=True)))
    platform.condition("uses", "vision", "Suspended")
    deleted = platform.kubectl("delete", "clustertrainingruntime", "torch-used")
    assert 'Warning: 1 TrainJob references ClusterTrainingRuntime "torch-used" (vision/uses)' in deleted.stderr
    require(platform.kubectl("delete", "trainjob", "uses", "-n", "vision"))
    runtime = platform.get("clustertrainingruntime", "torch-distributed")
    runtime["metadata"] = {
        "name": "labeled",
        "labels": {
            "trainer.kubeflow.org/framework": "torch",
            "trainer.kubeflow.org/webhook-validation": "disabled",
        },
    }
    runtime["spec"]["template"]["metadata"] = {"labels": {"a": "b c"}}
    result = platform.apply(runtime)
    assert "accepted because of label" in result.stderr, result
    platform.kubectl("delete", "clustertrainingruntime", "labeled")


def test_a_runtime_with_two_frameworks_is_refused(platform: LiveCluster) -> None:
    runtime = platform.get("clustertrainingruntime", "plain")
    runtime["metadata"] = {"name": "both", "labels": {"trainer.kubeflow.org/framework": "torch"}}
    runtime["spec"]["mlPolicy"] = {"numNodes": 1, "torch": {}, "mpi": {}}
    result = platform.apply(runtime)
    assert result.returncode != 0
    assert "MLP-001" in result.stderr
    assert "spec.mlPolicy" in result.stderr


def test_a_job_of_an_unknown_runtime_is_refused(platform: LiveCluster) -> None:
    result = platform.apply(train_job("lost", "vision", "no-such-runtime"))
    assert result.returncode != 0
    assert "no-such-runtime" in result.stderr
    assert "must be created before the TrainJob is created" in result.stderr


@pytest.mark.parametrize(("namespace", "rules"), [("vision", ("QUE-001", "QUE-002")), ("kube-system", ("QUE-001",))])
def test_a_pod_in_a_queue_that_has_children_is_refused_everywhere(
    platform: LiveCluster, namespace: str, rules: tuple[str, ...]
) -> None:
    annotations = {"scheduling.volcano.sh/queue-name": "research"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "inner", "namespace": namespace, "annotations": annotations},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "node", "image": "busybox:1.37"}]},
    }
    result = platform.apply(pod)
    assert result.returncode != 0
    assert any(rule in result.stderr for rule in rules)
    assert '"research"' in result.stderr


def test_a_tenant_cannot_use_the_queue_of_another(platform: LiveCluster) -> None:
    result = platform.apply(train_job("foreign", "vision", "torch-distributed-gang", queue="language"))
    assert result.returncode != 0
    assert "QUE-002" in result.stderr
    assert "language" in result.stderr
