"""Errors of requests to the API server."""

from __future__ import annotations

from trainyard.kube.resource import Resource

_TOO_LARGE = (
    "request is too large",  # etcd: a write above its --max-request-bytes (1.5 MiB)
    "trying to send message larger than max",  # gRPC, between API server and etcd
    "request entity too large",
)

_TEST_FAILED = "the server rejected our request due to an error in our request"


_NOT_SERVED = "NotServed"


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
        Value of Retry-After in seconds; None: unset.
    name
        Name of the object in the details of the Status object; empty: it has none, or the body is no Status object.
    fields
        Path, message and reason of each invalid field in the details of the Status object.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        retry_after: float | None = None,
        name: str = "",
        fields: tuple[tuple[str, str, str], ...] = (),
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.name = name
        self.fields = fields

    @property
    def not_found(self) -> bool:
        """Whether the object or its resource does not exist."""
        return self.status == 404

    def is_absence_of(self, name: str) -> bool:
        """Whether the API server says that the object of this name does not exist.

        A kind or version that is not served, and a proxy in front of the API server, return 404 too.
        """
        return (self.status, self.reason, self.name) == (404, "NotFound", name)

    def require_absence_of(self, resource: Resource, name: str) -> None:
        """Raise this error of a read unless it says that the object of this name does not exist."""
        if self.is_absence_of(name):
            return
        if not self.not_found:
            raise self
        message = f"{resource.kind} {name} of {resource.api_version} cannot be read: {self.message}"
        raise ApiError.unserved(message, retry_after=self.retry_after) from self

    @property
    def not_served(self) -> bool:
        """Whether a 404 came from something else than the object's absence: see `unserved`."""
        return self.reason == _NOT_SERVED

    @classmethod
    def unserved(cls, message: str, *, retry_after: float | None = None) -> ApiError:
        """Return the error that a request was not served: the object may exist."""
        return cls(404, _NOT_SERVED, message, retry_after=retry_after)

    @property
    def conflict(self) -> bool:
        """Whether a precondition failed or the object already exists.

        A patch with another uid and a JSON patch with a failed ``test`` return 422; the message identifies them.
        """
        other_uid = "metadata.uid: Invalid value" in self.message and "field is immutable" in self.message
        return self.status == 409 or (self.status == 422 and (other_uid or self.message == _TEST_FAILED))

    @property
    def expired(self) -> bool:
        """Whether the resourceVersion or continue token has expired."""
        return self.status == 410 or self.reason in ("Expired", "Gone")

    @property
    def too_large(self) -> bool:
        """Whether the object exceeds a limit of the API server or etcd; retries cannot succeed."""
        message = self.message.lower()
        return self.status == 413 or (self.status >= 500 and any(text in message for text in _TOO_LARGE))


class TransportError(Exception):
    """The connection failed, broke or timed out; a write may or may not have been executed."""


class CredentialsError(TransportError):
    """No valid credentials, or the API server rejects them (401); an error for the operator, never for a user.

    Parameters
    ----------
    message
        What failed.
    fix
        Remedy for the operator of this process.
    """

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(f"{message} ({fix})" if fix else message)
        self.message = message
        self.fix = fix


class WatchBrokenError(Exception):
    """A watch stream ended inside an event or did not end in time."""


class UnreadableEventError(WatchBrokenError):
    """A watch stream contains an unreadable event; relist, as its object is unknown."""


class FencedError(Exception):
    """A write was not sent because this process is not the leader or its lease expires too soon."""
