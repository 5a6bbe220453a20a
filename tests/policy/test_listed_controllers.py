"""Kinds that a stack lists: which paths it may name, and the policies that are generated from these."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.policy.listed_cases import CLUSTER, FLOW, LISTED, ROLLOUT, listed_rules
from tests.policy.shipped import RULES
from trainyard.errors import TrainyardError
from trainyard.policy.engines.vap.validating_admission_policies import admission_objects
from trainyard.policy.prefilter import Prefilter
from trainyard.policy.rules.listed_controllers import with_listed_controllers
from trainyard.settings.platform import PodControllerSettings, PodTemplateSettings, PolicySettings


def policy(rule: str) -> dict[str, Any]:
    made = admission_objects(listed_rules(), PolicySettings(), ())
    return next(dict(each["spec"]) for each in made if each["metadata"]["name"] == f"{rule.lower()}.trainyard.dev")


def variable(rule: str, name: str) -> str:
    return next(str(each["expression"]) for each in policy(rule)["variables"] if each["name"] == name)


@pytest.mark.parametrize(
    "path",
    ["template", "spec.[].template", "spec.a[]", "spec.a[].b[].c", "spec..a", "spec.a-b", "", "spec.in", "a[].true.b"],
)
def test_a_path_names_fields_and_at_most_one_list(path: str) -> None:
    with pytest.raises(ValidationError):
        PodTemplateSettings(path=path)


def test_the_number_of_pods_is_a_field_that_cel_can_read() -> None:
    with pytest.raises(ValidationError, match="null is a word of CEL"):
        PodTemplateSettings(path="spec.template", replicas="null")


def test_a_kind_that_the_rules_evaluate_cannot_be_listed() -> None:
    names = {"group": "jobset.x-k8s.io", "version": "v1alpha2", "kind": "JobSet", "resource": "jobsets"}
    job_set = PodControllerSettings.model_validate(names)
    with pytest.raises(TrainyardError) as caught:
        with_listed_controllers(RULES, (ROLLOUT, job_set, ROLLOUT))
    assert [str(finding).partition(":")[0] for finding in caught.value.findings] == [
        "policies.podControllers[1]",
        "policies.podControllers[2]",
    ]


def test_the_rules_of_deployments_match_a_listed_kind() -> None:
    for before, after in zip(RULES, listed_rules(), strict=True):
        deployment = any(match.kind == "Deployment" for match in before.matches)
        added = [(match.group, match.kind) for match in after.matches[len(before.matches) :] if match.kind != "Scale"]
        assert added == (
            [("argoproj.io", "Rollout"), ("ray.io", "RayCluster"), ("flow.example", "Flow")] if deployment else []
        )


def test_the_scale_of_a_listed_kind_is_evaluated_where_that_of_a_deployment_is() -> None:
    scales = [f"{kind.resource}/scale" for kind in LISTED]
    found = []
    for before, after in zip(RULES, listed_rules(), strict=True):
        added = [match.resource for match in after.matches[len(before.matches) :] if match.kind == "Scale"]
        assert added == (scales if any(match.resource == "deployments/scale" for match in before.matches) else [])
        found += [before.id] if added else []
    assert found == ["ACC-002", "BND-001"]
    rules = policy("ACC-002")["matchConstraints"]["resourceRules"]
    flows = {"apiGroups": ["flow.example"], "apiVersions": ["v1"], "operations": ["UPDATE"]}
    assert rules[-1] == {**flows, "resources": ["flows/scale"], "scope": "Namespaced"}


def test_the_policy_reads_the_templates_at_their_paths() -> None:
    resources = [each["resources"] for each in policy("ESC-003")["matchConstraints"]["resourceRules"]]
    assert resources[-3:] == [["rollouts"], ["rayclusters"], ["flows"]]
    pods = variable("ESC-003", "everyPod")
    assert pods.partition(' + (variables.subject.apiVersion.startsWith("flow.example/")')[0].endswith(
        ' + (variables.subject.apiVersion.startsWith("argoproj.io/") && variables.subject.kind == "Rollout" '
        '&& !variables.continued ? [{"path": dyn("spec.template.spec"), '
        '"spec": variables.subject.?spec.?template.?spec.orValue(dyn({})), '
        '"copies": variables.subject.?spec.?replicas.orValue(dyn(1))}] : [])'
        ' + (variables.subject.apiVersion.startsWith("ray.io/") && variables.subject.kind == "RayCluster" '
        '&& !variables.continued ? [{"path": dyn("spec.headGroupSpec.template.spec"), '
        '"spec": variables.subject.?spec.?headGroupSpec.?template.?spec.orValue(dyn({})), "copies": dyn(1)}] : [])'
        ' + (variables.subject.apiVersion.startsWith("ray.io/") && variables.subject.kind == "RayCluster" '
        "&& !variables.continued ? variables.subject.?spec.?workerGroupSpecs.orValue([]).transformList(i, item, "
        '{"path": dyn("spec.workerGroupSpecs[" + string(i) + "].template.spec"), '
        '"spec": item.?template.?spec.orValue(dyn({})), "copies": item.?replicas.orValue(dyn(1))}) : [])'
    )


def test_what_the_controllers_of_the_cluster_continue_is_a_kind_of_kubernetes() -> None:
    """A listed kind may have the name of one: StatefulSets of OpenKruise are not written by these controllers."""
    conditions = {each["name"]: each["expression"] for each in policy("ESC-003")["matchConditions"]}
    assert conditions["not-continued"].startswith('request.kind.group.contains(".") || !(request.kind.kind in [')


def test_policies_without_listed_kinds_have_no_placeholders() -> None:
    made = admission_objects(RULES, PolicySettings(), ())
    assert "{listed." not in str(made)
    assert "Rollout" not in str(made)


def test_no_rule_is_skipped_for_a_listed_kind() -> None:
    """Required texts of some rules are the names of the kinds of Kubernetes."""
    rollout = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "web"}, "spec": {}}
    request = {"object": rollout, "oldObject": None, "runtime": None}
    assert Prefilter(listed_rules(), {}).excluded(request, None) == {}
    assert Prefilter(RULES, {}).excluded(
        {**request, "object": {**rollout, "apiVersion": "apps/v1", "kind": "Deployment"}}, None
    )


def test_the_settings_list_kinds() -> None:
    entry = {"group": "argoproj.io", "version": "v1alpha1", "kind": "Rollout", "resource": "rollouts"}
    settings = PolicySettings.model_validate(
        {"podControllers": [entry, *(each.model_dump(by_alias=True) for each in (CLUSTER, FLOW))]}
    )
    assert settings.pod_controllers == LISTED
