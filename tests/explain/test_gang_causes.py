"""Causes in gangs, fabric, nodes and priority, each beside a near miss."""

from __future__ import annotations

from typing import Any

import pytest

from tests.explain.recorded_clusters import CORE, GPU, Cluster, body, check
from trainyard.cluster_state.observed import Kind


def test_gang_with_fewer_pods_than_its_minimum(cluster: Cluster) -> None:
    cluster.job("train", pods=3).pod_group["spec"]["minMember"] = 4
    check(cluster.explain("train"), "gang-too-few-pods", "set minMember to at most 3", minimum=4, pods=3)


def test_gang_of_which_pods_succeeded_before_it_was_resumed(cluster: Cluster) -> None:
    job = cluster.job("train", pods=4)
    gone = job.pods[2:]
    cluster.bodies = [each for each in cluster.bodies if not any(each is pod for pod in gone)]
    job.pod_group["spec"]["minMember"] = 4
    job.job["status"] = {"succeeded": 2, "completedIndexes": "2,3"}
    check(cluster.explain("train"), "gang-too-few-pods", "delete the job", minimum=4, pods=2, succeeded=2)
    job.pod_group["spec"]["minMember"] = 2
    assert "gang-too-few-pods" not in cluster.causes("train")


def test_succeeded_pods_that_still_exist_count_for_the_gang(cluster: Cluster) -> None:
    job = cluster.job("train", pods=4)
    job.pod_group["spec"]["minMember"] = 4
    job.pods[3]["status"] = {"phase": "Succeeded"}
    job.job["status"] = {"succeeded": 1, "completedIndexes": "3"}
    assert "gang-too-few-pods" not in cluster.causes("train")


def test_elastic_gang_has_enough_pods(cluster: Cluster) -> None:
    cluster.job("train", pods=4).pod_group["spec"]["minMember"] = 2
    assert cluster.causes("train") == []


def test_gang_larger_than_any_domain(cluster: Cluster) -> None:
    cluster.job("train", pods=6, tier=1)
    numbers = {"pods": 6, "tier": "1 (rack)", "places": 4, "domain": "rack-0"}
    check(cluster.explain("train"), "gang-larger-than-domain", "use at most 4 pods", **numbers)


def test_gang_fits_a_domain_of_a_higher_tier(cluster: Cluster) -> None:
    cluster.job("train", pods=6, tier=2)
    assert cluster.causes("train") == []


def test_soft_topology_and_a_scheduler_without_the_plugin_limit_nothing(cluster: Cluster) -> None:
    job = cluster.job("train", pods=6, tier=1)
    job.pod_group["spec"]["networkTopology"]["mode"] = "soft"
    assert cluster.causes("train") == []
    job.pod_group["spec"]["networkTopology"]["mode"] = "hard"
    cluster.platform["spec"]["schedulerFeatures"].remove("network-topology-aware")
    assert cluster.causes("train") == []


def test_a_tier_name_limits_like_its_number(cluster: Cluster) -> None:
    job = cluster.job("train", pods=6)
    job.pod_group["spec"]["networkTopology"] = {"mode": "hard", "highestTierName": "rack"}
    check(cluster.explain("train"), "gang-larger-than-domain", "at most 4 pods", places=4)


def test_no_domain_has_a_node_that_the_gang_may_use(cluster: Cluster) -> None:
    extra = cluster._node("outside")
    extra["metadata"]["labels"]["gpu"] = "h200"
    cluster.bodies.append(extra)
    cluster.job("train", pods=1, tier=1).everywhere(nodeSelector={"gpu": "h200"})
    check(cluster.explain("train"), "fabric-no-domain", "highestTierAllowed", tier="1 (rack)")


def test_free_devices_in_two_domains(cluster: Cluster) -> None:
    cluster.fill("language", ["rack-0-node-0"], name="left")
    cluster.fill("language", ["rack-1-node-0", "rack-1-node-1"], name="right")
    cluster.job("train", pods=4, tier=1)
    found = cluster.explain("train")
    numbers = {
        **{"pods": 4, "places": 5, "domain": "rack-0", "moving": ["language/left (1 pod)"]},
        "domains": ["rack-0 has 3 places", "rack-1 has 2 places"],
    }
    check(found, "fabric-fragmented", "wait until language/left (1 pod) leaves rack-0", **numbers)


