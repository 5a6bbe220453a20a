"""Sessions of signed-in viewers: each has a reader of its own with the viewer's token, so nothing is shared.

A token stays in memory. The API server confirms it again every 15 seconds; a session whose token is not accepted, or
was not confirmed for a minute, ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from trainyard.errors import TrainyardError
from trainyard.insight.console.shared_reader import SharedReader
from trainyard.kube.api_errors import ApiError, CredentialsError, TransportError
from trainyard.kube.reviews import User

CONFIRM_SECONDS: Final = 15.0
"""Seconds after which a token is confirmed again."""
CONFIRMED_SECONDS: Final = 40.0
"""Seconds since the last confirmation after which a session ends if the next one fails: with the time until that one,
and its own, at most a minute."""
_REVIEW_SECONDS: Final = 5.0
START_SECONDS: Final = 120.0
"""Seconds until a viewer has a first state."""
_LONGEST_SECONDS: Final = 12 * 3600.0
_IDLE_SECONDS: Final = 30 * 60.0
_SHORT_IDLE_SECONDS: Final = 5 * 60.0
"""Seconds without a request after which a session ends if a new viewer needs its place."""
_OF_VIEWER: Final = 3
"""Sessions of one viewer; the oldest ends."""
_FAILURES: Final = (ApiError, TransportError, CredentialsError, TimeoutError)
_EVENTS: Final = "/events"
_NOT_CURRENT: Final = PlainTextResponse("The state is not current: it is older than a minute. Try again.", 503)
_LOG = logging.getLogger(__name__)


class SignInError(Exception):
    """A sign-in that failed.

    Parameters
    ----------
    message
        Text for the viewer.
    status
        HTTP status of the answer.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class OpenedReader:
    """What a session reads and shows.

    Parameters
    ----------
    reader
        Started reader of the state.
    pages
        Pages about its state.
    resources
        Closed when the session ends.
    """

    reader: SharedReader
    pages: ASGIApp
    resources: AsyncExitStack

    async def current_pages(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request with a page, or with an error if the state is not current: rights may be older than it."""
        # Updates have no content, and tell a page when there is a newer state.
        current = self.reader.is_current or scope["path"] == _EVENTS or scope["path"].startswith("/assets/")
        await (self.pages if current else _NOT_CURRENT)(scope, receive, send)


@dataclass(eq=False)
class ViewerSession:
    """A signed-in viewer."""

    viewer: User
    opened: OpenedReader
    token: str = field(repr=False)
    begun: float
    used: float
    confirmed: float
    lock: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)


class ViewerSessions:
    """All sessions of a console.

    Parameters
    ----------
    review
        Returns the viewer of a token, or None.
    open_reader
        Starts a reader for a viewer with a token.
    most
        Number of sessions at the same time.
    clock
        Monotonic seconds.
    """

    def __init__(
        self,
        review: Callable[[str], Awaitable[User | None]],
        open_reader: Callable[[User, str], Awaitable[OpenedReader]],
        *,
        most: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._review = review
        self._open_reader = open_reader
        self._most = most
        self._clock = clock
        self._sessions: dict[bytes, ViewerSession] = {}
        self._starting: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._sessions)

    async def open(self, token: str) -> str:
        """Begin a session; return its identifier, which is the value of a cookie.

        Raises
        ------
        SignInError
            The token is not accepted, all sessions are in use, or the cluster cannot be read.
        """
        now = self._clock()
        try:
            async with asyncio.timeout(_REVIEW_SECONDS):
                viewer = await self._review(token)
        except _FAILURES as error:
            _LOG.warning("a token could not be reviewed: %s", error)
            raise SignInError(
                "The API server does not answer, or does not review tokens now. Try again.", 503
            ) from None
        if viewer is None:
            raise SignInError("The API server does not accept this token.", 401)
        replaced = self._replaced(viewer)
        self._starting[viewer.name] += 1
        try:
            for key in replaced:
                await self._end(key, "another one needs its place")
            async with asyncio.timeout(START_SECONDS):
                opened = await self._open_reader(viewer, token)
        except (*_FAILURES, TrainyardError) as error:
            _LOG.warning("the cluster could not be read for %r: %s", viewer.name, error)
            raise SignInError("The cluster cannot be read now. Try again.", 503) from None
        finally:
            self._starting[viewer.name] -= 1
            if not self._starting[viewer.name]:
                del self._starting[viewer.name]
        identifier = secrets.token_urlsafe(32)
        self._sessions[_key(identifier)] = ViewerSession(viewer, opened, token, now, self._clock(), now)
        _LOG.info("%r has signed in; %s sessions", viewer.name, len(self))
        return identifier

    async def find(self, identifier: str, *, used: bool = True) -> ViewerSession | None:
        """Return the session of an identifier; None if there is none, or it has ended.

        Parameters
        ----------
        used
            Whether this counts as a request of the viewer.
        """
        key = _key(identifier)
        session = self._sessions.get(key)
        if session is None or not await self._confirm(key, session):
            return None
        if used:
            session.used = self._clock()
        return session

    async def close(self, identifier: str) -> None:
        """End a session."""
        await self._end(_key(identifier), "signed out")

    async def close_all(self) -> None:
        """End all sessions."""
        await asyncio.gather(*(self._end(key, "the console ends") for key in list(self._sessions)))

    async def keep_confirmed(self) -> None:
        """Confirm all sessions again and again, until cancelled."""
        while True:
            await asyncio.sleep(CONFIRM_SECONDS)
            await self.confirm_all()

    async def confirm_all(self) -> None:
        """Confirm the sessions that are due, and end those that are idle, too old or not accepted."""
        await asyncio.gather(*(self._confirm(key, session) for key, session in list(self._sessions.items())))

    async def _confirm(self, key: bytes, session: ViewerSession) -> bool:
        """Return whether a session continues."""
        async with session.lock:
            if self._sessions.get(key) is not session:
                return False
            now = self._clock()
            if now - session.begun > _LONGEST_SECONDS or self._idle(session, now) > _IDLE_SECONDS:
                await self._end(key, "too old, or not used")
                return False
            if now - session.confirmed < CONFIRM_SECONDS:
                return True
            try:
                async with asyncio.timeout(_REVIEW_SECONDS):
                    viewer = await self._review(session.token)
            except Exception as error:  # any: a session without confirmations must end
                _LOG.warning("the token of %r could not be reviewed: %s", session.viewer.name, error)
                if self._clock() - session.confirmed < CONFIRMED_SECONDS:
                    return True
                await self._end(key, "its token was not confirmed for a minute")
                return False
            if viewer is None or viewer.name != session.viewer.name or viewer.uid != session.viewer.uid:
                await self._end(key, "its token is not accepted any more")
                return False
            session.confirmed = now
            return self._sessions.get(key) is session

    def _replaced(self, viewer: User) -> list[bytes]:
        """Return the sessions that end before a viewer gets another one.

        Raises
        ------
        SignInError
            All sessions are in use, or the viewer starts as many as it may have.
        """
        starting = self._starting[viewer.name]
        if starting >= _OF_VIEWER:
            raise SignInError(f"{_OF_VIEWER} sessions of this user start already. Try again later.", 503)
        own = sorted(self._of(viewer), key=lambda key: self._sessions[key].begun)
        found = own[: max(0, len(own) + starting - _OF_VIEWER + 1)]
        if len(self) - len(found) + self._starting.total() < self._most:
            return found
        now = self._clock()
        idle = max(self._sessions, key=lambda key: self._idle(self._sessions[key], now), default=None)
        if idle is None or self._starting or self._idle(self._sessions[idle], now) < _SHORT_IDLE_SECONDS:
            raise SignInError(f"All {self._most} sessions are in use. Try again later.", 503)
        return [*found, idle]

    def _of(self, viewer: User) -> list[bytes]:
        return [key for key, session in self._sessions.items() if session.viewer.name == viewer.name]

    def _idle(self, session: ViewerSession, now: float) -> float:
        """Return the seconds without a request; pages that receive updates are requests."""
        return 0.0 if session.opened.reader.viewers else now - session.used

    async def _end(self, key: bytes, why: str) -> None:
        session = self._sessions.pop(key, None)
        if session is None:
            return
        _LOG.info("the session of %r ends: %s", session.viewer.name, why)
        session.opened.reader.end_streams()
        with contextlib.suppress(Exception):
            await session.opened.resources.aclose()


def _key(identifier: str) -> bytes:
    """Return the key of an identifier: a digest, so that a comparison tells nothing about the identifier."""
    return hashlib.sha256(identifier.encode()).digest()
