"""What a stack's settings say to rules."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.policy.rules.parameters import StackValues
from trainyard.policy.rules.rule_catalog import load_rules
from trainyard.policy.stack_objects import platform_object, policy_settings
from trainyard.settings.stack import StackSettings
from trainyard.settings.stack_loader import parse_stack

RULES = load_rules()
(CEILING,) = (rule for rule in RULES if rule.id == "ACC-002")


def stack(*accelerators: str, **policies: Any) -> StackSettings:
    fabric = {"acceleratorResources": list(accelerators)}
    return parse_stack({"cluster": {"provider": "embedded"}, "fabric": fabric, "policies": policies}, source="test")


def counted(settings: StackSettings) -> list[str]:
    values = policy_settings(settings, RULES).parameters.get("ACC-002", {})
    resources = CEILING.parameter_values(values)["resources"]
    assert isinstance(resources, list)
    return resources


def test_an_accelerator_of_the_stack_counts_whatever_its_name() -> None:
    default = counted(stack())
    assert counted(stack("example.com/card")) == [*default, "example.com/card"]


def test_what_the_rule_counts_anyway_changes_nothing() -> None:
    settings = stack("nvidia.com/gpu", "google.com/tpu")
    assert policy_settings(settings, RULES) is settings.policies


def test_memory_of_an_accelerator_does_not_become_a_count() -> None:
    parameters = policy_settings(stack("example.com/npu", "nvidia.com/gpumem"), RULES).parameters
    assert not {"ACC-002", "TEN-012"} & parameters.keys()


def test_a_stacks_own_list_is_added_to() -> None:
    parameters = {"ACC-002": {"resources": ["example.com/a"]}}
    assert counted(stack("example.com/card", parameters=parameters)) == ["example.com/a", "example.com/card"]


def test_the_names_of_volcanos_schedulers_are_set_once() -> None:
    document = {"cluster": {"provider": "embedded"}, "volcano": {"schedulerNames": ["volcano-inference"]}}
    settings = parse_stack(document, source="test")
    names = ["volcano", "volcano-inference"]
    assert policy_settings(settings, RULES).parameters == {
        "ACC-001": {"schedulers": names},
        "GNG-001": {"volcano": names},
        "GNG-005": {"schedulers": names},
        "TEN-002": {"schedulers": names},
        "TEN-011": {"schedulers": names},
    }


@pytest.mark.parametrize("wrong", ["all", 3, None])
def test_a_wrong_parameter_is_left_for_its_own_message(wrong: object) -> None:
    settings = stack("example.com/npu", parameters={"ACC-002": {"resources": wrong}})
    assert policy_settings(settings, RULES).parameters["ACC-002"] == {"resources": wrong}


def test_the_taint_of_an_accelerator_of_the_stack_is_tolerated() -> None:
    (choice,) = (rule for rule in RULES if rule.id == "TEN-005")
    values = policy_settings(stack("nvidia.com/gpu", "example.com/npu"), RULES).parameters["TEN-005"]
    assert values == {"taints": [*choice.parameter_values({})["taints"], "example.com/npu"]}  # type: ignore[misc]


def server(namespace: str) -> dict[str, Any]:
    return {"service": "kubeflow-trainer-controller-manager", "namespace": namespace, "port": 10443}


@pytest.mark.parametrize(
    ("trainer", "wanted"),
    [
        ({}, None),
        ({"progressReports": True}, server("kubeflow-system")),
        ({"progressReports": True, "namespace": "mine"}, server("mine")),
        ({"progressReports": True, "install": "existing"}, None),
    ],
)
def test_the_platform_takes_reports_where_the_trainer_is_ours(trainer: dict[str, Any], wanted: object) -> None:
    settings = parse_stack({"cluster": {"provider": "embedded"}, "trainer": trainer}, source="test")
    assert platform_object(settings)["spec"].get("statusServer") == wanted


def test_any_rule_may_add_values_of_the_stack() -> None:
    schema = CEILING.parameters["resources"].model_copy(update={"adds": StackValues(field="acceleratorResources")})
    rule = CEILING.model_copy(update={"id": "OWN-001", "parameters": {"resources": schema}})
    values = policy_settings(stack("nvidia.com/gpu"), [rule]).parameters
    assert values["OWN-001"]["resources"][-1] == "nvidia.com/gpu"
    plain = rule.model_copy(update={"parameters": {"resources": schema.model_copy(update={"adds": None})}})
    assert policy_settings(stack("nvidia.com/gpu"), [plain]).parameters == {}


@pytest.mark.parametrize(
    ("kueue", "wanted"),
    [
        ({}, None),
        ({"install": False}, None),
        *(({"install": on}, ["kueue.x-k8s.io/managed"]) for on in (True, "existing")),
    ],
)
def test_the_finalizer_of_kueue_is_allowed_where_kueue_removes_it(kueue: dict[str, Any], wanted: object) -> None:
    settings = parse_stack({"cluster": {"provider": "embedded"}, "kueue": kueue}, source="test")
    assert policy_settings(settings, RULES).parameters.get("TEN-013", {}).get("finalizers") == wanted


def test_classes_that_preempt_are_those_of_the_stack() -> None:
    classes = {"urgent": {"value": 10}, "patient": {"value": 1, "preempts": False}, "asap": {"value": 20}}
    settings = parse_stack({"cluster": {"provider": "embedded"}, "priorityClasses": classes}, source="test")
    assert policy_settings(settings, RULES).parameters["TEN-011"]["classes"] == ["asap", "urgent"]