def of_nodes(cluster: Cluster, cpu: str) -> None:
    """Add a pod of a DaemonSet to each node."""
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "exporter", "controller": True}
    for node in cluster.names:
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        cluster.bodies.append(
            body(
                CORE, "Pod", f"exporter-{node}", "kube-system", metadata={"ownerReferences": [owner]},
                spec={"nodeName": node, "containers": [container]}, status={"phase": "Running"},
            )
        )  # fmt: skip


def test_pods_of_nodes_do_not_move(cluster: Cluster) -> None:
    of_nodes(cluster, "100m")
    cluster.fill("language", ["rack-0-node-0"], name="left")
    cluster.fill("language", ["rack-1-node-0", "rack-1-node-1"], name="right")
    cluster.job("train", pods=4, tier=1)
    check(cluster.explain("train"), "fabric-fragmented", "leaves rack-0", moving=["language/left (1 pod)"])


def test_a_job_that_leaves_a_shared_node_frees_its_own_part(cluster: Cluster) -> None:
    for name in ("a", "b"):
        cluster.fill("language", ["rack-0-node-0"], gpus=4, name=name)
        cluster.fill("language", ["rack-1-node-0", "rack-1-node-1"], gpus=4, name=f"{name}-1")
    cluster.job("train", pods=4, tier=1)
    moving = ["language/a (1 pod)", "language/b (1 pod)"]
    check(cluster.explain("train"), "fabric-fragmented", "leaves rack-0", moving=moving)


def test_pods_of_nodes_are_on_empty_nodes_too(cluster: Cluster) -> None:
    cpu = cluster.find("Node", cluster.names[0])["status"]["allocatable"]["cpu"]
    job = cluster.job("train", pods=1)
    job.everywhere(containers=[{"name": "node", "resources": {"requests": {"cpu": cpu}}}])
    assert "node-too-small" not in cluster.causes("train")
    of_nodes(cluster, "100m")
    check(cluster.explain("train"), "node-too-small", "per pod", resource="cpu")


def test_one_domain_with_enough_free_devices_is_enough(cluster: Cluster) -> None:
    cluster.fill("language", ["rack-0-node-0"])
    cluster.job("train", pods=4, tier=1)
    assert cluster.causes("train") == []


def test_too_few_free_devices_in_sum_are_no_fragmentation(cluster: Cluster) -> None:
    cluster.fill("language", cluster.names[1:6])
    cluster.job("train", pods=4, tier=1)
    assert "fabric-fragmented" not in cluster.causes("train")


def test_gang_larger_than_the_cluster(cluster: Cluster) -> None:
    for name in ("research", "vision"):
        cluster.queue(name, "root" if name == "research" else "research")
    cluster.job("train", pods=10)
    check(cluster.explain("train"), "gang-larger-than-cluster", "use at most 8 pods", pods=10, places=8)


def test_gang_as_large_as_the_cluster(cluster: Cluster) -> None:
    cluster.job("train", pods=8)
    assert cluster.causes("train") == []


def test_enough_in_sum_but_on_no_node(cluster: Cluster) -> None:
    cluster.fill("language", cluster.names, gpus=2)
    cluster.job("train", pods=1)
    numbers = {"requested": "8", "free": "48", "most": "6", "resource": GPU}
    check(cluster.explain("train"), "node-fragmented", "request at most 6 nvidia.com/gpu per pod", **numbers)


def test_enough_in_sum_but_on_too_few_nodes(cluster: Cluster) -> None:
    cluster.fill("language", cluster.names[1:], gpus=2)
    cluster.job("train", pods=3)
    numbers = {"pods": 3, "places": 1, "requested": "8", "free": "50", "most": "8", "resource": GPU}
    check(cluster.explain("train"), "node-fragmented", "use at most 1 pod,", **numbers)
    cluster.job("small", pods=8, gpus=6)
    assert cluster.causes("small") == []


def test_too_few_in_sum_is_no_fragmentation(cluster: Cluster) -> None:
    cluster.queue("vision", "research", deserved=64)
    cluster.fill("language", cluster.names, gpus=6)
    cluster.job("train", pods=3)
    assert "node-fragmented" not in cluster.causes("train")


def test_one_node_with_room_is_enough(cluster: Cluster) -> None:
    cluster.fill("language", cluster.names[1:], gpus=2)
    cluster.job("train", pods=1)
    assert cluster.causes("train") == []


def test_node_selector_that_no_node_matches(cluster: Cluster) -> None:
    cluster.job("train").everywhere(nodeSelector={"gpu": "h200"})
    found = cluster.explain("train")
    check(found, "node-selector-unmatched", "labels that nodes have", nodes=8, wanted=["nodeSelector gpu=h200"])
    assert "nodes have gpu=h100" in found.message


