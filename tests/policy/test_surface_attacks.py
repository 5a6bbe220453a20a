"""Attacks and legitimate uses of the ledger, at every level: a rule of the entry denies the one, none the other."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from tests.cluster.surface_requests import one_per_level
from tests.policy.shipped import POLICIES, RULES
from tests.policy.surface_cases import in_the_world, surface_cases
from trainyard.policy.engines.opa.bundle import build_bundle
from trainyard.policy.testing.cases import CaseDecision, load_world
from trainyard.policy.testing.opa_engine import OpaEngine
from trainyard.reference.surface_ledger import load_ledger

CASES: Final = {each.name: each for each in surface_cases(load_ledger(), {rule.id: rule for rule in RULES})}


def test_the_ledger_names_attacks_at_every_level() -> None:
    attacks = [each for each in CASES.values() if each.verdict is CaseDecision.DENY]
    kinds = {f"{each.body['apiVersion'].split('/')[0]} {each.body['kind']}" for each in attacks}
    assert len(attacks) >= 100
    assert kinds >= {
        "batch Job", "batch.volcano.sh Job", "jobset.x-k8s.io JobSet", "v1 Pod",
        "trainer.kubeflow.org TrainJob", "trainer.kubeflow.org TrainingRuntime",
        "apps Deployment", "apps StatefulSet", "apps ReplicaSet", "v1 ReplicationController", "batch CronJob",
    }  # fmt: skip


@pytest.mark.cluster
def test_a_rule_of_the_entry_denies_each_attack_and_no_legitimate_use() -> None:
    from trainyard.cluster.toolchain import program_path

    cases = [case for each in CASES.values() for case in each.cases]
    engine = OpaEngine(lambda: program_path("opa"), build_bundle())
    evaluations = engine.evaluate(cases, in_the_world(load_world(POLICIES)))
    verdicts: dict[str, dict[str, CaseDecision | None]] = {}
    for case, evaluation in zip(cases, evaluations, strict=True):
        verdicts.setdefault(case.name, {})[case.rule.id] = evaluation.verdict
    faults = {}
    for name, found in verdicts.items():
        allowed = [verdict is CaseDecision.ALLOW for verdict in found.values()]
        if all(allowed) if CASES[name].verdict is CaseDecision.DENY else not all(allowed):
            faults[name] = found
    assert faults == {}


def test_the_live_platform_gets_hundreds_of_attacks_and_legitimate_uses() -> None:
    chosen = [each for cases in one_per_level(CASES.values()).values() for each in cases]
    verdicts = Counter(each.verdict for each in chosen)
    assert verdicts[CaseDecision.DENY] >= 800
    assert verdicts[CaseDecision.ALLOW] >= 500
