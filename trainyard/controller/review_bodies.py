"""Bodies of reviews: bounded in size, in the time of their arrival, and all together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

from aiohttp import web

from trainyard.errors import TrainyardError

BODY_LIMIT: Final = 8 * 1024 * 1024
_TOGETHER: Final = 32 * BODY_LIMIT


class RefusedBodyError(TrainyardError):
    """A body that is not read, and the status of the answer."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class ReviewBodies:
    """Reads bodies.

    Parameters
    ----------
    seconds
        Time for a body to arrive.
    together
        Bytes of all bodies that are read or answered at the same time: the memory of the process is shared.
    """

    def __init__(self, seconds: float, together: int = _TOGETHER) -> None:
        self._seconds = seconds
        self._free = together

    @asynccontextmanager
    async def body(self, http: web.Request) -> AsyncIterator[bytes]:
        """Provide the body of a request while it is answered.

        Raises
        ------
        RefusedBodyError
            It has no length or is too long, there are too many at once, or it does not arrive.
        """
        size = http.content_length
        if size is None:
            raise RefusedBodyError(HTTPStatus.LENGTH_REQUIRED, "the length of the review is missing")
        if size > BODY_LIMIT:
            raise RefusedBodyError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the review has more than {BODY_LIMIT} bytes")
        if size > self._free:
            raise RefusedBodyError(HTTPStatus.SERVICE_UNAVAILABLE, "too many large reviews at once")
        self._free -= size
        try:
            try:
                async with asyncio.timeout(self._seconds):
                    data = await http.read()
            except TimeoutError as error:
                message = f"the review has not arrived within {self._seconds:g} s"
                raise RefusedBodyError(HTTPStatus.REQUEST_TIMEOUT, message) from error
            yield data
        finally:
            self._free += size
