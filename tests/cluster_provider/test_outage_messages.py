"""What the tests on real nodes accept while programs are killed."""

from __future__ import annotations

import pytest

from tests.real.outage_messages import is_outage


@pytest.mark.parametrize(
    "message",
    [
        "The connection to the server 127.0.0.1:6443 was refused - did you specify the right host or port?",
        "Unable to connect to the server: EOF",
        'error: unable to read: Get "https://127.0.0.1:6443/api": dial tcp 127.0.0.1:6443: connect: connection refused',
        "Error from server (InternalError): validating admission policy: not yet ready to handle request",
    ],
)
def test_a_request_that_no_api_server_evaluated_is_an_outage(message: str) -> None:
    assert is_outage(message)


@pytest.mark.parametrize(
    "message",
    [
        'failed calling webhook "validator.trainjob": dial tcp 10.96.0.7:443: connection refused',
        'Internal error occurred: failed calling webhook "mutatequeue.volcano.sh": Post "https://…": EOF',
        'admission webhook "validator.trainjob" denied the request: it was refused',
        "Error from server (Forbidden): the request is refused by policy",
    ],
)
def test_a_refusal_of_the_platform_is_not(message: str) -> None:
    """A connection to a webhook that is refused had counted as an outage."""
    assert not is_outage(message)
