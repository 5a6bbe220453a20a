"""Every field of an installed kind that holds an amount is one that BND-004 bounds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import pytest
import yaml

from components.common.bounded_amounts import BOUNDED, with_bounded_amounts
from trainyard.api import crds
from trainyard.cli.check import policy_program
from trainyard.data import data_folder
from trainyard.policy.engines.opa.bundle import build_bundle
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.testing.cases import Case, CaseContent, CaseDecision, compare, load_world
from trainyard.policy.testing.opa_engine import OpaEngine
from trainyard.quantity import LARGEST, LARGEST_MEMORY, LONG_EXPONENT, MAX_LENGTH
from trainyard.settings.versions import supported_versions
from trainyard.upstream import read

CRDS: Final = (
    ("volcano", "config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml"),
    ("volcano", "config/crd/volcano/bases/batch.volcano.sh_jobs.yaml"),
    ("volcano", "config/crd/volcano/bases/scheduling.volcano.sh_queues.yaml"),
    ("jobset", "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"),
)
OF_VOLCANO: Final = ("status.", "spec.extendClusters")
"""Fields of a Queue that Volcano writes, and those of a feature that no queue of the platform has."""
AMOUNT: Final = "1e19"
OF_WEBHOOKS: Final = {
    ("batch.volcano.sh", "Job"): "jobs",
    ("jobset.x-k8s.io", "JobSet"): "jobsets",
    ("scheduling.volcano.sh", "PodGroup"): "podgroups",
    ("scheduling.volcano.sh", "Queue"): "queues",
    ("trainer.kubeflow.org", "TrainJob"): "trainjobs",
}
"""Groups and kinds that mutating webhooks of other projects get, with the resources."""


def amounts(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the paths of amounts below a schema; ``[]`` is an item of a list, and ``*`` a key of a map."""
    if schema.get("x-kubernetes-int-or-string") and "numkMGTPE" in str(schema.get("pattern", "")):
        yield path
    for name, each in (schema.get("properties") or {}).items():
        yield from amounts(each, f"{path}.{name}".lstrip("."))
    if isinstance(schema.get("items"), dict):
        yield from amounts(schema["items"], f"{path}.[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from amounts(schema["additionalProperties"], f"{path}.*")


def built(steps: list[str], amount: str = AMOUNT) -> Any:
    """Return the object with an amount at a path."""
    if not steps:
        return amount
    inner = built(steps[1:], amount)
    return [inner] if steps[0] == "[]" else {"cpu" if steps[0] == "*" else steps[0]: inner}


@cache
def places() -> tuple[tuple[str, str, str], ...]:
    """Return apiVersion, kind and path of every amount of the installed kinds."""
    upstream = [yaml.safe_load(read(component, supported_versions(component)[0], path)) for component, path in CRDS]
    found = []
    for body in (*upstream, *crds.build(upstream[-1])):
        spec = body["spec"]
        for version in spec["versions"]:
            for path in amounts(version["schema"]["openAPIV3Schema"]):
                if not path.startswith(OF_VOLCANO):
                    found.append((f"{spec['group']}/{version['name']}", spec["names"]["kind"], path))
    return tuple(found)


def located(path: str) -> str:
    """Return a path as findings name it."""
    text = path.replace(".[]", "[0]")
    return f"{text.removesuffix('.*')}[cpu]" if text.endswith(".*") else text


@pytest.mark.cluster
def test_every_amount_of_an_installed_kind_is_bounded() -> None:
    rule = next(rule for rule in load_rules() if rule.id == "BND-004")
    cases = []
    for api_version, kind, path in places():
        body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, **built(path.split("."))}
        content = CaseContent(about=path, object=body, paths=(located(path),))
        cases.append(Case(rule, f"{kind}-{path}", CaseDecision.DENY, content, data_folder("policies")))
    assert len(cases) > 100
    evaluated = OpaEngine(policy_program, build_bundle()).evaluate(cases, load_world(data_folder("policies")))
    results = [compare(case, found) for case, found in zip(cases, evaluated, strict=True)]
    assert "\n".join(f"{each.case.id}: {each.fault}" for each in results if each.fault) == ""


def test_conditions_exist_for_the_kinds_that_webhooks_of_others_get() -> None:
    assert set(BOUNDED) == {(group, resource) for (group, _), resource in OF_WEBHOOKS.items()}


def test_bounds_in_rego_are_those_of_quantities() -> None:
    rego = (data_folder("policies") / "lib" / "amount_bounds.rego").read_text()
    amounts = {"longest": MAX_LENGTH, "largest": LARGEST, "memory": LARGEST_MEMORY}
    assert {name: int(value) for name, value in re.findall(r'(\w+)"?(?: :=|:) ([0-9]+)', rego)} == amounts
    assert re.findall(r"`(.*)`", rego) == [LONG_EXPONENT]


def test_only_mutating_webhooks_are_asked_before_the_rules() -> None:
    rules = [{"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"]}]
    others = [{"apiGroups": [""], "resources": ["pods"]}]
    webhooks = [{"name": "a", "rules": rules}, {"name": "b", "rules": others}]
    bounded = with_bounded_amounts({"kind": "MutatingWebhookConfiguration", "webhooks": webhooks})["webhooks"]
    assert [each["name"] for each in bounded[0]["matchConditions"]] == ["amounts-are-short"]
    assert bounded[1] == webhooks[1]
    both = {"apiGroups": ["jobset.x-k8s.io", "trainer.kubeflow.org"], "resources": ["jobsets", "trainjobs"]}
    several = {"kind": "MutatingWebhookConfiguration", "webhooks": [{"name": "c", "rules": [both]}]}
    (condition,) = with_bounded_amounts(several)["webhooks"][0]["matchConditions"]
    assert all(
        BOUNDED[pair] in condition["expression"] for pair in zip(both["apiGroups"], both["resources"], strict=True)
    )
    validating = {"kind": "ValidatingWebhookConfiguration", "webhooks": webhooks}
    assert with_bounded_amounts(validating) == validating
