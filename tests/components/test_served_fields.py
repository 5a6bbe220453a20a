from __future__ import annotations

from typing import Any

import pulumi
import pytest

from components.common.served_fields import Schemas, served

KIND = ("trainyard.dev/v1alpha1", "Platform")


def schemas(**spec: Any) -> Schemas:
    return {KIND: {"type": "object", "properties": {"spec": {"type": "object", **spec}}}}


def platform(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": KIND[0],
        "kind": KIND[1],
        "metadata": {"name": "platform", "labels": {"a": "b"}},
        "spec": spec,
    }


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda message, **_: found.append(message))
    return found


def test_fields_that_are_not_stored_yet_are_left_out_with_a_note(notes: list[str]) -> None:
    tier = {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}}
    stored = schemas(properties={"queues": {"type": "array", "items": {"type": "string"}}, "tiers": tier})
    body = platform(queues=["a"], gates=[], tiers=[{"name": "rack", "size": 4}])
    assert served(body, stored) == platform(queues=["a"], tiers=[{"name": "rack"}])
    [note] = notes
    assert note.startswith("Platform/platform: `up` also sets spec.gates, spec.tiers[0].size")


@pytest.mark.parametrize(
    "spec",
    [
        {"x-kubernetes-preserve-unknown-fields": True},
        {"additionalProperties": {"type": "string"}},
        {"properties": {"queues": {"type": "array"}}},
    ],
)
def test_fields_that_are_stored_stay(spec: dict[str, Any], notes: list[str]) -> None:
    body = platform(queues=["a"])
    assert served(body, schemas(**spec)) == body
    assert notes == []


def test_kinds_without_a_stored_definition_stay(notes: list[str]) -> None:
    assert served(platform(gates=[]), {}) == platform(gates=[])
    assert notes == []
