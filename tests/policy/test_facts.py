"""What a TenantPolicy and the Platform say, as annotations."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard.api.tenancy import PlatformSpec, TenantPolicySpec
from trainyard.policy.engines.vap.facts import FACTS_PREFIX, platform_facts, policy_facts_in, tenant_facts


def short(facts: dict[str, str]) -> dict[str, str]:
    return {key.removeprefix(FACTS_PREFIX): value for key, value in facts.items()}


def test_a_tenant_policy_is_five_facts() -> None:
    spec = {
        "queues": ["vision", "shared"],
        "runtimes": ["*"],
        "priorityClasses": [],
        "serviceAccounts": ["default"],
        "maxAcceleratorsPerJob": 16,
    }
    assert short(tenant_facts(spec)) == {
        "queues": "vision,shared",
        "runtimes": "*",
        "priority-classes": "",
        "service-accounts": "default",
        "max-accelerators-per-job": "16",
    }


def test_a_platform_is_four_facts() -> None:
    spec = {
        "leafQueues": ["default", "vision"],
        "acceleratorResources": ["nvidia.com/gpu"],
        "tiers": [{"name": "rack", "tier": 1}, {"name": "a=b", "tier": 3}],
        "schedulerFeatures": ["gang"],
        "exemptNamespaces": ["kube-system"],
    }
    assert short(platform_facts(spec)) == {
        "leaf-queues": "default,vision",
        "accelerator-resources": "nvidia.com/gpu",
        "tiers": "1=rack,3=a=b",
        "scheduler-features": "gang",
    }


def test_an_object_that_is_missing_says_nothing_and_an_empty_one_allows_nothing() -> None:
    assert tenant_facts(None) == platform_facts(None) == {}
    assert set(short(tenant_facts({})).values()) == {"", "unlimited"}
    assert set(platform_facts({}).values()) == {""}


@pytest.mark.parametrize("value", ["8", 1.5, True, -1, [8], {}])
def test_a_ceiling_that_is_no_number_allows_nothing(value: Any) -> None:
    assert short(tenant_facts({"maxAcceleratorsPerJob": value}))["max-accelerators-per-job"] == "0"


@pytest.mark.parametrize("value", ["vision", {"vision": 1}, 3, [None, 3, "", "a,b"]])
def test_what_names_nothing_is_left_out(value: Any) -> None:
    assert short(tenant_facts({"queues": value}))["queues"] == ""


def test_the_largest_objects_fit_into_annotations() -> None:
    def full(model: type[TenantPolicySpec] | type[PlatformSpec]) -> dict[str, Any]:
        spec: dict[str, Any] = {}
        for name, schema in model.model_json_schema()["properties"].items():
            item = schema.get("items", {})
            if "maxLength" in item:
                spec[name] = [f"{index:0{item['maxLength']}}" for index in range(schema["maxItems"])]
        return spec

    tiers = [{"name": "t" * 63, "tier": 2**31 - 1}] * 16
    for facts in (tenant_facts(full(TenantPolicySpec)), platform_facts({**full(PlatformSpec), "tiers": tiers})):
        size = sum(len(key) + len(value) for key, value in facts.items())
        assert 80_000 < size < 90_000


FIELDS = st.sampled_from(["queues", "tiers", "leafQueues", "maxAcceleratorsPerJob"])
LEAVES = st.none() | st.booleans() | st.integers() | st.text()


@pytest.mark.slow
@given(st.recursive(LEAVES, lambda each: st.lists(each) | st.dictionaries(FIELDS, each)))
def test_any_spec_gives_facts(spec: Any) -> None:
    given_spec = spec if isinstance(spec, dict) else {"queues": spec, "tiers": spec, "maxAcceleratorsPerJob": spec}
    for facts in (tenant_facts(given_spec), platform_facts(given_spec)):
        assert all(isinstance(value, str) for value in facts.values())
        assert policy_facts_in({**facts, "other": "x"}) == facts
