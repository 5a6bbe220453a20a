"""Values in the notation of Go clients: what is stored, what is equal, what an update changes."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from trainyard.api.go_types import JOB_SPEC, RUNTIME_SPEC, comparable, known, stored_form, with_stored_values

POD = "core.PodSpec"


def trainer(**fields: Any) -> dict[str, Any]:
    return {"trainer": fields}


@pytest.mark.parametrize(
    ("kind", "sent", "stored"),
    [
        (
            JOB_SPEC,
            trainer(resourcesPerNode={"limits": {"a/b": 8}}),
            trainer(resourcesPerNode={"limits": {"a/b": "8"}}),
        ),
        (JOB_SPEC, trainer(env=[], image="", numNodes=2), trainer(image="", numNodes=2)),
        (JOB_SPEC, trainer(command=[], args=[]), trainer(command=[], args=[])),
        (JOB_SPEC, {"trainer": {}, "initializer": None}, {"trainer": {}}),
        (JOB_SPEC, {"suspend": False, "labels": {}}, {"suspend": False}),
        (JOB_SPEC, {"activeDeadlineSeconds": 0}, {"activeDeadlineSeconds": 0}),
        (JOB_SPEC, {"other": []}, {"other": []}),
        (POD, {"hostNetwork": False, "nodeSelector": {}, "volumes": []}, {}),
        (POD, {"volumes": [{"name": "v", "emptyDir": {}}]}, {"volumes": [{"name": "v", "emptyDir": {}}]}),
        (
            POD,
            {"volumes": [{"name": "v", "emptyDir": {"medium": "", "sizeLimit": "1024Mi"}}]},
            {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}]},
        ),
        (POD, {"tolerations": [{"key": "", "operator": "Exists"}]}, {"tolerations": [{"operator": "Exists"}]}),
        (POD, {"overhead": {"cpu": "0.25"}}, {"overhead": {"cpu": "250m"}}),
        ("trainer.RuntimePatch", {"time": "2026-01-01T01:00:00.5+02:00"}, {"time": "2025-12-31T23:00:00Z"}),
        ("trainer.RuntimePatch", {"time": "yesterday"}, {"time": "yesterday"}),
        ("trainer.RuntimePatch", {"time": "2026-W01-1T00:00:00Z"}, {"time": "2026-W01-1T00:00:00Z"}),
        ("trainer.RuntimePatch", {"time": "2026-01-01T00:00:00+00:00:30"}, {"time": "2026-01-01T00:00:00+00:00:30"}),
        ("core.Container", {"image": {}, "args": "", "env": 0}, {"image": {}, "args": "", "env": 0}),
        ("core.Container", {"name": "c", "resources": {}}, {"name": "c", "resources": {}}),
        (
            "core.ResourceFieldSelector",
            {"resource": "limits.cpu", "divisor": "0"},
            {"resource": "limits.cpu", "divisor": "0"},
        ),
        ("jobset.ReplicatedJob", {"name": "", "replicas": 0, "dependsOn": []}, {"name": "", "replicas": 0}),
    ],
)
def test_what_is_stored(kind: str, sent: Any, stored: Any) -> None:
    before = copy.deepcopy(sent)
    assert stored_form(kind, sent) == stored
    assert stored_form(kind, stored) == stored
    assert sent == before


@pytest.mark.parametrize(
    "value", [None, 1, "x", [], [1], {"trainer": 1}, {"trainer": {"env": {"a": 1}}}, {"trainer": [2]}]
)
def test_malformed_values_are_left_to_the_schema(value: Any) -> None:
    assert stored_form(JOB_SPEC, value) == value
    assert with_stored_values(JOB_SPEC, value, {}) == value


def divided(**fields: str) -> dict[str, Any]:
    source = {"resourceFieldRef": {"resource": "limits.cpu", **fields}}
    return {"containers": [{"name": "c", "env": [{"name": "A", "valueFrom": source}]}]}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"overhead": {"cpu": "1.500"}}, {"overhead": {"cpu": "1500m"}}),
        ({"overhead": {"cpu": 1}}, {"overhead": {"cpu": "1"}}),
        ({"containers": [{"name": "c"}]}, {"containers": [{"name": "c", "resources": {}, "env": []}]}),
        ({"containers": [{"name": "c", "stdin": False}]}, {"containers": [{"name": "c"}]}),
        (divided(), divided(divisor="0")),
    ],
)
def test_equal_values_in_other_notations(one: Any, other: Any) -> None:
    assert comparable(POD, one) == comparable(POD, other)
    assert with_stored_values(POD, other, one) == one


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (trainer(args=[]), trainer()),
        (trainer(image=""), trainer()),
        (trainer(), {}),
        ({"initializer": {"dataset": {}}}, {"initializer": {}}),
        (trainer(numNodes=1), trainer(numNodes=True)),
    ],
)
def test_values_with_another_meaning_differ(one: Any, other: Any) -> None:
    assert repr(comparable(JOB_SPEC, one)) != repr(comparable(JOB_SPEC, other))


def test_an_update_keeps_the_notation_of_what_it_does_not_change() -> None:
    old = {
        "trainer": {"resourcesPerNode": {"limits": {"a/b": 8, "cpu": "1000m"}}, "args": []},
        "podTemplateOverrides": [{"targetJobs": [{"name": "node"}], "spec": {"tolerations": []}}],
    }
    sent = {
        "trainer": {"resourcesPerNode": {"limits": {"a/b": "9", "cpu": "1"}}},
        "podTemplateOverrides": [{"targetJobs": [{"name": "node"}], "spec": {}}, {"targetJobs": []}],
    }
    assert with_stored_values(JOB_SPEC, sent, old) == {
        "trainer": {"resourcesPerNode": {"limits": {"a/b": "9", "cpu": "1000m"}}, "args": []},
        "podTemplateOverrides": [{"targetJobs": [{"name": "node"}], "spec": {"tolerations": []}}, {"targetJobs": []}],
    }


def test_entries_are_found_by_name() -> None:
    old = {"runtimePatches": [{"manager": "a.io/a", "time": "2026-01-01T00:00:00+00:00"}, {"manager": "b.io/b"}]}
    sent = {"runtimePatches": [{"manager": "b.io/b"}, {"manager": "a.io/a", "time": "2026-01-01T00:00:00Z"}]}
    patches = with_stored_values(JOB_SPEC, sent, old)["runtimePatches"]
    assert patches == [{"manager": "b.io/b"}, {"manager": "a.io/a", "time": "2026-01-01T00:00:00+00:00"}]


def test_what_a_release_knows() -> None:
    spec = {"runtimeRef": {"name": "r"}, "runtimePatches": [], "labels": {}, "podSpecOverrides": [], "other": 1}
    assert set(known(JOB_SPEC, spec, "2.1")) == {"runtimeRef", "labels"}
    assert set(known(JOB_SPEC, spec, "2.3")) == {"runtimeRef", "runtimePatches"}
    policy = {"mlPolicy": {"torch": {"elasticPolicy": {}}, "jax": {}, "ray": {}}}
    assert known(RUNTIME_SPEC, policy, "2.1") == {"mlPolicy": {"torch": {"elasticPolicy": {}}}}
    assert known(RUNTIME_SPEC, policy, "2.3") == {"mlPolicy": {"torch": {}, "jax": {}}}
