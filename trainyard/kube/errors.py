"""Errors of requests to the API server."""

from __future__ import annotations

__all__ = [
    "ApiError",
    "CredentialsError",
    "FencedError",
    "TransportError",
    "UnreadableEventError",
    "WatchBrokenError",
]


_TOO_LARGE = (
    "request is too large",  # etcd: a write above its --max-request-bytes (1.5 MiB)
    "trying to send message larger than max",  # gRPC, between API server and etcd
    "request entity too large",
)

_TEST_FAILED = "the server rejected our request due to an error in our request"


class ApiError(Exception):
    """The API server answered with an error.

    Parameters
    ----------
    status
        HTTP status code.
    reason
        Machine-readable reason of the Status object (``NotFound``, ``Conflict``, …).
    message
        Text of the Status object.
    retry_after
        Seconds after which the server asks to try again, None where it does not say.
    """

    def __init__(self, status: int, reason: str, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    @property
    def not_found(self) -> bool:
        """Whether the object, or its whole kind, does not exist."""
        return self.status == 404

    @property
    def conflict(self) -> bool:
        """Whether a precondition failed or the object exists already.

        A patch that names another uid, and a JSON patch whose ``test`` fails, are 422 and told apart by their text.
        """
        other_uid = "metadata.uid: Invalid value" in self.message and "field is immutable" in self.message
        return self.status == 409 or (self.status == 422 and (other_uid or self.message == _TEST_FAILED))

    @property
    def expired(self) -> bool:
        """Whether the resourceVersion or continue token is too old to be served."""
        return self.status == 410 or self.reason in ("Expired", "Gone")

    @property
    def too_large(self) -> bool:
        """Whether the object is larger than the API server or etcd takes: no repetition can succeed."""
        said = self.message.lower()
        return self.status == 413 or (self.status >= 500 and any(text in said for text in _TOO_LARGE))


class TransportError(Exception):
    """No answer: the connection failed, broke or timed out; a write may or may not have happened."""


class CredentialsError(TransportError):
    """Nothing valid can be presented to the API server, or it was refused (401): the operator's, never a user's.

    Parameters
    ----------
    message
        What failed.
    fix
        What the operator of this process can do about it.
    """

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(f"{message} ({fix})" if fix else message)
        self.message = message
        self.fix = fix


class WatchBrokenError(Exception):
    """A watch stream ended in the middle of an event or went silent."""


class UnreadableEventError(WatchBrokenError):
    """A watch stream holds something that is no event: only a new list tells what it was about."""


class FencedError(Exception):
    """A write was not sent because its writer does not lead, or not for long enough."""
