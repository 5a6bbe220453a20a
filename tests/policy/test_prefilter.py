"""Rules that are not asked, because their texts do not occur in a request."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.policy.shipped import CASES, POLICIES, RULES
from trainyard.policy.prefilter import Prefilter
from trainyard.policy.rules.admission_rule import AdmissionRule, RuleInput
from trainyard.policy.rules.rule_catalog import rego_source
from trainyard.policy.testing.cases import Case, CaseDecision, load_world, spec_of

WORLD = load_world(POLICIES)
REFUSED = [case for case in CASES if case.verdict is not CaseDecision.ALLOW]


def request(**fields: Any) -> dict[str, Any]:
    return {"object": None, "oldObject": None, "runtime": None, **fields}


def rego(rule: AdmissionRule) -> str:
    return rego_source(rule, POLICIES / rule.family / f"{rule.id}-{rule.slug}")


def pod(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_a_rule_that_finds_something_is_asked(case: Case) -> None:
    content = case.content
    platform = spec_of(WORLD.platform, content.platform)
    if "parameters" in content.paths:
        pytest.skip("what is refused for want of parameters is refused unasked")
    asked = request(
        object=content.object, oldObject=content.old_object, runtime=content.runtime, options=content.options
    )
    prefilter = Prefilter([case.rule], {case.rule.id: content.parameters})
    assert prefilter.excluded(asked, platform) == {}


def test_a_rule_without_its_texts_is_not_asked() -> None:
    prefilter = Prefilter(RULES, {})
    muted = prefilter.excluded(
        request(object=pod(containers=[{"name": "a"}])), {"acceleratorResources": ["nvidia.com/gpu"]}
    )
    assert {"ACC-001", "ACC-002", "ESC-001", "QUE-002", "TEN-007"} <= set(muted)
    assert {"IMG-001", "TEN-004"}.isdisjoint(muted)


def test_texts_of_the_platform_and_of_parameters_count() -> None:
    asked = request(object=pod(containers=[{"name": "a", "resources": {"limits": {'example.com/a"b&c': 1}}}]))
    accelerators = Prefilter([rule for rule in RULES if rule.id == "ACC-001"], {})
    assert accelerators.excluded(asked, {"acceleratorResources": ['example.com/a"b&c']}) == {}
    assert accelerators.excluded(asked, {"acceleratorResources": ["example.com/b"]}) == {"ACC-001": True}
    assert accelerators.excluded(asked, None) == {"ACC-001": True}
    ceiling = [rule for rule in RULES if rule.id == "ACC-002"]
    assert Prefilter(ceiling, {}).excluded(asked, None) == {"ACC-002": True}
    assert Prefilter(ceiling, {"ACC-002": {"resources": ['example.com/a"b&c']}}).excluded(asked, None) == {}


def test_what_texts_say_after_the_sign_counts() -> None:
    job = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "spec": {"trainer": {"env": []}}}
    rules = [rule for rule in RULES if rule.id == "ENV-002"]
    reserved = Prefilter(rules, {"ENV-002": {"reserved": ["torch=PET_*", "mpi=HOSTS"]}})
    for name, mute in (("PET_NNODES", False), ("HOSTS", False), ("torch", True), ("PATH", True)):
        spec = {"trainer": {"env": [{"name": name, "value": "*"}]}}
        assert ("ENV-002" in reserved.excluded(request(object={**job, "spec": spec}), None)) is mute
    assert Prefilter(rules, {"ENV-002": {"reserved": ["any=*"]}}).excluded(request(object=job), None) == {}


def test_a_parameter_that_is_true_asks_of_everything() -> None:
    rules = [rule for rule in RULES if rule.id == "RST-001"]
    job = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "spec": {}}
    assert Prefilter(rules, {}).excluded(request(object=job), None) == {"RST-001": True}
    assert Prefilter(rules, {"RST-001": {"deadlineRequired": True}}).excluded(request(object=job), None) == {}


def test_only_rules_that_see_the_runtime_look_there() -> None:
    job = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "spec": {}}
    label = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer", "trainer.kubeflow.org/support": "deprecated"}
    muted = Prefilter(RULES, {}).excluded(request(object=job, runtime={"metadata": {"labels": label}}), None)
    assert "LBL-001" in muted
    assert "LBL-004" not in muted


def test_rules_that_read_the_runtime_say_so() -> None:
    reading = {rule.id for rule in RULES if "request.runtime" in rego(rule)}
    assert reading == {rule.id for rule in RULES if rule.sees is RuleInput.RUNTIME}


def test_what_was_there_before_counts() -> None:
    patched = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "spec": {"runtimePatches": [{}]}}
    plain = {**patched, "spec": {}}
    prefilter = Prefilter([rule for rule in RULES if rule.id == "TEN-006"], {})
    assert prefilter.excluded(request(object=plain), None) == {"TEN-006": True}
    assert prefilter.excluded(request(object=plain, oldObject=patched), None) == {}
    assert prefilter.excluded(request(oldObject=patched), None) == {}


@pytest.mark.parametrize("subject", [None, {}, {"kind": 5}, {"apiVersion": "v1", "kind": "Endpoints"}])
def test_what_no_rule_reviews_mutes_none(subject: Any) -> None:
    assert Prefilter(RULES, {}).excluded(request(object=subject), None) == {}


def test_what_the_faster_library_cannot_write_is_reviewed() -> None:
    prefilter = Prefilter([rule for rule in RULES if rule.id == "ESC-001"], {})
    for odd in (2**70, "\ud800"):
        with pytest.raises(TypeError):
            orjson.dumps(odd)
        assert prefilter.excluded(request(object=pod(odd=odd, hostPID=True)), None) == {}