def test_a_selector_of_any_label_is_kept_in_files(cluster: Cluster) -> None:
    labels = {"env": "prod", "data": "x", "args": "y", "token-class": "z"}
    for name in cluster.names[:2]:
        cluster.find("Node", name)["metadata"]["labels"] |= labels
    cluster.job("train").everywhere(nodeSelector=dict(labels))
    assert cluster.causes("train") == []
    cluster.job("other").everywhere(nodeSelector={"env": "test"})
    check(cluster.explain("other"), "node-selector-unmatched", "labels", wanted=["nodeSelector env=test"])


def affinity(operator: str, *values: str) -> dict[str, Any]:
    expression = {"key": "gpu", "operator": operator, "values": list(values)}
    term = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}


def test_affinity_that_no_node_matches(cluster: Cluster) -> None:
    cluster.job("train").everywhere(affinity=affinity("NotIn", "h100"))
    check(cluster.explain("train"), "node-selector-unmatched", "label nodes", wanted=["nodeAffinity"])


def test_selector_and_affinity_that_nodes_match(cluster: Cluster) -> None:
    cluster.job("train").everywhere(nodeSelector={"gpu": "h100"}, affinity=affinity("In", "h100", "h200"))
    assert cluster.causes("train") == []


def taint(cluster: Cluster, names: list[str]) -> None:
    for name in names:
        cluster.find("Node", name)["spec"]["taints"] = [{"key": "repair", "value": "yes", "effect": "NoSchedule"}]


def test_taints_that_are_not_tolerated(cluster: Cluster) -> None:
    taint(cluster, cluster.names)
    cluster.job("train")
    found = cluster.explain("train")
    check(found, "node-taint-not-tolerated", "toleration for repair=yes:NoSchedule", nodes=8)


def test_tolerated_taints_and_a_single_tainted_node() -> None:
    cluster = Cluster()
    taint(cluster, cluster.names[:1])
    cluster.job("train")
    assert cluster.causes("train") == []
    cluster = Cluster()
    taint(cluster, cluster.names)
    cluster.job("train").everywhere(tolerations=[{"key": "repair", "operator": "Exists"}])
    assert cluster.causes("train") == []


@pytest.mark.parametrize("key", ["nvidia.com/gpu", "node.kubernetes.io/out-of-service", "node.kubernetes.io/mine"])
def test_other_taints_are_not_those_of_health(key: str, cluster: Cluster) -> None:
    for name in cluster.names:
        cluster.find("Node", name)["spec"]["taints"] = [{"key": key, "effect": "NoSchedule"}]
    cluster.job("train")
    check(cluster.explain("train"), "node-taint-not-tolerated", key, nodes=8)


@pytest.mark.parametrize("key", ["not-ready", "unreachable", "unschedulable"])
def test_taints_of_health_are_causes_of_health(key: str, cluster: Cluster) -> None:
    for name in cluster.names:
        node = cluster.find("Node", name)
        node["spec"] |= {"unschedulable": True, "taints": [{"key": f"node.kubernetes.io/{key}", "effect": "NoExecute"}]}
    cluster.job("train")
    check(cluster.explain("train"), "nodes-cordoned", "uncordon", count=8)


@pytest.mark.parametrize("field", ["nodeSelector", "affinity", "tolerations"])
def test_pods_with_equal_requests_have_their_own_constraints(field: str, cluster: Cluster) -> None:
    own = {"nodeSelector": {"gpu": "h200"}, "affinity": affinity("In", "h200"), "tolerations": []}
    if field == "tolerations":
        taint(cluster, cluster.names)
    job = cluster.job("train", pods=2).everywhere(tolerations=[{"key": "repair", "operator": "Exists"}])
    job.pods[1]["spec"][field] = own[field]
    causes = {"tolerations": "node-taint-not-tolerated"}
    assert cluster.causes("train")[0] == causes.get(field, "node-selector-unmatched")


def test_the_largest_init_container_needs_a_place(cluster: Cluster) -> None:
    init = {"name": "load", "resources": {"requests": {"memory": "2Ti"}}}
    sidecar = {"name": "log", "restartPolicy": "Always", "resources": {"requests": {"memory": "1Gi"}}}
    cluster.job("train").everywhere(initContainers=[sidecar, init])
    numbers = {"resource": "memory", "requested": "2049Gi", "offers": "1Ti"}
    check(cluster.explain("train"), "node-too-small", "request at most", **numbers)
    cluster.job("fits").everywhere(initContainers=[{**init, "resources": {"requests": {"memory": "1Ti"}}}])
    assert cluster.causes("fits") == []


