"""Strategic merge: Kubernetes' semantics, list order included."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.jobs.render.merge import merge_resources, strategic_merge


def names(*values: str) -> list[dict[str, str]]:
    return [{"name": value} for value in values]


@pytest.mark.parametrize(
    ("original", "patch", "merged"),
    [
        ("ab", "x", "xab"),
        ("ab", "b", "ab"),
        ("ab", "a", "ab"),
        ("abc", "cx", "abcx"),
        ("abc", "xc", "xabc"),
        ("abc", "ca", "bca"),
        ("abc", "", "abc"),
        ("", "xy", "xy"),
        ("abcd", "bxd", "abxcd"),
    ],
)
def test_lists_of_named_items_keep_kubernetes_order(original: str, patch: str, merged: str) -> None:
    result = strategic_merge({"env": names(*original)}, {"env": names(*patch)})
    assert "".join(item["name"] for item in result["env"]) == merged


@pytest.mark.parametrize(
    ("field", "key"),
    [
        ("containers", "name"),
        ("initContainers", "name"),
        ("imagePullSecrets", "name"),
        ("schedulingGates", "name"),
        ("volumeMounts", "mountPath"),
    ],
)
def test_items_of_the_same_key_are_merged(field: str, key: str) -> None:
    merged = strategic_merge({field: [{key: "a", "one": 1, "two": 2}]}, {field: [{key: "a", "two": 3}]})
    assert merged == {field: [{key: "a", "one": 1, "two": 3}]}


def test_tolerations_and_lists_inside_affinity_are_replaced() -> None:
    original = {"tolerations": [{"key": "a"}], "affinity": {"podAffinity": {"required": [1], "kept": True}}}
    patch = {"tolerations": [{"key": "b"}], "affinity": {"podAffinity": {"required": [2]}}}
    assert strategic_merge(original, patch) == {
        "tolerations": [{"key": "b"}],
        "affinity": {"podAffinity": {"required": [2], "kept": True}},
    }


@pytest.mark.parametrize("field", ["tolerations", "volumes", "env", "initContainers", "schedulingGates", "finalizers"])
def test_an_empty_list_changes_nothing(field: str) -> None:
    assert strategic_merge({field: [{"name": "a"}]}, {field: []}) == {field: [{"name": "a"}]}
    assert strategic_merge({}, {field: []}) == {}


def test_an_empty_list_that_its_type_requires_replaces_the_list() -> None:
    original = {"required": {"nodeSelectorTerms": [{"matchFields": []}]}}
    assert strategic_merge(original, {"required": {"nodeSelectorTerms": []}}) == {"required": {"nodeSelectorTerms": []}}


def test_maps_are_merged_key_by_key() -> None:
    original = {"nodeSelector": {"a": "1", "b": "2"}, "securityContext": {"runAsUser": 1, "fsGroup": 2}}
    merged = strategic_merge(original, {"nodeSelector": {"b": "3"}, "securityContext": {"fsGroup": 4}})
    assert merged == {"nodeSelector": {"a": "1", "b": "3"}, "securityContext": {"runAsUser": 1, "fsGroup": 4}}


def test_finalizers_are_united() -> None:
    assert strategic_merge({"finalizers": ["a", "b"]}, {"finalizers": ["b", "c"]}) == {"finalizers": ["a", "b", "c"]}


@pytest.mark.parametrize(
    ("field", "original", "patch", "merged"),
    [
        (
            "volumes",
            {"name": "v", "emptyDir": {}},
            {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
        ),
        (
            "volumes",
            {"name": "v", "configMap": {"name": "c"}},
            {"name": "v", "configMap": {"optional": True}},
            {"name": "v", "configMap": {"name": "c", "optional": True}},
        ),
        ("volumes", {"name": "v", "emptyDir": {}}, {"name": "v"}, {"name": "v", "emptyDir": {}}),
        (
            "env",
            {"name": "A", "value": "1"},
            {"name": "A", "valueFrom": {"fieldRef": {}}},
            {"name": "A", "valueFrom": {"fieldRef": {}}},
        ),
        ("env", {"name": "A", "valueFrom": {"fieldRef": {}}}, {"name": "A", "value": "1"}, {"name": "A", "value": "1"}),
        (
            "env",
            {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}},
            {"name": "A", "valueFrom": {"secretKeyRef": {"key": "k"}}},
            {"name": "A", "valueFrom": {"secretKeyRef": {"key": "k"}}},
        ),
    ],
)
def test_a_new_source_replaces_the_old_one(
    field: str, original: dict[str, Any], patch: dict[str, Any], merged: dict[str, Any]
) -> None:
    assert strategic_merge({field: [original]}, {field: [patch]}) == {field: [merged]}


def test_neither_input_is_changed() -> None:
    original = {"containers": [{"name": "a", "env": names("x")}]}
    patch = {"containers": [{"name": "a", "env": names("y")}, {"name": "b"}]}
    strategic_merge(original, patch)
    assert original == {"containers": [{"name": "a", "env": names("x")}]}
    assert patch == {"containers": [{"name": "a", "env": names("y")}, {"name": "b"}]}


def test_resources_are_merged_per_key_and_claims_by_name() -> None:
    base = {"limits": {"cpu": "1", "gpu": "2"}, "requests": {"cpu": "1"}, "claims": names("a")}
    override = {"limits": {"gpu": "4"}, "claims": names("a", "b")}
    assert merge_resources(base, override) == {
        "limits": {"cpu": "1", "gpu": "4"},
        "requests": {"cpu": "1"},
        "claims": names("a", "b"),
    }
