"""Volcano: groups of pods inside one domain each, and minimums of replicatedJobs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.builders import objects, only, pods, replicated_job, runtime, torch, train_job, trainer, verdict

FABRIC = {"rack": 1, "spine": 2}
ON = frozenset({"gang", "network-topology-aware"})
RACK = {"mode": "hard", "highestTierAllowed": 1}
SELECTED = {"matchLabels": {"jobset.sigs.k8s.io/replicatedjob-name": "node"}}
JOB_INDEX, INDEX = "jobset.sigs.k8s.io/job-index", "batch.kubernetes.io/job-completion-index"
TASK = "volcano.sh/task-spec"


def groups(size: int, name: str = "node", **topology: Any) -> dict[str, Any]:
    limit = {"networkTopology": topology} if topology else {}
    return {"subGroupPolicy": [{"name": name, "subGroupSize": size, **limit}]}


def rendered(nodes: int, volcano: dict[str, Any], *jobs: Any, **context: Any) -> dict[str, Any]:
    job = train_job(trainer={"numNodes": nodes})
    spec: dict[str, Any] = objects(job, torch(*jobs, volcano=volcano), **context)["PodGroup"]["spec"]
    return spec


def within(*indexes: str) -> dict[str, Any]:
    return {**SELECTED, "matchExpressions": [{"key": INDEX, "operator": "In", "values": list(indexes)}]}


def test_consecutive_pods_form_groups() -> None:
    spec = rendered(4, {"networkTopology": {"highestTierAllowed": 2}, **groups(2, mode="hard")}, tiers=FABRIC)
    assert (spec["minMember"], spec["networkTopology"]) == (4, {"mode": "hard", "highestTierAllowed": 2})
    common = {"subGroupSize": 2, "networkTopology": RACK, "minSubGroups": 1, "matchLabelKeys": [JOB_INDEX]}
    assert spec["subGroupPolicy"] == [
        {"name": "node.0", **common, "labelSelector": within("0", "1")},
        {"name": "node.1", **common, "labelSelector": within("2", "3")},
    ]


@pytest.mark.parametrize(
    ("size", "keys", "least"),
    [(4, [JOB_INDEX], 1), (1, [JOB_INDEX, INDEX], 4)],
)
def test_one_policy_is_enough_for_groups_of_all_pods_or_of_one(size: int, keys: list[str], least: int) -> None:
    assert rendered(4, groups(size))["subGroupPolicy"] == [
        {"name": "node", "subGroupSize": size, "minSubGroups": least, "labelSelector": SELECTED, "matchLabelKeys": keys}
    ]


def test_replicas_share_policies() -> None:
    role = replicated_job("shard", replicas=3, job={"parallelism": 4, "completions": 4})
    policies = rendered(1, groups(2, "shard"), trainer(), role)["subGroupPolicy"]
    assert [(each["name"], each["minSubGroups"]) for each in policies] == [("shard.0", 3), ("shard.1", 3)]


def test_only_the_groups_that_an_elastic_job_starts_with_are_required() -> None:
    of = runtime(
        trainer(),
        mlPolicy={"torch": {"elasticPolicy": {"minNodes": 4, "maxNodes": 8}}},
        podGroupPolicy={"volcano": groups(2)},
    )
    spec = objects(train_job(), of)["PodGroup"]["spec"]
    assert spec["minMember"] == 4
    assert [each["minSubGroups"] for each in spec["subGroupPolicy"]] == [1, 1, 0, 0]


def test_groups_of_pods_that_come_later_are_not_required() -> None:
    late = replicated_job("late", dependsOn=[{"name": "node", "status": "Ready"}], job={"parallelism": 2})
    policies = rendered(2, groups(2, "late"), trainer(), late)["subGroupPolicy"]
    assert [each["minSubGroups"] for each in policies] == [0]


def test_a_tier_name_becomes_its_number() -> None:
    spec = rendered(4, groups(2, highestTierName="rack"), tiers=FABRIC)
    assert [each["networkTopology"] for each in spec["subGroupPolicy"]] == [RACK, RACK]


def test_pods_do_not_change() -> None:
    job = train_job(trainer={"numNodes": 4})
    assert pods(job, torch(volcano=groups(2))) == pods(job, torch(volcano={}))


@pytest.mark.parametrize(
    ("nodes", "volcano", "context", "path", "message"),
    [
        (
            5,
            groups(2),
            {},
            "spec.trainer.numNodes",
            'subGroupSize 2 of replicatedJob "node" does not divide its 5 pods',
        ),
        (2, groups(4), {}, "spec.trainer.numNodes", "does not divide its 2 pods"),
        (4, groups(2, "nodes"), {}, "spec.runtimeRef", 'replicatedJob "nodes" is not a member of the gang'),
        (258, groups(2), {}, "spec.runtimeRef", "129 groups in each replica; at most 128"),
        (4, groups(2), {"volcano_version": "1.13.2"}, "spec.runtimeRef", "Volcano 1.13.2 has no subgroups"),
        (4, groups(2, mode="hard"), {"scheduler_features": frozenset({"gang"})}, "spec.runtimeRef", "is disabled"),
        (
            4,
            groups(2, highestTierAllowed=3),
            {"tiers": FABRIC},
            "spec.runtimeRef",
            "3 is not a limit: the highest tier",
        ),
        (4, groups(2, highestTierName="row"), {"tiers": FABRIC}, "spec.runtimeRef", 'the fabric has no tier "row"'),
        (4, groups(2, highestTierName="rack"), {}, "spec.runtimeRef", 'the number of "rack" is unknown'),
        (
            4,
            {"networkTopology": {"highestTierName": "rack"}, **groups(2, highestTierName="spine")},
            {"tiers": FABRIC},
            "spec.runtimeRef",
            "tier 2 has no effect, because the gang is limited to tier 1",
        ),
        (
            4,
            {"minTaskMember": {"nodes": 1}},
            {},
            "spec.runtimeRef",
            'replicatedJob "nodes" does not start with the gang',
        ),
    ],
)
def test_groups_that_volcano_would_ignore_are_refused(
    nodes: int, volcano: Any, context: Any, path: str, message: str
) -> None:
    answer = verdict(train_job(trainer={"numNodes": nodes}), torch(volcano=volcano), **context)
    error = only(answer.errors)
    assert (error.path, message in error.message) == (path, True), error


@pytest.mark.parametrize(
    ("limits", "found"),
    [({"minNodes": 2, "maxNodes": 8}, "4 of replicatedJob"), ({"minNodes": 4, "maxNodes": 8}, None)],
)
def test_an_elastic_job_starts_with_whole_groups(limits: dict[str, int], found: str | None) -> None:
    of = runtime(trainer(), mlPolicy={"torch": {"elasticPolicy": limits}}, podGroupPolicy={"volcano": groups(4)})
    errors = verdict(train_job(), of).errors
    assert [found in error.message for error in errors if found] == ([True] if found else [])
    assert bool(errors) == bool(found)


def test_pods_without_an_index_have_no_groups() -> None:
    of = torch(trainer(job={"completionMode": "NonIndexed"}), volcano=groups(2))
    assert "have no index" in only(verdict(train_job(trainer={"numNodes": 4}), of).errors).message
    of = torch(trainer(job={"completionMode": "NonIndexed"}), volcano=groups(4))
    assert verdict(train_job(trainer={"numNodes": 4}), of).allowed


def test_ignored_soft_topologies_are_warned_about() -> None:
    job = train_job(trainer={"numNodes": 4})
    answer = verdict(job, torch(volcano={"networkTopology": {"mode": "soft"}, **groups(2)}), scheduler_features=ON)
    assert answer.allowed
    assert "no effect on pods in subgroups" in only(answer.warnings).message
    answer = verdict(job, torch(volcano=groups(2, mode="soft")), scheduler_features=frozenset({"gang"}))
    assert "subGroupPolicy[node].networkTopology has no effect" in only(answer.warnings).message


def elastic_with_servers(minimums: dict[str, int]) -> Any:
    return runtime(
        trainer(),
        replicated_job("server", job={"parallelism": 2, "completions": 2}),
        mlPolicy={"torch": {"elasticPolicy": {"minNodes": 4, "maxNodes": 8}}},
        podGroupPolicy={"volcano": {"minTaskMember": minimums}},
    )


def test_minimums_of_replicated_jobs_become_those_of_tasks() -> None:
    of = elastic_with_servers({"server": 2, "node": 4})
    spec = objects(train_job(), of)["PodGroup"]["spec"]
    assert (spec["minMember"], spec["minTaskMember"]) == (6, {"node": 4, "server": 2})
    marked = {name: template["metadata"]["annotations"].get(TASK) for name, template in pods(train_job(), of).items()}
    assert marked == {"node": "node", "server": "server"}


@pytest.mark.parametrize(
    ("minimums", "message"),
    [({"server": 3}, "3 exceeds the 2 pods"), ({"server": 2, "node": 5}, "its sum 7 exceeds minMember 6")],
)
def test_minimums_that_do_not_hold_are_refused(minimums: dict[str, int], message: str) -> None:
    assert message in only(verdict(train_job(), elastic_with_servers(minimums)).errors).message


def test_a_train_job_cannot_set_groups_and_minimums() -> None:
    """The schema of patches is upstream's, which has no policies."""
    policy = {"podGroupPolicy": {"volcano": {"minTaskMember": {"node": 2}, **groups(2)}}}
    patch = {"manager": "example.com/user", "trainingRuntimeSpec": policy}
    job, gang = train_job(runtimePatches=[patch], **policy), torch(volcano={})
    unknown = "unknown field: the API server drops it", "set it in the runtime: a TrainJob cannot change it"
    assert [(each.path, each.message, each.fix) for each in verdict(job, gang).warnings] == [
        ("spec.podGroupPolicy", *unknown),
        ("spec.runtimePatches[0].trainingRuntimeSpec.podGroupPolicy", *unknown),
    ]
    assert not {"minTaskMember", "subGroupPolicy"} & objects(job, gang)["PodGroup"]["spec"].keys()
