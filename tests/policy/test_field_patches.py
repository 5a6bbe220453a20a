"""Patches of objects: what they change, and which mistakes they report."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from trainyard.policy.testing.field_patches import Patch, patched

BODY: dict[str, Any] = {
    "metadata": {"labels": {"example.com/team": "a"}},
    "spec": {"queue": None, "tasks": [{"name": "a"}, {"name": "b", "replicas": 1}]},
}


@pytest.mark.parametrize(
    ("patch", "path", "value"),
    [
        (Patch(set={"spec.queue": "vision"}), ("spec", "queue"), "vision"),
        (Patch(set={"spec.tasks[1].replicas": True}), ("spec", "tasks", 1, "replicas"), True),
        (Patch(set={"metadata.labels[example.com/team]": ""}), ("metadata", "labels", "example.com/team"), ""),
        (Patch(set={"spec": {}}), ("spec",), {}),
        (Patch(remove=("spec.queue",)), ("spec",), {"tasks": BODY["spec"]["tasks"]}),
        (Patch(remove=("spec.tasks[0]",)), ("spec", "tasks"), [{"name": "b", "replicas": 1}]),
        (Patch(add={"spec.tasks[0].minAvailable": 1}), ("spec", "tasks", 0), {"name": "a", "minAvailable": 1}),
        (Patch(add={"metadata.annotations": {"a": "b"}}), ("metadata", "annotations"), {"a": "b"}),
        (Patch(add={"metadata.labels[]": "c"}), ("metadata", "labels", ""), "c"),
        (Patch(add={"spec.tasks[2]": {"name": "c"}}), ("spec", "tasks", 2), {"name": "c"}),
        (Patch(add={"spec.tasks[0]": {"name": "c"}}), ("spec", "tasks", 1), {"name": "a"}),
        (Patch(set={"spec.tasks[1].name": "c"}, remove=("spec.tasks[0]",)), ("spec", "tasks", 0, "name"), "c"),
    ],
)
def test_a_patch_changes_what_its_paths_name(patch: Patch, path: tuple[Any, ...], value: object) -> None:
    before = copy.deepcopy(BODY)
    body, findings = patched(BODY, patch)
    assert findings == []
    found: Any = body
    for step in path:
        found = found[step]
    assert (found, type(found)) == (value, type(value))
    assert before == BODY


def test_a_value_of_a_patch_is_not_shared() -> None:
    patch = Patch(add={"metadata.annotations": {"a": []}})
    first, second = patched(BODY, patch)[0], patched(BODY, patch)[0]
    first["metadata"]["annotations"]["a"].append(1)
    assert second["metadata"]["annotations"] == {"a": []}


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (
            Patch(set={"spec.queu": "vision"}),
            "set[spec.queu]: spec has no field 'queu'; it has queue, tasks (correct the path, or move it to add)",
        ),
        (
            Patch(set={"metadata.labels[example.com/team]": "a"}),
            "set[metadata.labels[example.com/team]]: the value is already 'a' (remove the change, or correct the path)",
        ),
        (
            Patch(remove=("spec.tasks[2]",)),
            "remove[spec.tasks[2]]: spec.tasks has no item 2; it has 2 items (correct the path)",
        ),
        (
            Patch(add={"sepc.queue": "vision"}),
            "add[sepc.queue]: the object has no field 'sepc'; it has metadata, spec "
            "(correct the path, or add its parent)",
        ),
        (
            Patch(add={"spec.queue": "vision"}),
            "add[spec.queue]: the field exists and is None (move it to set, or correct the path)",
        ),
        (
            Patch(add={"spec.tasks[3]": {}}),
            "add[spec.tasks[3]]: spec.tasks has 2 items (use an index up to 2)",
        ),
        (
            Patch(set={"spec.tasks.name": "c"}),
            "set[spec.tasks.name]: spec.tasks is a list and has no field 'name' (correct the path)",
        ),
        (
            Patch(set={"spec.tasks[0].name.first": "c"}),
            "set[spec.tasks[0].name.first]: spec.tasks[0].name is 'a' and has no field 'first' (correct the path)",
        ),
        *(
            (
                Patch(remove=(path,)),
                f"remove[{path}]: is not a valid field path "
                "(use the format spec.tasks[0].template.metadata.labels[example.com/team])",
            )
            for path in ("", ".spec", "spec.", "spec..queue", "spec[0", "spec]")
        ),
    ],
)
def test_a_change_that_cannot_be_made_is_named_with_its_fix(patch: Patch, message: str) -> None:
    body, findings = patched(BODY, patch)
    assert [str(finding) for finding in findings] == [message]
    assert body == BODY


def test_every_change_that_cannot_be_made_is_named() -> None:
    _, findings = patched(BODY, Patch(set={"a": 1}, remove=("b",), add={"spec.queue": 1, "c": 1}))
    assert [finding.path for finding in findings] == ["set[a]", "remove[b]", "add[spec.queue]"]
