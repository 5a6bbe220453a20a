"""Readers of the viewers: each reads the cluster with the token of its viewer, so that viewers share nothing.

A reader is a cache for one token, and no session: it is opened by any request with the token, and closed when it is not
used. Whether its pages are shown depends on the API server, which has accepted the token within the last minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from trainyard.errors import TrainyardError
from trainyard.insight.console.live_source import LiveSource
from trainyard.insight.console.shared_reader import SharedReader
from trainyard.insight.console.web_application import Pages
from trainyard.kube.api_errors import ApiError, CredentialsError, TransportError

CHECK_SECONDS: Final = 5.0
"""Seconds between two searches for readers that end."""
START_SECONDS: Final = 120.0
"""Seconds until a viewer has a first state."""
_REVIEW_SECONDS: Final = 5.0
_REVIEWS: Final = 8
"""Unknown tokens that are sent to the API server at the same time."""
_ACCEPTED_SECONDS: Final = 60.0
"""Seconds for which an acceptance of the token counts."""
_UNUSED_SECONDS: Final = 30 * 60.0
_SHORT_UNUSED_SECONDS: Final = 5 * 60.0
"""Seconds without a request or an open page after which a reader ends, and after which it does for a new viewer."""
_OF_VIEWER: Final = 3
"""Readers of one viewer; the one that was used longest ago ends."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class OpenedReader:
    """What a viewer reads and sees.

    Parameters
    ----------
    source
        The cluster, read with the viewer's token.
    reader
        Started reader of the source.
    pages
        Pages about its state.
    resources
        Closed when the reader ends.
    """

    source: LiveSource
    reader: SharedReader
    pages: Pages
    resources: AsyncExitStack

    @property
    def is_current(self) -> bool:
        """Whether state, token and rights are not older than a minute."""
        return time.monotonic() - self.source.accepted <= _ACCEPTED_SECONDS and self.reader.is_current


@dataclass(eq=False)
class _Entry:
    viewer: str
    opening: asyncio.Task[OpenedReader]
    used: float

    @property
    def is_open(self) -> bool:
        return self.opening.done() and not self.opening.cancelled() and self.opening.exception() is None

    @property
    def is_rejected(self) -> bool:
        return self.is_open and self.opening.result().source.is_rejected

    def unused(self, now: float) -> float:
        """Return the seconds without a request; starts and pages that receive updates are requests."""
        return now - self.used if self.is_open and not self.opening.result().reader.viewers else 0.0


class ViewerReaders:
    """Readers of the viewers, by digest of the token.

    Parameters
    ----------
    viewer_of
        Returns the name of the user of a token; raises CredentialsError if the API server rejects the token.
    open_reader
        Starts a reader for the name of a viewer and a token.
    most
        Number of readers at the same time.
    """

    def __init__(
        self,
        viewer_of: Callable[[str], Awaitable[str]],
        open_reader: Callable[[str, str], Awaitable[OpenedReader]],
        *,
        most: int,
    ) -> None:
        self._viewer_of = viewer_of
        self._open_reader = open_reader
        self._most = most
        self._entries: dict[bytes, _Entry] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._reviews = 0

    async def of(self, token: str) -> OpenedReader:
        """Return the reader of a token.

        Raises
        ------
        HTTPError
            The token is not accepted, there are too many viewers, or the cluster cannot be read.
        """
        key = _key(token)
        entry = self._entries.get(key)
        if entry is not None and entry.is_rejected:
            self._end(key, "its token is not accepted any more")
            entry = None
        if entry is None:
            viewer = await self._reviewed(token)
            entry = self._entries.get(key) or self._started(key, viewer, token)
        entry.used = time.monotonic()
        try:
            # Not cancelled with the request: others may await the same reader.
            return await asyncio.shield(entry.opening)
        except (ApiError, TransportError, TimeoutError, TrainyardError) as error:
            _LOG.warning("the cluster could not be read for %r: %s", entry.viewer, error)
            raise web.HTTPServiceUnavailable(text="The cluster cannot be read now. Try again.") from None

    def end(self, token: str) -> None:
        """End the reader of a token, if there is one that has started."""
        entry = self._entries.get(_key(token))
        if entry is not None and entry.is_open:
            self._end(_key(token), "its viewer has signed out")

    async def keep_used(self) -> None:
        """End readers that are not used or whose tokens are rejected, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            now = time.monotonic()
            for key, entry in list(self._entries.items()):
                if entry.is_rejected or entry.unused(now) > _UNUSED_SECONDS:
                    self._end(key, "its token is not accepted any more, or it is not used")

    async def close_all(self) -> None:
        """End all readers."""
        for key in list(self._entries):
            self._end(key, "the console ends")
        await asyncio.gather(*self._closing)

    async def _reviewed(self, token: str) -> str:
        """Return the name of the user of a token."""
        if self._reviews >= _REVIEWS:
            raise web.HTTPTooManyRequests(text="There are too many attempts now. Try again.")
        self._reviews += 1
        try:
            async with asyncio.timeout(_REVIEW_SECONDS):
                return await self._viewer_of(token)
        except CredentialsError:
            raise web.HTTPUnauthorized(text="The API server does not accept this token.") from None
        except (ApiError, TransportError, TimeoutError) as error:
            _LOG.warning("a token could not be reviewed: %s", error)
            raise web.HTTPServiceUnavailable(
                text="The API server does not answer, or reviews no tokens now. Try again."
            ) from None
        finally:
            self._reviews -= 1

    def _started(self, key: bytes, viewer: str, token: str) -> _Entry:
        """Start the reader of a token, in place of another one if there are too many."""
        self._make_room(viewer)
        entry = _Entry(viewer, asyncio.ensure_future(self._opened(viewer, token)), time.monotonic())
        self._entries[key] = entry

        def settled(_: object) -> None:
            if not entry.is_open and self._entries.get(key) is entry:
                del self._entries[key]

        entry.opening.add_done_callback(settled)
        _LOG.info("a reader of %r starts; there are %s", viewer, len(self._entries))
        return entry

    async def _opened(self, viewer: str, token: str) -> OpenedReader:
        async with asyncio.timeout(START_SECONDS):
            return await self._open_reader(viewer, token)

    def _make_room(self, viewer: str) -> None:
        now = time.monotonic()
        ready = {key: entry for key, entry in self._entries.items() if entry.is_open}
        if sum(entry.viewer == viewer for entry in self._entries.values()) >= _OF_VIEWER:
            replaceable = [key for key, entry in ready.items() if entry.viewer == viewer]
        elif len(self._entries) >= self._most:
            replaceable = [key for key, entry in ready.items() if entry.unused(now) >= _SHORT_UNUSED_SECONDS]
        else:
            return
        oldest = min(replaceable, key=lambda key: ready[key].used, default=None)
        if oldest is None:
            raise web.HTTPServiceUnavailable(text="Too many viewers use the console. Try again later.")
        self._end(oldest, "another viewer needs its place")

    def _end(self, key: bytes, why: str) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        _LOG.info("the reader of %r ends: %s", entry.viewer, why)
        closing = asyncio.ensure_future(_close(entry.opening))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


async def _close(opening: asyncio.Task[OpenedReader]) -> None:
    """End a reader, also one that has not started yet."""
    opening.cancel()
    with contextlib.suppress(Exception, asyncio.CancelledError):
        opened = await opening
        await opened.reader.end_streams()
        await opened.resources.aclose()


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
