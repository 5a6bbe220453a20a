"""Volcano: groups and minimums that a TrainJob requests by annotations of its JobSet template."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.builders import objects, only, patch, replicated_job, runtime, torch, train_job, trainer, verdict
from trainyard.api import TrainJob

FABRIC = {"rack": 1, "spine": 2}
SIZE, TIER = "trainyard.dev/subgroup-size", "trainyard.dev/subgroup-tier"
MINIMUMS = "trainyard.dev/min-task-member"
RACK = {"mode": "hard", "highestTierAllowed": 1}


def job_of(nodes: int, **annotations: str) -> TrainJob:
    found = {{"size": SIZE, "tier": TIER, "minimums": MINIMUMS}[name]: value for name, value in annotations.items()}
    return train_job(trainer={"numNodes": nodes}, runtimePatches=[patch(metadata={"annotations": found})])


def groups_of(job: TrainJob, volcano: dict[str, Any]) -> list[tuple[str, int, Any]]:
    spec = objects(job, torch(volcano=volcano), tiers=FABRIC)["PodGroup"]["spec"]
    return [(each["name"], each["subGroupSize"], each.get("networkTopology")) for each in spec["subGroupPolicy"]]


@pytest.mark.parametrize(("tier", "limit"), [("rack", RACK), ("1", RACK), ("spine", {**RACK, "highestTierAllowed": 2})])
def test_the_nodes_of_a_job_form_groups(tier: str, limit: Any) -> None:
    assert groups_of(job_of(4, size="2", tier=tier), {}) == [("node.0", 2, limit), ("node.1", 2, limit)]


def test_groups_without_a_tier_only_start_as_a_whole() -> None:
    assert groups_of(job_of(2, size="2"), {}) == [("node", 2, None)]


def test_the_field_of_older_releases_requests_them_too() -> None:
    assert groups_of(train_job(annotations={SIZE: "1"}), {}) == [("node", 1, None)]


def test_a_request_changes_only_what_it_names() -> None:
    of_runtime = {"name": "node", "subGroupSize": 4, "networkTopology": {"highestTierName": "rack"}}
    volcano = {"subGroupPolicy": [of_runtime]}
    assert groups_of(job_of(4, size="2"), volcano) == [("node.0", 2, RACK), ("node.1", 2, RACK)]
    wider = {**RACK, "highestTierAllowed": 2}
    assert groups_of(job_of(4, tier="spine"), volcano) == [("node", 4, wider)]


def test_groups_of_other_replicated_jobs_stay() -> None:
    server = replicated_job("server", job={"parallelism": 2, "completions": 2})
    of = torch(trainer(), server, volcano={"subGroupPolicy": [{"name": "server", "subGroupSize": 1}]})
    spec = objects(job_of(4, size="4"), of)["PodGroup"]["spec"]
    assert [(each["name"], each["subGroupSize"]) for each in spec["subGroupPolicy"]] == [("server", 1), ("node", 4)]


@pytest.mark.parametrize(
    ("annotations", "path", "message"),
    [
        ({"size": "0"}, SIZE, "'0' is not a number of nodes"),
        ({"size": "two"}, SIZE, "'two' is not a number of nodes"),
        ({"size": "9999999999"}, SIZE, "is not a number of nodes"),
        ({"size": "2", "tier": ""}, TIER, "'' is not a tier"),
        ({"size": "2", "tier": "x" * 254}, TIER, "is not a tier"),
        ({"tier": "rack"}, TIER, 'the runtime has no groups of replicatedJob "node"'),
        ({"size": "2", "tier": "row"}, TIER, 'the fabric has no tier "row"'),
        ({"size": "2", "tier": "3"}, TIER, "3 is not a limit: the highest tier is 2"),
        ({"minimums": "node"}, MINIMUMS, "'node' is not a list of at most 16 numbers"),
        ({"minimums": ""}, MINIMUMS, "'' is not a list"),
        ({"minimums": "node=1,node=1"}, MINIMUMS, "is not a list"),
        ({"minimums": ",".join(f"n{i}=1" for i in range(17))}, MINIMUMS, "is not a list"),
        ({"minimums": "nodes=1"}, MINIMUMS, 'replicatedJob "nodes" does not start with the gang'),
    ],
)
def test_a_request_that_cannot_be_met_is_refused(annotations: dict[str, str], path: str, message: str) -> None:
    error = only(verdict(job_of(4, **annotations), torch(volcano={}), tiers=FABRIC).errors)
    assert (error.path, message in error.message) == (f"spec.annotations[{path}]", True), error


def test_groups_that_do_not_divide_the_nodes_are_refused() -> None:
    error = only(verdict(job_of(5, size="2"), torch(volcano={})).errors)
    assert (error.path, error.message) == (
        "spec.trainer.numNodes",
        f'{SIZE}: subGroupSize 2 of replicatedJob "node" does not divide its 5 pods',
    )


def test_a_limit_wider_than_that_of_the_gang_is_refused() -> None:
    of = torch(volcano={"networkTopology": {"highestTierName": "rack"}})
    error = only(verdict(job_of(4, size="2", tier="spine"), of, tiers=FABRIC).errors)
    assert error.path == f"spec.annotations[{TIER}]"
    assert f"{TIER}: tier 2 has no effect" in error.message


@pytest.mark.parametrize("annotations", [{"size": "2"}, {"tier": "rack"}, {"minimums": "node=1"}])
def test_a_runtime_without_volcano_is_refused(annotations: dict[str, str]) -> None:
    error = only(verdict(job_of(4, **annotations), torch()).errors)
    assert (error.path[:29], error.message) == (
        "spec.annotations[trainyard.de",
        "has no effect: the runtime has no podGroupPolicy.volcano",
    )


def test_a_runtime_without_a_trainer_has_no_groups() -> None:
    of = runtime(replicated_job("server"), podGroupPolicy={"volcano": {}})
    for name in ("size", "tier"):
        job = train_job(runtimePatches=[patch(metadata={"annotations": {{"size": SIZE, "tier": TIER}[name]: "1"}})])
        assert "has no trainer" in only(verdict(job, of).errors).message


def test_nodes_whose_name_is_too_long_are_an_error_of_the_name() -> None:
    of = torch({**trainer(), "name": "n" * 64}, volcano={})
    errors = verdict(job_of(4, size="2"), of).errors
    assert errors
    assert all("n" * 64 in error.message for error in errors), errors


def test_minimums_replace_those_of_the_runtime_by_name() -> None:
    of = runtime(
        trainer(),
        replicated_job("server", job={"parallelism": 2, "completions": 2}),
        mlPolicy={"torch": {"elasticPolicy": {"minNodes": 4, "maxNodes": 8}}},
        podGroupPolicy={"volcano": {"minTaskMember": {"server": 2, "node": 4}}},
    )
    job = train_job(annotations={MINIMUMS: "server=1, node=4"})
    rendered = objects(job, of)
    assert rendered["PodGroup"]["spec"]["minTaskMember"] == {"node": 4, "server": 1}
    error = only(verdict(train_job(annotations={MINIMUMS: "server=2,node=5"}), of).errors)
    assert (error.path, "its sum 7 exceeds minMember 6" in error.message) == (f"spec.annotations[{MINIMUMS}]", True)
