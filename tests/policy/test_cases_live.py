"""The proof: the policy server and a real API server review every case as its author says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from components.common.bounded_amounts import BOUNDED, with_bounded_amounts
from tests.policy.deleted_cases import releases, requests_that_say_so, while_deleted
from tests.policy.listed_cases import listed_cases, listed_rules
from tests.policy.test_amounts import OF_WEBHOOKS, built, places
from tests.support import LiveCluster, awaited, require
from trainyard.cli.check import policy_program
from trainyard.data import data_folder
from trainyard.kube.blocking import BlockingSession
from trainyard.policy.engines.opa.bundle import build_bundle
from trainyard.policy.engines.vap.facts import tenant_facts
from trainyard.policy.engines.vap.validating_admission_policies import TENANT_LABEL, admission_objects
from trainyard.policy.rules.admission_rule import EnforcementPoint
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.testing.apiserver import ApiServerEngine
from trainyard.policy.testing.case_files import load_cases
from trainyard.policy.testing.case_run import EngineReport, run_cases
from trainyard.policy.testing.cases import compare, load_world
from trainyard.policy.testing.opa_engine import OpaEngine
from trainyard.policy.testing.rule_scaffold import new_rule
from trainyard.settings.platform import PolicySettings

pytestmark = pytest.mark.cluster

KIND_PATHS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
_CHOSEN = re.compile(r'"(?:t[0-9a-f]{8}-[^"]*|case|elsewhere|vision)"|[0-9]{16,}|[0-9.]+e\+[0-9]+')
"""Names of namespaces and objects, which each engine chooses itself, and amounts beyond the precision of CEL."""


@pytest.fixture(scope="module", autouse=True)
def _suspended(kinds: LiveCluster) -> Iterator[None]:
    """Suspend what would run the old objects of cases, of which some have 10,000 pods."""
    pids = {each["name"]: each["pid"] for each in kinds.status()["processes"]}
    processes = [psutil.Process(pids[name]) for name in ("kube-controller-manager", "kube-scheduler", "kwok")]
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            process.resume()


@pytest.fixture(scope="module")
def reports(kinds: LiveCluster) -> list[EngineReport]:
    return run_cases(program=policy_program, kubeconfig=kinds.kubeconfig)


def test_every_engine_reviews_every_case_as_its_author_says(reports: list[EngineReport]) -> None:
    assert [report.engine for report in reports] == ["OPA", "API server"]
    cases = load_cases(data_folder("policies"), load_rules())
    of_the_api_server = [case for case in cases if case.rule.gate is not EnforcementPoint.OPA and case.has_labels]
    for report, reviewed_cases in zip(reports, (cases, of_the_api_server), strict=True):
        assert [f"{each.case.id}: {each.fault}" for each in report.faults] == []
        assert report.faults == ()
        assert len(report.results) == len(reviewed_cases)


def test_every_engine_uses_the_same_words(reports: list[EngineReport]) -> None:
    """One text of the API server can be about several fields, and is not compared then."""
    by_opa, by_api_server = ({result.case.id: result.evaluation for result in report.results} for report in reports)
    compared, different = 0, []
    for case, said in by_api_server.items():
        if said.messages and len(said.messages) == len(said.paths):
            words, others = ({_CHOSEN.sub("*", each) for each in one.messages} for one in (said, by_opa[case]))
            compared += 1
            different += [(case, sorted(words), sorted(others))] if words != others else []
    assert different == []
    assert compared > len(by_api_server) / 3


def test_a_listed_kind_is_evaluated_like_a_deployment(kinds: LiveCluster) -> None:
    cases, world = listed_cases(), load_world(data_folder("policies"))
    assert len(cases) > 70
    assert len({case.rule.id for case in cases}) > 20
    with BlockingSession(kinds.kubeconfig) as session:
        engines = OpaEngine(policy_program, build_bundle(rules=listed_rules())), ApiServerEngine(session)
        for engine in engines:
            results = [compare(case, found) for case, found in zip(cases, engine.evaluate(cases, world), strict=True)]
            faults = [f"{engine.name}: {each.case.id}: {each.fault}" for each in results if each.fault]
            assert faults == []


def test_a_rule_evaluates_what_a_finalizer_keeps(kinds: LiveCluster) -> None:
    """Only finalizers and owner references of an object that is being deleted change unevaluated."""
    rules = load_rules()
    known = load_cases(data_folder("policies"), rules)
    changed, said = while_deleted(known), list(requests_that_say_so(known))
    cases = [*changed, *releases(known), *said]
    updated = {rule.id for rule in rules if any("UPDATE" in match.operations for match in rule.matches)}
    apart = {rule.id for rule in rules if rule.gate is EnforcementPoint.OPA or (rule.cel and rule.cel.deleting)}
    assert {case.rule.id for case in changed} == updated - apart
    assert {case.rule.id for case in said} == {"TEN-004", "TEN-012"}
    world = load_world(data_folder("policies"))
    with BlockingSession(kinds.kubeconfig) as session:
        for engine in (OpaEngine(policy_program, build_bundle()), ApiServerEngine(session)):
            results = [compare(case, found) for case, found in zip(cases, engine.evaluate(cases, world), strict=True)]
            assert "\n".join(f"{engine.name}: {each.case.id}: {each.fault}" for each in results if each.fault) == ""


def test_a_mutating_webhook_is_not_called_for_amounts_that_are_too_long(kinds: LiveCluster) -> None:
    """Nothing answers at the address of the webhook: a request for which it is called fails."""
    plurals = {kind: plural for (_, kind), plural in OF_WEBHOOKS.items()}
    rules = [
        {"apiGroups": [group], "apiVersions": ["*"], "resources": [name], "operations": ["CREATE"]}
        for group, name in BOUNDED
    ]
    webhooks = [
        {
            "name": f"unanswered-{number}.example.com",
            "rules": [rule],
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }
        for number, rule in enumerate(rules)
    ]
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    configuration = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    body = {**configuration, "metadata": {"name": "unanswered"}, "webhooks": webhooks}

    def called(session: BlockingSession, amount: str, api_version: str, kind: str, place: str) -> bool:
        scope = "" if kind == "Queue" else "/namespaces/default"
        made = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, **built(place.split("."), amount)}
        answer = session.request("POST", f"/apis/{api_version}{scope}/{plurals[kind]}", made, dry_run=True)
        return "failed calling webhook" in answer.message

    asked = [each for each in places() if (each[0].partition("/")[0], each[1]) in OF_WEBHOOKS]
    assert len(asked) > 60
    with BlockingSession(kinds.kubeconfig) as session:
        session.create(path, with_bounded_amounts(body))
        try:
            awaited("the webhook", lambda: called(session, "1", *asked[0]))
            assert [each for each in asked if not called(session, "1", *each)] == []
            assert [each for each in asked if called(session, "1e19", *each)] == []
            assert [each for each in asked if called(session, "0" * 33, *each)] == []
        finally:
            session.request("DELETE", f"{path}/unanswered")


def test_the_scale_of_a_listed_kind_has_the_limits_of_its_pods(kinds: LiveCluster) -> None:
    rules = [rule for rule in listed_rules() if rule.id in ("ACC-002", "BND-001")]
    facts = tenant_facts(load_world(data_folder("policies")).tenant_policy)
    unlimited = tenant_facts({**load_world(data_folder("policies")).tenant_policy, "maxAcceleratorsPerJob": None})
    labels = {TENANT_LABEL: "tenant"}
    body = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "served"}}
    created = []
    with BlockingSession(kinds.kubeconfig) as session:

        def make(path: str, manifest: dict[str, Any]) -> None:
            session.create(path, manifest)
            created.append(f"{path}/{manifest['metadata']['name']}")

        def scaled(namespace: str, replicas: int) -> str:
            path = f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}/rollouts/served/scale"
            return session.request("PATCH", path, {"spec": {"replicas": replicas}}, dry_run=True).message

        try:
            for namespace, annotations in (("scaled", facts), ("scaled-unlimited", unlimited)):
                metadata = {"name": namespace, "labels": labels, "annotations": annotations}
                make("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
                path = f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}/rollouts"
                make(path, {**body, "spec": {"replicas": 2, "template": {"spec": {}}}})
            for policy in admission_objects(rules, PolicySettings(), ()):
                make(f"/apis/{policy['apiVersion']}/{KIND_PATHS[policy['kind']]}", policy)
            awaited("the policies", lambda: scaled("scaled", 3) and scaled("scaled-unlimited", 10_001))
            limited = "98 added replicas cannot be counted; the limit of this namespace is 16"
            assert f"ACC-002 spec: the accelerators of {limited}" in scaled("scaled", 100)
            assert scaled("scaled", 1) == ""
            assert "BND-001 spec.replicas: 10001 pods at once exceed the limit of 10000" in scaled(
                "scaled-unlimited", 10_001
            )
            assert scaled("scaled-unlimited", 10_000) == ""
        finally:
            for path in reversed(created):
                session.request("DELETE", path)


def test_a_new_rule_passes_its_cases_and_a_wrong_case_is_reported(kinds: LiveCluster, tmp_path: Path) -> None:
    new_rule(tmp_path, "ABC-001", "some-thing", "naming")
    command = ("policy", "test", "--kubeconfig", str(kinds.kubeconfig), "--folder", str(tmp_path), "--rule", "ABC-001")
    require(kinds.trainyard(*command))
    answer = json.loads(kinds.trainyard(*command, "-o", "json").stdout)
    assert [report["engine"] for report in answer["engines"]] == ["OPA", "API server"]
    assert not any(result["fault"] for report in answer["engines"] for result in report["results"])
    path = next(tmp_path.glob("*/*/cases.yaml"))
    document = yaml.safe_load(path.read_text())
    wrong = {key: value for key, value in document["cases"][1].items() if key != "paths"}
    document["cases"].append({**wrong, "name": "wrong", "verdict": "allow"})
    path.write_text(yaml.safe_dump(document))
    result = kinds.trainyard(*command)
    assert result.returncode == 1
    assert "expected allow, got warn" in result.stdout


def test_nothing_is_left_behind(kinds: LiveCluster) -> None:
    resources = "validatingadmissionpolicies,validatingadmissionpolicybindings,clusterroles,clusterrolebindings,crd"
    names = require(kinds.kubectl("get", resources, "-o", "name"))
    assert "policy-test" not in names
