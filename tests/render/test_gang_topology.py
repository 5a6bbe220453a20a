"""Volcano: a limit in the fabric is held or refused, never dropped."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.builders import objects, only, torch, train_job, verdict
from trainyard.api import Platform
from trainyard.jobs.render.platform_facts import context_of
from trainyard.jobs.render.result import RenderContext

FABRIC = {"rack": 1, "spine": 3}
ON = frozenset({"gang", "network-topology-aware"})


def asked(topology: dict[str, Any], **context: Any) -> Any:
    return objects(train_job(), torch(volcano={"networkTopology": topology}), **context)["PodGroup"]["spec"][
        "networkTopology"
    ]


@pytest.mark.parametrize(
    ("topology", "context", "written"),
    [
        ({}, {}, {"mode": "hard", "highestTierAllowed": 1}),
        ({"highestTierAllowed": 7}, {}, {"mode": "hard", "highestTierAllowed": 7}),
        ({"highestTierAllowed": 2}, {"tiers": FABRIC}, {"mode": "hard", "highestTierAllowed": 2}),
        ({"mode": "soft", "highestTierAllowed": 9}, {"tiers": FABRIC}, {"mode": "soft", "highestTierAllowed": 9}),
        ({"mode": "soft"}, {"tiers": {}}, {"mode": "soft", "highestTierAllowed": 1}),
        ({"highestTierName": "rack"}, {}, {"mode": "hard", "highestTierName": "rack"}),
        ({"highestTierName": "spine"}, {"tiers": FABRIC}, {"mode": "hard", "highestTierName": "spine"}),
        (
            {"highestTierName": "spine"},
            {"tiers": FABRIC, "volcano_version": "v1.14.1"},
            {"mode": "hard", "highestTierName": "spine"},
        ),
        (
            {"highestTierName": "spine"},
            {"tiers": FABRIC, "volcano_version": "1.13.2"},
            {"mode": "hard", "highestTierAllowed": 3},
        ),
        (
            {"highestTierName": "rack", "highestTierAllowed": 1},
            {"scheduler_features": ON},
            {"mode": "hard", "highestTierName": "rack"},
        ),
    ],
)
def test_a_limit_becomes_the_pod_groups(topology: Any, context: Any, written: Any) -> None:
    assert asked(topology, **context) == written


@pytest.mark.parametrize(
    ("topology", "context", "message"),
    [
        ({}, {"scheduler_features": frozenset({"gang"})}, "network-topology-aware is disabled"),
        ({"highestTierName": "rack"}, {"scheduler_features": frozenset()}, "network-topology-aware is disabled"),
        ({"highestTierAllowed": 4}, {"tiers": FABRIC}, "4 is not a limit: the highest tier is 3"),
        ({}, {"tiers": {}}, "the fabric has no tiers"),
        ({"highestTierAllowed": 0}, {"tiers": FABRIC}, "0 is below the lowest tier, 1"),
        ({"highestTierName": "row"}, {"tiers": FABRIC}, 'no tier "row"'),
        ({"mode": "soft", "highestTierName": "row"}, {"tiers": FABRIC}, 'no tier "row"'),
        ({"highestTierName": "rack"}, {"volcano_version": "1.13.2"}, "supports only tier numbers"),
    ],
)
def test_a_limit_that_volcano_would_drop_is_refused(topology: Any, context: Any, message: str) -> None:
    error = only(verdict(train_job(), torch(volcano={"networkTopology": topology}), **context).errors)
    assert (error.path, message in error.message) == ("spec.runtimeRef", True), error


def test_an_ignored_soft_topology_is_warned_about() -> None:
    of = torch(volcano={"networkTopology": {"mode": "soft"}})
    answer = verdict(train_job(), of, scheduler_features=frozenset({"gang"}))
    assert answer.allowed
    assert "has no effect" in only(answer.warnings).message


@pytest.mark.parametrize(
    ("spec", "features", "tiers"),
    [
        ({}, None, None),
        ({"schedulerFeatures": ["gang"]}, frozenset({"gang"}), {}),
        ({"tiers": [{"name": "rack", "tier": 1}]}, None, {"rack": 1}),
    ],
)
def test_the_platform_says_what_is_on_and_which_tiers_there_are(spec: Any, features: Any, tiers: Any) -> None:
    platform = Platform.from_body({"metadata": {"name": "platform"}, "spec": spec})
    context = context_of(platform, RenderContext(default_queue="leaf"))
    assert (context.default_queue, context.scheduler_features, context.tiers) == ("leaf", features, tiers)
    assert context_of(None, context) is context
