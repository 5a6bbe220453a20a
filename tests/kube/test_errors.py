from __future__ import annotations

import pytest

from trainyard.kube.api_errors import ApiError


@pytest.mark.parametrize(
    ("status", "reason", "message", "too_large"),
    [
        (413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728", True),
        (413, "Request Entity Too Large", "", True),
        (500, "InternalError", "etcdserver: request is too large", True),
        (500, "Unknown", "rpc error: code = ResourceExhausted desc = trying to send message larger than max", True),
        (500, "InternalError", "etcdserver: leader changed", False),
        (422, "Invalid", "metadata.annotations: Too long: may not be more than 262144 bytes", False),
        (404, "NotFound", "request is too large", False),
        (504, "Timeout", "Too large resource version: 2, current: 1", False),
    ],
)
def test_an_object_that_is_too_large_is_recognized(status: int, reason: str, message: str, too_large: bool) -> None:
    assert ApiError(status, reason, message).too_large is too_large


@pytest.mark.parametrize(
    ("status", "message", "conflict"),
    [
        (409, 'Operation cannot be fulfilled on configmaps "p": the object has been modified', True),
        (422, 'ConfigMap "p" is invalid: metadata.uid: Invalid value: "other": field is immutable', True),
        (422, "the server rejected our request due to an error in our request", True),
        (422, 'JobSet "p" is invalid: spec.replicatedJobs: Invalid value: []: field is immutable', False),
        (400, "the server rejected our request due to an error in our request", False),
    ],
)
def test_a_failed_precondition_is_recognized(status: int, message: str, conflict: bool) -> None:
    """The texts are those of kube-apiserver, for patches of built-in and of custom kinds."""
    assert ApiError(status, "", message).conflict is conflict
