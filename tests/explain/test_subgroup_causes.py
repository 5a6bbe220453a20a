"""Causes in subgroups of a gang: each is examined with the pods that Volcano puts into it."""

from __future__ import annotations

import copy
from typing import Any

from tests.explain.recorded_clusters import Cluster, Job, check
from trainyard.api.constants import COMPLETION_INDEX_LABEL, JOB_INDEX_LABEL, REPLICATED_JOB_LABEL
from trainyard.jobs.render.gangs.volcano_subgroups import group_policies


def in_subgroups(job: Job, size: int, part: str = "node", least: int = 1, **topology: Any) -> None:
    """Give the gang of a job subgroups, as the controller renders them."""
    pods = [pod for pod in job.pods if pod["metadata"]["name"].split("-")[1] == part]
    for index, pod in enumerate(pods):
        labels = {REPLICATED_JOB_LABEL: part, JOB_INDEX_LABEL: "0", COMPLETION_INDEX_LABEL: str(index)}
        pod["metadata"]["labels"] |= labels
    limit = {"mode": "hard", "highestTierAllowed": 1, **topology}
    policies = group_policies(part, len(pods), size, least=least, topology=limit)
    job.pod_group["spec"].setdefault("subGroupPolicy", []).extend(policies)


def with_launcher(cluster: Cluster, workers: int) -> Job:
    """Add a job of a launcher without devices and some workers."""
    job = cluster.job("train", pods=workers)
    launcher = copy.deepcopy(job.pods[0])
    launcher["metadata"]["name"] = "train-launcher-0"
    launcher["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1"}
    cluster.bodies.append(launcher)
    job.pods.insert(0, launcher)
    # Lists of the API server are in the order of names.
    cluster.bodies.sort(key=lambda each: str(each["metadata"]["name"]))
    job.pod_group["spec"]["minMember"] = workers + 1
    part = {"name": "launcher", "template": {"spec": {"template": {"spec": {}}}}}
    job.job_set["spec"]["replicatedJobs"].append(part)
    return job


def test_a_subgroup_larger_than_any_domain(cluster: Cluster) -> None:
    job = cluster.job("train", pods=6)
    in_subgroups(job, 6)
    found = cluster.explain("train")
    check(found, "gang-larger-than-domain", "use at most 4 pods per subgroup", places=4)
    assert "the 6 pods of subgroup node must run inside one domain" in found.message
    job.pod_group["spec"]["subGroupPolicy"] = []
    in_subgroups(job, 3)
    assert cluster.causes("train") == []


def test_a_subgroup_of_workers_is_as_large_as_its_workers(cluster: Cluster) -> None:
    job = with_launcher(cluster, 6)
    in_subgroups(job, 6, least=6)
    found = cluster.explain("train")
    check(found, "gang-larger-than-domain", "use at most 4 pods per subgroup", places=4, pods=6)
    job.pod_group["spec"]["subGroupPolicy"] = []
    in_subgroups(job, 3, least=6)
    assert cluster.causes("train") == []


def test_a_subgroup_of_the_launcher_does_not_limit_the_workers(cluster: Cluster) -> None:
    job = with_launcher(cluster, 6)
    in_subgroups(job, 1, "launcher")
    assert cluster.causes("train") == []


def test_free_places_of_a_subgroup_are_scattered(cluster: Cluster) -> None:
    for rack in range(2):
        cluster.fill("language", [f"rack-{rack}-node-{node}" for node in range(2)], name=f"busy-{rack}")
    job = cluster.job("train", pods=4)
    in_subgroups(job, 4)
    found = cluster.explain("train")
    check(found, "fabric-fragmented", "wait until", domains=["rack-0 has 2 places", "rack-1 has 2 places"])
    job.pod_group["spec"]["subGroupPolicy"] = []
    in_subgroups(job, 2, least=4)
    assert cluster.causes("train") == []


def test_pods_without_the_labels_of_a_subgroup_have_no_limit(cluster: Cluster) -> None:
    """Volcano puts a pod into a subgroup only if it has a value for each of matchLabelKeys, and there is one."""
    job = cluster.job("train", pods=6)
    in_subgroups(job, 6)
    (policy,) = job.pod_group["spec"]["subGroupPolicy"]
    policy["matchLabelKeys"] = ["absent"]
    assert cluster.causes("train") == []
    policy["matchLabelKeys"] = []
    assert cluster.causes("train") == []


def test_a_subgroup_without_which_the_gang_starts_is_no_limit(cluster: Cluster) -> None:
    job = cluster.job("train", pods=6)
    job.pod_group["spec"]["minMember"] = 2
    in_subgroups(job, 6, least=0)
    assert cluster.causes("train") == []
