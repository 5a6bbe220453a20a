"""Why requests were refused while programs were killed: no API server, or a webhook that did not answer."""

from __future__ import annotations

_WEBHOOK = ("failed calling webhook", "failed to call webhook", "admission webhook")
_SIGNS = (
    "connection refused",
    "was refused - did you specify the right host or port",
    "EOF",
    "connection reset",
    "connection lost",
    "shutting down",
    "not yet ready to handle request",
)


def is_outage(message: str) -> bool:
    """Return whether no API server evaluated a request: none answered, or it had not yet read its policies.

    A webhook that does not answer is no such outage: the API server evaluated the request, and the platform refused it.
    """
    return not any(sign in message for sign in _WEBHOOK) and any(sign in message for sign in _SIGNS)