def test_pod_larger_than_any_node(cluster: Cluster) -> None:
    cluster.job("train", pods=1, gpus=16)
    numbers = {"requested": "16", "offers": "8", "resource": GPU}
    check(cluster.explain("train"), "node-too-small", "at most 8 nvidia.com/gpu per pod", **numbers)


def test_a_resource_that_no_node_has(cluster: Cluster) -> None:
    cluster.job("train").everywhere(containers=[{"name": "c", "resources": {"requests": {"nvidia.com/gpus": "8"}}}])
    found = cluster.explain("train")
    check(found, "node-too-small", "nodes have nvidia.com/gpu", resource="nvidia.com/gpus", offers="0")
    assert "request at most 0" not in found.fix


def test_pod_as_large_as_a_node(cluster: Cluster) -> None:
    cluster.job("train", pods=1, gpus=8)
    assert cluster.causes("train") == []


def cordon(cluster: Cluster, names: list[str]) -> None:
    for name in names:
        cluster.find("Node", name)["spec"]["unschedulable"] = True


def test_cordoned_nodes_that_would_help(cluster: Cluster) -> None:
    cluster.fill("language", cluster.names[:4])
    cordon(cluster, cluster.names[4:])
    cluster.job("train", pods=2)
    found = cluster.explain("train")
    check(found, "nodes-cordoned", "kubectl uncordon", count=4, nodes=cluster.names[4:])


def test_cordoned_nodes_of_a_domain_that_would_help(cluster: Cluster) -> None:
    cordon(cluster, ["rack-0-node-0", "rack-1-node-0"])
    cluster.job("train", pods=4, tier=1)
    check(cluster.explain("train"), "nodes-cordoned", "uncordon", count=2, nodes=["rack-0-node-0", "rack-1-node-0"])


def test_cordoned_nodes_are_no_cause_where_others_have_room_or_they_do_not_suffice() -> None:
    cluster = Cluster()
    cordon(cluster, cluster.names[4:])
    cluster.job("train", pods=2)
    assert cluster.causes("train") == []
    cluster = Cluster()
    cluster.fill("language", cluster.names[:7])
    cordon(cluster, cluster.names[7:])
    cluster.job("train", pods=2)
    assert "nodes-cordoned" not in cluster.causes("train")


def test_failed_nodes_that_would_help(cluster: Cluster) -> None:
    cluster.fill("language", cluster.names[:4])
    cluster.fill("vision", cluster.names[4:6])
    for name in cluster.names[6:]:
        cluster.find("Node", name)["status"]["conditions"][0]["status"] = "Unknown"
    cluster.job("train", pods=1)
    check(cluster.explain("train"), "nodes-not-ready", "repair", count=2, nodes=cluster.names[6:])


def test_failed_nodes_are_no_cause_where_others_have_room(cluster: Cluster) -> None:
    cluster.find("Node", cluster.names[0])["status"]["conditions"][0]["status"] = "False"
    cluster.job("train", pods=1)
    assert cluster.causes("train") == []


def test_other_jobs_of_the_queue_are_served_first(cluster: Cluster) -> None:
    cluster.job("older", pods=8, minutes=30)
    cluster.job("urgent", pods=8, minutes=1, priority_class="training-urgent")
    cluster.job("younger", pods=8, minutes=2)
    cluster.job("train", pods=2, minutes=10)
    numbers = {
        **{"place": 3, "waiting": 4, "queue": "vision", "priority": 0, "highest": 10000},
        "ahead": ["vision/urgent (priority 10000)", "vision/older (priority 0)"],
    }
    check(cluster.explain("train"), "priority-behind-others", "a higher value than 10000", **numbers)
    assert cluster.causes("urgent") == []


def test_a_gang_ahead_that_does_not_fit_is_not_in_the_way(cluster: Cluster) -> None:
    """Volcano skips a gang that does not fit, and places smaller ones behind it."""
    cluster.fill("language", cluster.names[:4])
    cluster.job("older", pods=5, minutes=30)
    cluster.job("racks", pods=3, tier=1, minutes=20)
    job = cluster.job("train", pods=1)
    assert cluster.causes("train") == []
    message = "1/1 tasks in gang unschedulable"
    job.pod_group["status"]["conditions"] = [{"type": "Unschedulable", "status": "True", "message": message}]
    assert cluster.causes("train") == ["scheduler-message"]
    cluster.job("next", pods=2)
    assert cluster.causes("next") == ["priority-behind-others"]  # racks and train leave no place
    job.job_set["status"] = {}
    assert cluster.causes("older")[-1] != "priority-behind-others"


