"""The proof: the API server, the policy server and the check have equal verdicts on thousands of mutated objects.

``make test`` reviews mutated objects of one seed; the cases as they are have been reviewed by `test_cases_live`.
``TRAINYARD_EQUIVALENCE=NUMBER`` reviews the cases and mutated objects of so many seeds.
"""

from __future__ import annotations

import os

import pytest

from tests.policy.equivalence.proof import prove
from tests.policy.equivalence.verdict_comparison import Tally
from tests.support import LiveCluster
from trainyard.kube.blocking import BlockingSession
from trainyard.local.cluster.toolchain import program_path
from trainyard.policy.rules.admission_rule import EnforcementPoint
from trainyard.policy.rules.rule_catalog import load_rules

pytestmark = pytest.mark.cluster

SEEDS = range(1, 1 + int(os.environ.get("TRAINYARD_EQUIVALENCE", "0"))) or (3,)
OBJECTS = 3000 if 1 in SEEDS else 1500
"""Objects of each seed."""

LEAST = 3
"""How often every rule must be broken and kept."""


@pytest.fixture(scope="module")
def tally(kinds: LiveCluster, tmp_path_factory: pytest.TempPathFactory) -> Tally:
    total = Tally()
    with BlockingSession(kinds.kubeconfig) as session:
        for seed in SEEDS:
            folder = tmp_path_factory.mktemp("equivalence")
            total.add(prove(session, lambda: program_path("opa"), folder, seed=seed, count=OBJECTS))
    return total


def test_every_gate_says_the_same(tally: Tally) -> None:
    print("\n".join(tally.lines()))
    assert not tally.differences, "\n".join(["", *tally.differences[:40], *tally.lines()])


def test_enough_objects_reach_the_policies(tally: Tally) -> None:
    assert tally.counts["reviewed"] >= tally.counts["subjects"] // 2, tally.lines()


def test_every_rule_of_the_api_server_is_broken_and_kept(tally: Tally) -> None:
    rules = [rule.id for rule in load_rules() if rule.gate is EnforcementPoint.ADMISSION]
    lacking = {rule: (tally.violated[rule], tally.kept[rule]) for rule in rules}
    assert {rule: counts for rule, counts in lacking.items() if min(counts) < LEAST} == {}
