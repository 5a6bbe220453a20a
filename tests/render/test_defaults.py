"""Defaulting: when a patch last changed."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.render import defaulted

NOW = "2026-06-01T00:00:00Z"
OLD = "2026-01-01T00:00:00Z"


def job(*patches: Any) -> dict[str, Any]:
    return {"metadata": {"name": "job"}, "spec": {"runtimePatches": list(patches)}}


def patch(content: str | None = None, time: str | None = None, manager: str = "a.io/b") -> dict[str, Any]:
    body: dict[str, Any] = {"manager": manager}
    if content:
        body["trainingRuntimeSpec"] = {"template": {"metadata": {"labels": {"a": content}}}}
    return body | ({"time": time} if time else {})


@pytest.mark.parametrize(
    ("stored", "sent", "time"),
    [
        (None, patch(), NOW),
        (None, patch(time=OLD), OLD),
        (patch("x", OLD), patch("x"), OLD),
        (patch("x", OLD), patch("x", NOW), OLD),
        (patch("x", OLD), patch("y", OLD), NOW),
        (patch("x", OLD), patch("x", manager="c.io/d"), NOW),
        (patch("x", OLD), patch("x", OLD, manager="c.io/d"), OLD),
    ],
)
def test_the_time_changes_with_the_content(stored: Any, sent: Any, time: str) -> None:
    result = defaulted(job(sent), job(stored) if stored else None, NOW)
    assert result["spec"]["runtimePatches"][0]["time"] == time


def test_the_input_is_not_changed_and_an_unchanged_patch_without_time_gets_none() -> None:
    sent = job(patch("x"))
    assert defaulted(sent, job(patch("x")), NOW) == sent
    assert defaulted(sent, None, NOW) != sent
    assert sent == job(patch("x"))


@pytest.mark.parametrize("body", [{}, {"spec": None}, {"spec": 1}, {"spec": {"runtimePatches": 3}}, job(1, None, [])])
def test_what_is_malformed_is_passed_on(body: dict[str, Any]) -> None:
    assert defaulted(body, body, NOW) == body


def test_a_manager_that_is_no_text_is_left_to_the_schema() -> None:
    patches = [{"manager": []}, {"manager": {}}]
    job = {"metadata": {"name": "j"}, "spec": {"runtimePatches": patches}}
    stamped = defaulted(job, None, "2026-01-01T00:00:00Z")["spec"]["runtimePatches"]
    assert [patch["manager"] for patch in stamped] == [[], {}]
