"""Progress reports: upstream's UpdateTrainJobStatusRequest, validated as by the CustomResourceDefinition."""

from __future__ import annotations

import datetime
from typing import Any

import orjson
from pydantic import ValidationError

from trainyard.api import findings_of
from trainyard.api.train_job import TrainerStatus
from trainyard.checks.finding import Finding
from trainyard.controller.status import timestamp
from trainyard.errors import TrainyardError

_ROOT = "trainerStatus"
_TIME = f"{_ROOT}.lastUpdatedTime"


def read_report(data: bytes) -> dict[str, Any] | None:
    """Return the trainerStatus of a request body; None if the report is empty; unknown fields are dropped.

    Raises
    ------
    TrainyardError
        If the body is not JSON or does not match the schema; `findings` lists all schema violations.
    """
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise TrainyardError("Invalid payload", fix="send a JSON object") from error
    if not isinstance(body, dict | None):
        raise TrainyardError("Invalid payload", fix="send a JSON object")
    reported = (body or {}).get(_ROOT)
    if reported is None:
        return None
    try:
        status = TrainerStatus.from_body(reported)
    except ValidationError as error:
        found = [Finding(f"{_ROOT}.{each.path}".rstrip("."), each.message, each.fix) for each in findings_of(error)]
        raise TrainyardError("Invalid payload", findings=found) from error
    metrics = [{"name": metric.name, "value": metric.value} for metric in status.metrics or ()]
    checked = {
        "progressPercentage": status.progress_percentage,
        "estimatedRemainingSeconds": status.estimated_remaining_seconds,
        "metrics": metrics or None,
        "lastUpdatedTime": _utc(status.last_updated_time),
    }
    return {name: value for name, value in checked.items() if value is not None}


def _utc(text: str | None) -> str:
    """Format a time as Kubernetes does: UTC with whole seconds."""
    if text is None:
        raise _invalid_time("lastUpdatedTime is required when trainerStatus is present", "add it")
    try:
        when = datetime.datetime.fromisoformat(text)
        if when.tzinfo is None:
            raise ValueError("no time zone")
        return timestamp(when)
    except (ValueError, OverflowError) as error:
        raise _invalid_time(f"{text!r} is not an RFC 3339 time", "use a time such as 2026-01-01T00:00:00Z") from error


def _invalid_time(message: str, fix: str) -> TrainyardError:
    return TrainyardError("Invalid payload", findings=[Finding(_TIME, message, fix)])
