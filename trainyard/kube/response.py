"""Responses of the API server."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

from trainyard.kube.api_errors import ApiError
from trainyard.kube.decoding import decoded

_TEXT_BYTES = 500
_WARNING = re.compile(r'^299 \S+ "(.*)"$')


@dataclass(frozen=True)
class Response:
    """Response to one request, successful or not.

    Parameters
    ----------
    status
        HTTP status code.
    payload
        Body as received.
    warnings
        Texts of the warnings.
    phrase
        Reason phrase of the status line.
    retry_after
        Value of Retry-After in seconds; None: unset.
    """

    status: int
    payload: bytes
    warnings: tuple[str, ...] = ()
    phrase: str = ""
    retry_after: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the request was accepted."""
        return self.status < 300

    @cached_property
    def body(self) -> Mapping[str, Any]:
        """The object; a body that is not one becomes its message."""
        try:
            body = decoded(self.payload)
        except orjson.JSONDecodeError:
            body = None
        return body if isinstance(body, dict) else {"message": self._text}

    @property
    def message(self) -> str:
        """Message of the Status object, or the text of a proxy."""
        return str(self.body.get("message") or "")

    @property
    def error(self) -> ApiError:
        """Error of a rejected request."""
        reason = self.body.get("reason") or self.phrase or "Unknown"
        details = self.body.get("details")
        details = details if isinstance(details, dict) else {}
        return ApiError(
            self.status,
            str(reason),
            self.message,
            retry_after=self.retry_after,
            name=str(details.get("name") or ""),
            fields=tuple(_invalid_fields(details.get("causes"))),
        )

    @property
    def _text(self) -> str:
        return self.payload[:_TEXT_BYTES].decode(errors="replace").strip()


def _invalid_fields(causes: Any) -> Iterator[tuple[str, str, str]]:
    for cause in causes if isinstance(causes, list) else ():
        if isinstance(cause, dict) and cause.get("field"):
            yield str(cause["field"]), str(cause.get("message") or ""), str(cause.get("reason") or "")


def warning_texts(headers: Iterable[str]) -> tuple[str, ...]:
    """Return the texts of Warning headers as the API server writes them."""
    found = (_WARNING.match(value) for value in headers)
    return tuple(match[1].replace('\\"', '"') for match in found if match)
