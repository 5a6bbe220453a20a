"""The production stack as pods on three real nodes: its programs, webhooks, names, storage, logs and one gang."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import pytest

from tests.real.conftest import FIGURES, RealCluster, cluster_memory, lines, machine_state
from tests.real.real_jobs import IMAGE, PYTHON, job
from tests.support import awaited, require
from trainyard.local.cluster.node.control_groups import hierarchies
from trainyard.local.cluster.node.node_plan import NAMESPACE_FOLDER, junction, machine_name, plan_nodes
from trainyard.quantity import parse

pytestmark = pytest.mark.real

PLATFORM = ("kubeflow-system", "volcano-system", "jobset-system")
READY_SECONDS = 30
FIRST_WORKER_SECONDS = 10
MEMORY_BYTES = 6_000_000_000
MEBIBYTE = 1 << 20
NODES = ("worker-0", "worker-1", "worker-2")


def pods(real: RealCluster, namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = real.cluster.get("pods", "--namespace", namespace)["items"]
    return found


def test_three_nodes_are_ready_with_the_labels_and_sizes_of_the_fabric(real: RealCluster) -> None:
    nodes = {node["metadata"]["name"]: node for node in real.cluster.get("nodes")["items"]}
    assert sorted(nodes) == ["worker-0", "worker-1", "worker-2"]
    for node in nodes.values():
        conditions = {each["type"]: each["status"] for each in node["status"]["conditions"]}
        assert conditions["Ready"] == "True"
        assert node["status"]["allocatable"]["cpu"] == "2"
        assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://")
    racks = {name: node["metadata"]["labels"]["topology.trainyard.dev/rack"] for name, node in nodes.items()}
    assert racks == {"worker-0": "rack-a1", "worker-1": "rack-a1", "worker-2": "rack-a2"}


def test_the_pods_of_a_node_get_no_more_memory_than_the_fabric_says(real: RealCluster) -> None:
    cluster, tolerance = machine_name(real.root), 100 * MEBIBYTE  # what the kubelet keeps free before it evicts
    for node in real.cluster.get("nodes")["items"]:
        (plan,) = (each for each in plan_nodes(cluster, NODES) if each.name == node["metadata"]["name"])
        offered = parse(node["status"]["allocatable"]["memory"])
        assert offered == 4096 * MEBIBYTE
        limits = [
            int(file.read_text())
            for hierarchy in hierarchies()
            if (file := hierarchy.root / plan.cgroup.strip("/") / "kubepods" / "memory.limit_in_bytes").exists()
        ]
        assert [offered <= limit <= offered + tolerance for limit in limits] == [True], limits


def test_the_machine_has_no_interface_address_route_or_rule_of_the_nodes(real: RealCluster) -> None:
    now = machine_state()
    for kind in ("interfaces", "addresses", "routes", "rules"):
        assert now[kind] == real.before[kind], kind
    others = [mount for mount in now["mounts"] if not mount.startswith("/run/netns")]
    assert others == real.before["mounts"]
    hub = junction(machine_name(real.root))
    assert [line for line in lines("ip", "-n", hub, "route") if line.startswith("default")] == []
    for node in plan_nodes(machine_name(real.root), NODES):
        inside = ("nsenter", f"--net={NAMESPACE_FOLDER / node.namespace}", "sysctl", "-n")
        assert lines(*inside, "net.ipv4.conf.all.rp_filter") == ["1"], "no pod sends with the address of another one"


def test_every_program_of_the_platform_runs_twice_on_different_nodes_at_the_restricted_level(real: RealCluster) -> None:
    deployments = [each for name in PLATFORM for each in real.cluster.get("deployments", "-n", name)["items"]]
    assert len(deployments) == 5
    for deployment in deployments:
        name, namespace = deployment["metadata"]["name"], deployment["metadata"]["namespace"]
        assert (name, deployment["status"].get("readyReplicas")) == (name, 2)
        selector = deployment["spec"]["selector"]["matchLabels"]
        own = [
            pod
            for pod in pods(real, namespace)
            if selector.items() <= pod["metadata"]["labels"].items() and "deletionTimestamp" not in pod["metadata"]
        ]
        assert len({pod["spec"]["nodeName"] for pod in own}) == 2, name
        for pod in own:
            assert pod["spec"]["securityContext"]["runAsNonRoot"]
            for container in pod["spec"]["containers"]:
                assert container["securityContext"]["readOnlyRootFilesystem"], name
                assert container["image"].startswith("localhost/trainyard/")
        assert real.cluster.get("poddisruptionbudget", name, "-n", namespace) is not None
    for name in PLATFORM:
        labels = real.cluster.get("namespace", name)["metadata"]["labels"]
        assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_webhooks_are_called_through_services(real: RealCluster) -> None:
    kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations"
    clients = [
        webhook["clientConfig"] for body in real.cluster.get(kinds)["items"] for webhook in body.get("webhooks") or ()
    ]
    assert len(clients) > 10
    assert all("service" in client and "url" not in client for client in clients)


def test_the_gang_ran_in_containers_of_one_rack_and_its_workers_reached_each_other_by_name(real: RealCluster) -> None:
    workers = real.cluster.pods("smoke", "language")
    assert {pod["spec"]["nodeName"] for pod in workers} == {"worker-0", "worker-1"}
    logs = [
        require(real.cluster.kubectl("logs", "--namespace", "language", pod["metadata"]["name"])) for pod in workers
    ]
    assert sorted(line.split(" on ")[0] for line in logs) == ["rank 0 of 2", "rank 1 of 2"]
    assert all("the sum of all ranks is 1" in line for line in logs)


def test_a_worker_runs_soon_after_its_job_was_created(real: RealCluster) -> None:
    require(real.cluster.apply(job("quick")))
    real.cluster.condition("quick", "language", "Complete")
    created = real.cluster.get("trainjob", "quick", "-n", "language")["metadata"]["creationTimestamp"]
    (pod,) = real.cluster.pods("quick", "language")
    started = pod["status"]["containerStatuses"][0]["state"]["terminated"]["startedAt"]
    FIGURES["TrainJob created to its first worker running"] = f"{_seconds(created, started):.0f} s"
    assert _seconds(created, started) <= FIRST_WORKER_SECONDS


def test_the_cluster_takes_little_memory(real: RealCluster) -> None:
    found = cluster_memory()
    FIGURES["memory of control plane, nodes and platform (proportional set size)"] = f"{found / 1e9:.1f} GB"
    assert 0 < found <= MEMORY_BYTES


def test_a_claim_gets_a_folder_that_any_user_writes_and_that_goes_with_it(real: RealCluster) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    }
    code = "open('/data/x', 'w').write('x'); import os; print(os.getuid(), os.listdir('/data'))"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "writer"},
        "spec": {
            "restartPolicy": "Never",
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            "containers": [
                {
                    "name": "main",
                    "image": IMAGE,
                    "command": [PYTHON, "-c", code],
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }
            ],
        },
    }
    require(real.cluster.apply(claim, pod))
    require(real.cluster.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/writer", "--timeout=90s"))
    assert require(real.cluster.kubectl("logs", "writer")) == "65532 ['x']\n"
    require(real.cluster.kubectl("delete", "pod/writer", "pvc/data", "--timeout=60s"))
    folders = real.root / "nodes"
    awaited("removal of the folder", lambda: not list(folders.glob("*/lib/volumes/*")) or None, timeout=30)


def test_nodes_start_in_time_when_all_is_built_and_imported(real: RealCluster) -> None:
    real.timed("cluster", "down")
    steps = re.findall(r"✓ (?:Control plane|Nodes): .* \((\d+) s\)", real.timed("cluster", "up"))
    assert len(steps) == 2
    FIGURES["control plane and three nodes Ready, all built and imported"] = f"{sum(map(int, steps))} s"
    assert sum(map(int, steps)) <= READY_SECONDS
    real.timed("cluster", "status")
    pending = real.cluster.kubectl("wait", "--for=condition=Available", "deployments", "--all", "-A", "--timeout=120s")
    require(pending)


def _seconds(first: str, second: str) -> float:
    return (datetime.fromisoformat(second) - datetime.fromisoformat(first)).total_seconds()
