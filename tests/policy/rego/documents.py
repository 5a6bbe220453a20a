"""What the Rego is asked in its tests: the cases of the rules, and requests about the entry point itself."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.policy.equivalence.proof import OWN_SHARE, subjects_of
from tests.policy.equivalence.worlds import NOW, USERS, own_settings
from tests.policy.listed_cases import LISTED, listed_cases
from trainyard.data import data_folder
from trainyard.policy.engines.opa.bundle import build_bundle
from trainyard.policy.engines.vap.validating_admission_policies import TENANT_LABEL
from trainyard.policy.review import AdmissionContext, Review, document_of
from trainyard.policy.rules.listed_controllers import with_listed_controllers
from trainyard.policy.rules.rule_catalog import load_rules, rego_source
from trainyard.policy.testing.case_files import load_cases
from trainyard.policy.testing.cases import Case, load_world
from trainyard.policy.testing.opa_engine import _named, _review
from trainyard.settings.platform import PodControllerSettings, PolicySettings

POLICIES: Final = data_folder("policies")
ENTRY_POINT: Final = Path(__file__).parent / "entry_point.yaml"
_NOW: Final = datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC)
_EXEMPT: Final = "kube-system"
_NAMESAKES: Final = tuple(
    PodControllerSettings.model_validate(each)
    for each in (
        {"group": "apps.kruise.io", "version": "v1beta1", "kind": "StatefulSet", "resource": "statefulsets"},
        {
            "group": "batch.example",
            "version": "v1",
            "kind": "CronJob",
            "resource": "cronjobs",
            "templates": [{"path": "spec.jobTemplate.spec.tasks[].template"}],
        },
    )
)
"""Kinds with names of kinds of Kubernetes."""


def rego_files() -> dict[str, str]:
    """Return the text of every Rego file, also of generated ones, by its path below ``policies/``."""
    shared = sorted((POLICIES / "lib").glob("*.rego"))
    found = {path.relative_to(POLICIES).as_posix(): path.read_text(encoding="utf-8") for path in shared}
    for rule in load_rules(POLICIES):
        name = f"{rule.family}/{rule.id}-{rule.slug}"
        found[f"{name}/rule.rego"] = rego_source(rule, POLICIES / name)
    return found


def rule_data() -> dict[str, Any]:
    """Return the data of the bundle of the shipped rules, with the kinds of the listed cases and their namesakes."""
    rules = with_listed_controllers(load_rules(), (*LISTED, *_NAMESAKES))
    content: dict[str, Any] = json.loads(build_bundle(rules=rules).files["data.json"])
    return content


def case_documents(*, listed: bool = True) -> dict[str, list[tuple[Case, dict[str, Any]]]]:
    """Return each rule's cases with the input by which the policy server reviews them, by id of the rule.

    Parameters
    ----------
    listed
        Whether cases of Deployments are also those of kinds that a stack lists.
    """
    world = load_world(POLICIES)
    rules = load_rules(POLICIES)
    found: dict[str, list[tuple[Case, dict[str, Any]]]] = {rule.id: [] for rule in rules}
    for case in [*load_cases(POLICIES, rules), *(listed_cases() if listed else ())]:
        settings = PolicySettings(parameters={case.rule.id: case.content.parameters})
        context = AdmissionContext(settings, (_EXEMPT,), _NOW, only=[case.rule.id])
        found[case.rule.id].append((case, document_of(_review(case, world), context)))
    return found


def entry_documents() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Return the requests about the entry point: what each shows, its input and the expected decision."""
    content = yaml.safe_load(ENTRY_POINT.read_text(encoding="utf-8"))
    return [
        (each["about"], _changed(content["input"], each.get("input", {})), each["decision"])
        for each in content["requests"]
    ]


def generated_documents(count: int) -> list[dict[str, Any]]:
    """Return the input for objects of the equivalence proof: what the API server and the policy server both review."""
    rules = load_rules(POLICIES)
    clustered = {
        (match.api_version, match.kind) for rule in rules for match in rule.matches if match.scope == "Cluster"
    }
    subjects, worlds = subjects_of(1, count)
    exempt = tuple(home.name for home in worlds.homes.values() if home.exempt)
    shipped, own = PolicySettings(), own_settings(rules, "tenant", [])
    found = []
    for subject in subjects:
        home, user = worlds.homes[subject.home], USERS[subject.user]
        lies_in_none = (subject.shape["apiVersion"], subject.shape["kind"]) in clustered
        namespace = "" if lies_in_none else home.name
        review = Review(
            subject.operation,
            _named(subject.body),
            _named(subject.start.body if subject.start else None),
            namespace=namespace,
            namespace_labels={TENANT_LABEL: "vision"} if home.labelled and namespace else {},
            user=user.name.format(home=namespace),
            groups=[group.format(home=namespace) for group in user.groups],
            administrator=user.administrator,
            platform=worlds.platforms[subject.platform],
            tenant_policy=home.policy if namespace else None,
            subresource=subject.subresource,
        )
        settings = shipped if subject.number % OWN_SHARE else own
        found.append(document_of(review, AdmissionContext(settings, exempt, NOW)))
    return found


def _changed(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return an input with other values for single fields, two levels deep; ``<absent>`` removes one."""
    merged = {**base, **change}
    for name, value in change.items():
        if isinstance(base.get(name), Mapping) and isinstance(value, Mapping) and name not in ("parameters", "states"):
            merged[name] = {key: each for key, each in {**base[name], **value}.items() if each != "<absent>"}
    return {key: value for key, value in merged.items() if value != "<absent>"}