def test_a_limit_that_jobs_ahead_use_up_is_contended() -> None:
    cluster = Cluster().queue("small", capability=16)
    cluster.job("older", "small", pods=2, minutes=30)
    job = cluster.job("train", "small", pods=1)
    condition = {"type": "Unschedulable", "status": "True", "message": "queue resource quota insufficient"}
    job.pod_group["status"]["conditions"] = [condition]
    assert cluster.causes("train", "small") == ["scheduler-message", "priority-behind-others"]
    cluster.find("Queue", "small")["spec"]["capability"] = {GPU: "24"}
    assert cluster.causes("train", "small") == ["scheduler-message"]


def test_a_gang_ahead_that_never_fits_is_not_ahead_in_a_full_cluster() -> None:
    for pods, expected in ((9, False), (8, True)):
        cluster = Cluster()
        cluster.queue("vision", "research", deserved=64, capability=64)
        cluster.fill("vision", cluster.names)
        cluster.job("older", pods=pods, minutes=30)
        cluster.job("train", pods=1)
        assert ("priority-behind-others" in cluster.causes("train")) == expected


def test_jobs_of_another_queue_are_not_ahead(cluster: Cluster) -> None:
    cluster.job("older", "language", pods=8, minutes=30)
    cluster.job("train")
    assert cluster.causes("train") == []


def test_unknown_priority_class(cluster: Cluster) -> None:
    cluster.job("train", priority_class="trainning")
    check(cluster.explain("train"), "priority-class-unknown", "use one of training, training-urgent", name="trainning")


def test_known_priority_classes(cluster: Cluster) -> None:
    cluster.job("train", priority_class="training")
    cluster.job("other", "language", priority_class="system-node-critical")
    assert cluster.causes("train") == cluster.causes("other", "language") == []


def test_pods_of_other_schedulers_use_nodes_too(cluster: Cluster) -> None:
    requests = {"resources": {"requests": {GPU: "8"}}}
    for name in cluster.names:
        spec = {"nodeName": name, "containers": [{"name": "c", **requests}]}
        cluster.bodies.append(body("v1", "Pod", f"other-{name}", "somewhere", spec=spec, status={"phase": "Running"}))
    cluster.job("train", pods=1)
    check(cluster.explain("train"), "cluster-full", "wait", free="0", users=["somewhere (64)"])


def unread_pods(cluster: Cluster) -> Cluster:
    """Return a cluster as a tenant reads it: only the pods of the own namespace."""
    pods = [each for each in cluster.bodies if each["kind"] == "Pod" and each["metadata"]["namespace"] != "vision"]
    cluster.without(*pods).unread = frozenset({Kind.POD})
    return cluster


def test_free_resources_are_unknown_where_pods_of_others_are_not_read(cluster: Cluster) -> None:
    cluster.fill("language", ["rack-0-node-0", "rack-1-node-0"], name="hidden")
    cluster.fill("vision", ["rack-0-node-1", "rack-1-node-1"])
    cordon(cluster, ["rack-0-node-2", "rack-1-node-2"])
    cluster.job("train", pods=3, tier=1)
    cluster.job("wide", pods=7)
    cluster.job("small", pods=1, gpus=1)
    for name in ("train", "wide", "small"):
        found = unread_pods(cluster).explain(name)
        assert {each.cause.id for each in found.causes} <= {"priority-behind-others"}
        nodes = next(link for link in found.chain if link.step == "nodes")
        assert nodes.state == "6 take pods, free resources unknown (Pod may not be read)"


def test_causes_without_free_resources_need_no_pods_of_others(cluster: Cluster) -> None:
    cluster.job("racks", pods=6, tier=1)
    cluster.job("wide", pods=1, gpus=16)
    cluster.job("large", pods=9, gpus=8)
    cluster.job("label", pods=1).everywhere(nodeSelector={"gpu": "h200"})
    found = {name: unread_pods(cluster).causes(name)[0] for name in ("racks", "wide", "large", "label")}
    assert found == {
        **{"racks": "gang-larger-than-domain", "wide": "node-too-small", "label": "node-selector-unmatched"},
        "large": "gang-larger-than-cluster",
    }
