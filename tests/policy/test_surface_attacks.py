"""Attacks and legitimate uses of the ledger, at every level: a rule of the entry denies the one, none the other."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any, Final

import pytest

from tests.cluster.bypass import load_attempts
from tests.cluster.surface_requests import one_per_level
from tests.policy.shipped import POLICIES, RULES
from tests.policy.surface_cases import SurfaceCase, in_the_world, levels_without_rules, surface_cases
from tools.reference.surface_ledger import ABSENT, Entry, SurfaceLedger, load_ledger
from trainyard.policy.engines.opa.bundle import build_bundle
from trainyard.policy.testing.cases import CaseDecision, load_world
from trainyard.policy.testing.opa_engine import OpaEngine

RULES_BY_ID: Final = {rule.id: rule for rule in RULES}

WITHOUT_PODS: Final = {"Command", "Namespace", "PersistentVolumeClaim", "PodDisruptionBudget", "PodGroup", "Service"}
"""Kinds whose metadata no component reads as that of a workload."""

OF_OTHER_OBJECTS: Final = {"OBJ-002", "OBJ-003", "LBL-002"}
"""Rules about keys of namespaces, of configurations of the platform, and of runtimes."""


@cache
def surface() -> dict[str, SurfaceCase]:
    """Return the cases of the ledger by name; no other worker needs them."""
    return {each.name: each for each in surface_cases(load_ledger(), RULES_BY_ID)}


@cache
def attempts() -> list[dict[str, Any]]:
    return [each.content for each in load_attempts()]


@cache
def refusals() -> dict[str, str]:
    return {each["attack"]: each.get("refused", "") for each in attempts()}


@cache
def evaluated() -> list[tuple[str, Entry]]:
    return [(name, entry) for name, entry in load_ledger().all() if entry.rules]


def generated(entry: Entry, verdict: CaseDecision) -> bool:
    return any(each.entry is entry and each.verdict is verdict for each in surface().values())


def shown_rules(entry: Entry) -> set[str]:
    return {rule for each in entry.shown for rule in RULES_BY_ID if rule in refusals()[each]}


def test_each_entry_with_a_rule_has_an_attack_and_a_legitimate_use() -> None:
    missing = []
    for name, entry in evaluated():
        if not generated(entry, CaseDecision.DENY) and not shown_rules(entry) & {*entry.rules}:
            missing.append((name, entry.fields, "attack"))
        used = any(not refusals()[each] for each in entry.shown) or entry.legitimate == ABSENT
        if not generated(entry, CaseDecision.ALLOW) and not used:
            missing.append((name, entry.fields, "legitimate"))
    assert missing == [], "add the value, or name under shown a request of tests/cluster/bypass_attempts.yaml"


def test_what_entries_show_is_one_request_about_their_rules() -> None:
    number = Counter(each["attack"] for each in attempts())
    assert [(name, each) for name, entry in evaluated() for each in entry.shown if number[each] != 1] == []
    for name, entry in evaluated():
        for each in entry.shown:
            assert not refusals()[each] or any(rule in refusals()[each] for rule in entry.rules), (name, each)
        uses = sum(not refusals()[each] for each in entry.shown)
        assert not (uses and (entry.legitimate is not None)), (name, entry.fields, "the value shows it")


def test_each_rule_of_the_ledger_denies_an_attack() -> None:
    attacked = {case.rule.id for each in surface().values() if each.verdict is CaseDecision.DENY for case in each.cases}
    attacked |= {rule for _, entry in evaluated() for rule in shown_rules(entry)}
    assert {rule for _, entry in evaluated() for rule in entry.rules} - attacked == set()


def test_a_value_that_no_rule_evaluates_is_an_error() -> None:
    ledger = load_ledger()
    entry = Entry(fields=("spec.type",), by="kube-proxy", effect="takes ports", rules=("TEN-005",), attack="NodePort")
    with pytest.raises(ValueError, match="no rule of"):
        list(surface_cases(SurfaceLedger(ledger.sources, {"Service": (entry,)}), RULES_BY_ID))


def test_no_level_is_left_out_silently() -> None:
    left_out = {
        (type_name, field, kind)
        for type_name, field, kind, rules in levels_without_rules(load_ledger(), RULES_BY_ID)
        if type_name not in ("Annotations", "Labels") or not (kind in WITHOUT_PODS or {*rules} <= OF_OTHER_OBJECTS)
    }
    assert left_out == set(), "let a rule of the entry evaluate the kind, or say in kinds of the entry where it is read"


def test_values_are_put_into_every_container_probe_hook_and_template() -> None:
    places = {".".join(map(str, each.place)) for each in surface().values()}
    for part in (
        *(f"{kind}.0.securityContext" for kind in ("containers", "initContainers", "ephemeralContainers")),
        *("containers.0.lifecycle.preStop", "containers.0.lifecycle.postStart", "initContainers.0.startupProbe"),
        *("containers.0.livenessProbe", "containers.0.readinessProbe", "spec.jobTemplate.metadata.annotations"),
        *("spec.template.metadata.annotations", "replicatedJobs.0.template.metadata.annotations", "spec.annotations"),
    ):
        assert any(part in place for place in places), part


def test_the_ledger_names_attacks_at_every_level() -> None:
    attacks = [each for each in surface().values() if each.verdict is CaseDecision.DENY]
    kinds = {f"{each.body['apiVersion'].split('/')[0]} {each.body['kind']}" for each in attacks}
    assert len(attacks) >= 100
    assert kinds >= {
        "batch Job", "batch.volcano.sh Job", "jobset.x-k8s.io JobSet", "v1 Pod",
        "trainer.kubeflow.org TrainJob", "trainer.kubeflow.org TrainingRuntime",
        "apps Deployment", "apps StatefulSet", "apps ReplicaSet", "v1 ReplicationController", "batch CronJob",
    }  # fmt: skip


@pytest.mark.cluster
def test_a_rule_of_the_entry_denies_each_attack_and_no_legitimate_use() -> None:
    from trainyard.local.cluster.toolchain import program_path

    cases = [case for each in surface().values() for case in each.cases]
    engine = OpaEngine(lambda: program_path("opa"), build_bundle())
    evaluations = engine.evaluate(cases, in_the_world(load_world(POLICIES)))
    verdicts: dict[str, dict[str, CaseDecision | None]] = {}
    for case, evaluation in zip(cases, evaluations, strict=True):
        verdicts.setdefault(case.name, {})[case.rule.id] = evaluation.verdict
    faults = {}
    for name, found in verdicts.items():
        allowed = [verdict is CaseDecision.ALLOW for verdict in found.values()]
        if all(allowed) if surface()[name].verdict is CaseDecision.DENY else not all(allowed):
            faults[name] = found
    assert faults == {}


def test_the_live_platform_gets_hundreds_of_attacks_and_legitimate_uses() -> None:
    chosen = [each for cases in one_per_level(surface().values()).values() for each in cases]
    verdicts = Counter(each.verdict for each in chosen)
    assert verdicts[CaseDecision.DENY] >= 800
    assert verdicts[CaseDecision.ALLOW] >= 500
