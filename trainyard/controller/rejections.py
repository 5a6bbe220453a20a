"""Errors of a reconciliation that do not end by themselves: what they found, for a condition and an event."""

from __future__ import annotations

from trainyard.api.constants import RESOURCES_CREATION_FAILED
from trainyard.checks.finding import Finding
from trainyard.controller.execution import RejectedError
from trainyard.controller.job_ownership import OwnershipConflictError
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError
from trainyard.policy.review import DecisionUnavailableError

_REJECTED = (400, 403, 413, 422)


def rejection_of(error: Exception) -> tuple[tuple[Finding, ...], str] | None:
    """Return the findings and the reason of an error outside this process, or None if the queue retries it."""
    match error:
        case RejectedError():
            return error.findings, error.reason
        case DecisionUnavailableError():
            return None
        case TrainyardError():
            return error.as_findings(), RESOURCES_CREATION_FAILED
        case ApiError() if not error.conflict and (error.status in _REJECTED or error.too_large):
            return (Finding("", error.message),), RESOURCES_CREATION_FAILED
    return None


def is_transient(error: Exception) -> bool:
    """Return whether an error is a conflict that ends by itself."""
    return isinstance(error, OwnershipConflictError) and error.transient
