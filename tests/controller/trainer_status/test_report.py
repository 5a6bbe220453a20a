"""Reports are read as upstream reads them and checked as the CustomResourceDefinition checks them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trainyard.controller.trainer_status.progress_report import read_report
from trainyard.errors import TrainyardError

TIME = "2026-01-01T00:00:00Z"


def read(**status: Any) -> dict[str, Any] | None:
    return read_report(json.dumps({"trainerStatus": status}).encode())


def test_what_the_sdk_sends_is_read() -> None:
    metrics = [{"name": "loss", "value": "0.5"}]
    found = read(
        lastUpdatedTime="2026-01-01T02:00:00.123456+02:00",
        progressPercentage=0,
        estimatedRemainingSeconds=0,
        metrics=metrics,
    )
    assert found == {
        "progressPercentage": 0,
        "estimatedRemainingSeconds": 0,
        "metrics": metrics,
        "lastUpdatedTime": TIME,
    }


def test_unknown_fields_are_dropped() -> None:
    metric = {"name": "loss", "value": "1", "unit": "nat"}
    assert read(lastUpdatedTime=TIME, epoch=3, metrics=[metric]) == {
        "metrics": [{"name": "loss", "value": "1"}],
        "lastUpdatedTime": TIME,
    }


@pytest.mark.parametrize("body", [b"{}", b"null", b'{"trainerStatus": null}', b'{"other": 1}'])
def test_an_empty_report_says_nothing(body: bytes) -> None:
    assert read_report(body) is None


@pytest.mark.parametrize("body", [b"", b"text", b"[]", b'"text"', b"\xff{}", b"[" * 60_000])
def test_a_body_that_is_not_a_json_object_is_rejected(body: bytes) -> None:
    with pytest.raises(TrainyardError, match="Invalid payload"):
        read_report(body)


@pytest.mark.parametrize(
    ("status", "path"),
    [
        ({}, "trainerStatus.lastUpdatedTime"),
        ({"lastUpdatedTime": "yesterday"}, "trainerStatus.lastUpdatedTime"),
        ({"lastUpdatedTime": "2026-01-01T00:00:00"}, "trainerStatus.lastUpdatedTime"),
        ({"lastUpdatedTime": "0001-01-01T00:00:00+14:00"}, "trainerStatus.lastUpdatedTime"),
        ({"lastUpdatedTime": 5}, "trainerStatus.lastUpdatedTime"),
        ({"progressPercentage": 101}, "trainerStatus.progressPercentage"),
        ({"progressPercentage": -1}, "trainerStatus.progressPercentage"),
        ({"progressPercentage": 1.5}, "trainerStatus.progressPercentage"),
        ({"progressPercentage": "1"}, "trainerStatus.progressPercentage"),
        ({"estimatedRemainingSeconds": -1}, "trainerStatus.estimatedRemainingSeconds"),
        ({"estimatedRemainingSeconds": 1 << 31}, "trainerStatus.estimatedRemainingSeconds"),
        ({"metrics": [{"name": "n", "value": "1"}] * 257}, "trainerStatus.metrics"),
        ({"metrics": [{"name": "", "value": "1"}]}, "trainerStatus.metrics[0].name"),
        ({"metrics": [{"name": "n", "value": "1" * 65}]}, "trainerStatus.metrics[0].value"),
        ({"metrics": [{"name": "n"}]}, "trainerStatus.metrics[0].value"),
        ({"metrics": [{"name": "n", "value": 1}]}, "trainerStatus.metrics[0].value"),
    ],
)
def test_a_field_out_of_bounds_is_named(status: dict[str, Any], path: str) -> None:
    with pytest.raises(TrainyardError) as refused:
        read(**({"lastUpdatedTime": TIME} | status if status else {}))
    assert [finding.path for finding in refused.value.findings] == [path]


def test_a_report_that_is_no_object_is_named() -> None:
    with pytest.raises(TrainyardError) as refused:
        read_report(b'{"trainerStatus": 7}')
    assert [finding.path for finding in refused.value.findings] == ["trainerStatus"]
