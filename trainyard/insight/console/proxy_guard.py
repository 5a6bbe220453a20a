"""Access through an authenticating proxy: headers with the user, which only a proxy with a client certificate may send.

The header names are those of Kubernetes' request-header authentication.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from trainyard.errors import TrainyardError
from trainyard.insight.console.bounded_protocol import BoundedProtocol
from trainyard.insight.console.page_headers import confined
from trainyard.insight.console.request_origin import refusal
from trainyard.insight.console.viewer_sessions import OpenedReader
from trainyard.kube.api_errors import ApiError, CredentialsError, TransportError
from trainyard.kube.reviews import User

_USER: Final = "x-remote-user"
_GROUP: Final = "x-remote-group"
_SYSTEM: Final = "system:"
_EVERYONE: Final = "system:authenticated"
"""Prefix of the users and groups of the cluster itself, and the one group of them that a proxy may name.

A proxy that passes on the names of an identity provider would otherwise give a group named `system:masters` all rights.
"""
_MAX_NAME: Final = 256
_MAX_GROUPS: Final = 128
_IDLE_SECONDS: Final = 5 * 60.0
"""Seconds without a request after which what a viewer reads is closed if another one needs its place."""
_LOG = logging.getLogger(__name__)


def named_protocol(names: Iterable[str]) -> type[BoundedProtocol]:
    """Return a protocol that serves only clients whose verified certificate has one of some common names."""
    allowed = frozenset(names)

    class Named(BoundedProtocol):
        bounds_addresses = False  # all connections have that of the proxy

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            certificate = transport.get_extra_info("peercert")
            if _common_name(certificate or {}) in allowed:
                super().connection_made(transport)
                return
            _LOG.warning("a client with the certificate of another name is rejected")
            transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            if hasattr(self, "transport") and self.transport is not None:
                super().connection_lost(exc)

    return Named


def _common_name(certificate: Mapping[str, Any]) -> str | None:
    found = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    return found[0] if len(found) == 1 else None


def viewer_of(request: Request) -> User | None:
    """Return the viewer in the headers of a proxy; None: they name none, or are invalid."""
    names = request.headers.getlist(_USER)
    groups = request.headers.getlist(_GROUP)
    if len(names) != 1 or len(groups) > _MAX_GROUPS:
        return None
    given = (*names, *groups)
    valid = all(0 < len(each) <= _MAX_NAME and each.isprintable() for each in given)
    own = any(each.strip().lower().startswith(_SYSTEM) for each in (*names, *(set(groups) - {_EVERYONE})))
    if own:
        _LOG.warning("a user or group of the cluster itself, named by the proxy, is rejected")
        return None
    return User(names[0], "", frozenset(groups)) if valid else None


class ProxyViews:
    """What the viewers of a proxy read, by viewer.

    Parameters
    ----------
    open_reader
        Starts a reader for a viewer.
    most
        Number of viewers at the same time.
    """

    def __init__(self, open_reader: Callable[[User], Awaitable[OpenedReader]], most: int) -> None:
        self._open_reader = open_reader
        self._most = most
        self._views: dict[User, asyncio.Task[OpenedReader]] = {}
        self._used: dict[User, float] = {}
        self._room = asyncio.Lock()

    async def of(self, viewer: User) -> OpenedReader | None:
        """Return what a viewer reads; None: there are too many viewers."""
        if viewer not in self._views:
            async with self._room:  # one at a time: others may open the same view, or take the place, meanwhile
                if viewer not in self._views:
                    if not await self._make_room():
                        return None
                    self._views[viewer] = asyncio.ensure_future(self._open_reader(viewer))
        task = self._views[viewer]
        self._used[viewer] = time.monotonic()
        try:
            return await asyncio.shield(task)
        except Exception:
            if self._views.get(viewer) is task:
                del self._views[viewer]
            raise

    async def close_all(self) -> None:
        """End all."""
        for viewer in list(self._views):
            await self._close(viewer)

    async def _make_room(self) -> bool:
        if len(self._views) < self._most:
            return True
        now = time.monotonic()
        unused = [
            viewer
            for viewer, task in self._views.items()
            if task.done() and not task.exception() and not task.result().reader.viewers
        ]
        oldest = min(unused, key=lambda viewer: self._used[viewer], default=None)
        if oldest is None or now - self._used[oldest] < _IDLE_SECONDS:
            return False
        await self._close(oldest)
        return len(self._views) < self._most

    async def _close(self, viewer: User) -> None:
        task = self._views.pop(viewer)
        self._used.pop(viewer, None)
        task.cancel()
        with contextlib.suppress(Exception, asyncio.CancelledError):
            opened = await task
            opened.reader.end_streams()
            await opened.resources.aclose()


class ProxyGuard:
    """ASGI application behind the proxy; its server has verified the certificate of the client.

    Parameters
    ----------
    views
        What the viewers read.
    hosts
        Names by which browsers open the proxy.
    """

    def __init__(self, views: ProxyViews, hosts: Iterable[str]) -> None:
        self._views = views
        self._hosts = frozenset(each.lower() for each in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it to the pages of its viewer."""
        if scope["type"] != "http":
            return
        send = confined(send)
        request = Request(scope, receive)
        answer = refusal(request, self._hosts)
        viewer = viewer_of(request)
        if answer is None and viewer is None:
            answer = PlainTextResponse("The proxy names no user.", 401)
        if answer is None and viewer is not None:
            try:
                opened = await self._views.of(viewer)
            except (ApiError, TransportError, CredentialsError, TimeoutError, TrainyardError) as error:
                _LOG.warning("the cluster could not be read for %r: %s", viewer.name, error)
                answer = PlainTextResponse("The cluster cannot be read now. Try again.", 503)
            else:
                if opened is not None:
                    await opened.current_pages(scope, receive, send)
                    return
                answer = PlainTextResponse("Too many viewers use the console. Try again later.", 503)
        assert answer is not None  # noqa: S101
        await answer(scope, receive, send)
