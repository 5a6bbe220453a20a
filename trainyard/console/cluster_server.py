"""Server of a console in a cluster: TLS, and viewers who sign in with their own tokens."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from trainyard.console.live_source import LiveSource
from trainyard.console.serving_certificate import ServingFiles
from trainyard.console.session_guard import SessionGuard
from trainyard.console.shared_reader import SharedReader
from trainyard.console.token_review import Viewer, review_token
from trainyard.console.viewer_sessions import OpenedReader, ViewerSessions
from trainyard.console.web_application import application
from trainyard.errors import TrainyardError
from trainyard.kube import Client, Connection

__all__ = ["ClusterConsole", "serve_cluster"]

_CONNECTIONS: Final = 512
_WATCH_SECONDS: Final = (15, 20)
"""Timeouts of watches: a right that is taken away hides what was read with it within a minute."""
_USER_AGENT: Final = "trainyard-console"


@dataclass(frozen=True, kw_only=True)
class ClusterConsole:
    """What a console in a cluster serves.

    Parameters
    ----------
    connection
        The API server, with the console's own credentials, which only review tokens.
    name
        Name of the cluster for the pages.
    namespaces
        Namespaces that are read for viewers who may not list all.
    hosts
        Names by which the console is opened.
    sessions
        Number of sessions at the same time.
    """

    connection: Connection
    name: str
    namespaces: Sequence[str] = ()
    hosts: Sequence[str] = ()
    sessions: int = 10

    async def reader(self, viewer: Viewer, token: str) -> OpenedReader:
        """Start a reader with the token of a viewer.

        Raises
        ------
        ApiError, TransportError
            The cluster cannot be read.
        """
        async with AsyncExitStack() as resources:
            count = 0

            def observe(_method: str, _resource: str, _status: int) -> None:
                nonlocal count
                count += 1

            own = Client(self.connection.with_token(token), user_agent=_USER_AGENT, observe=observe)
            await resources.enter_async_context(own)
            source = LiveSource(own, self.name, self.namespaces, lambda: count, _WATCH_SECONDS)
            reader = SharedReader(source)
            resources.push_async_callback(reader.close)
            await reader.start()
            return OpenedReader(reader, application(reader, viewer=viewer.name), resources.pop_all())


async def serve_cluster(
    console: ClusterConsole,
    certificate: Path,
    *,
    host: str = "0.0.0.0",  # noqa: S104 - a pod's own address
    port: int = 9443,
    ready: Callable[[int], None] = lambda _port: None,
) -> None:
    """Serve until SIGTERM or interrupted.

    Parameters
    ----------
    console
        What is served.
    certificate
        Folder with ``tls.crt`` and ``tls.key``.
    host, port
        Address to listen on; port 0: a free one.
    ready
        Receives the port, once the console is served.

    Raises
    ------
    TrainyardError
        There is no valid certificate, or the port is in use.
    """
    files = ServingFiles(certificate)
    listening = _bound(host, port)
    with listening:
        # Its requests are few, and not throttled by those of readers, which have clients of their own.
        async with Client(console.connection, user_agent=_USER_AGENT, timeout=5.0, patience=5.0) as client:
            sessions = ViewerSessions(lambda token: review_token(client, token), console.reader, most=console.sessions)
            guard = SessionGuard(sessions, console.hosts, console.name)
            background = [asyncio.create_task(each) for each in (sessions.keep_confirmed(), files.keep_loaded())]
            try:
                server = _Server(_config(guard, files), sessions, lambda: ready(listening.getsockname()[1]))
                serving = asyncio.create_task(server.serve(sockets=[listening]))
                try:
                    await asyncio.shield(serving)
                except asyncio.CancelledError:
                    server.should_exit = True
                    await serving
                    raise
            finally:
                for task in background:
                    task.cancel()
                await asyncio.gather(*background, return_exceptions=True)
                await sessions.close_all()


def _config(app: ASGIApp, files: ServingFiles) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        access_log=False,
        log_level="warning",
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=5,
        ws="none",
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS,
    )
    config.load()
    config.ssl = files.context
    return config


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, sessions: ViewerSessions, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._sessions = sessions
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve, and say so."""
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the sessions, whose streams would keep the server from stopping, and stop."""
        with contextlib.suppress(Exception):
            await self._sessions.close_all()
        await super().shutdown(sockets)


def _bound(host: str, port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise TrainyardError(f"Port {port} of {host} cannot be used: {error}", fix="set another --port") from error
    return listening
