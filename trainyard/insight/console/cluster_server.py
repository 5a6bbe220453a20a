"""Server of a console in a cluster: TLS, and viewers who sign in with their own tokens."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from trainyard.insight.console.access_review import AccessReviews
from trainyard.insight.console.bounded_protocol import BoundedProtocol
from trainyard.insight.console.filtered_source import FilteredSource, SourceHub
from trainyard.insight.console.live_source import LiveSource
from trainyard.insight.console.page_server import PageServer, bound
from trainyard.insight.console.plan_limit import CLUSTER_SETTINGS, PlanLimit
from trainyard.insight.console.proxy_guard import ProxyGuard, ProxyViews, named_protocol
from trainyard.insight.console.recorded_source import StateSource
from trainyard.insight.console.request_origin import LOOPBACK_NAMES
from trainyard.insight.console.scenario_folder import ScenarioFolder
from trainyard.insight.console.serving_certificate import ServingFiles
from trainyard.insight.console.session_guard import SessionGuard
from trainyard.insight.console.shared_reader import SharedReader
from trainyard.insight.console.viewer_sessions import START_SECONDS, OpenedReader, ViewerSessions
from trainyard.insight.console.web_application import application
from trainyard.kube.client import Client
from trainyard.kube.credentials import Connection
from trainyard.kube.reviews import User, review_token
from trainyard.listening import ANY_ADDRESS

_WATCH_SECONDS: Final = (15, 20)
"""Timeouts of watches: a right that is taken away hides what was read with it within a minute."""
_USER_AGENT: Final = "trainyard-console"
_SHARE: Final = 0.5
"""Share of a core that the states and explanations of all viewers may use; of one, half of it."""


@dataclass(frozen=True)
class ProxyAccess:
    """An authenticating proxy, whose headers name the users.

    Parameters
    ----------
    authority
        File with the authority of its client certificate.
    names
        Common names that its certificate may have.
    port
        Port for it; 0: a free one.
    """

    authority: Path
    names: tuple[str, ...]
    port: int = 9444


@dataclass(frozen=True, kw_only=True)
class ClusterConsole:
    """What a console in a cluster serves.

    Parameters
    ----------
    connection
        The API server, with the console's own credentials, which only review tokens, unless there is a proxy.
    name
        Name of the cluster for the pages.
    namespaces
        Namespaces that are read for viewers who may not list all.
    hosts
        Names by which the console is opened.
    sessions
        Number of sessions at the same time, and of viewers of the proxy.
    proxy
        An authenticating proxy; None: headers with users are never read.
    scenarios
        Folder with reports of scenarios, which every viewer sees.
    """

    connection: Connection
    name: str
    namespaces: Sequence[str] = ()
    hosts: Sequence[str] = ()
    sessions: int = 10
    proxy: ProxyAccess | None = None
    scenarios: ScenarioFolder = field(default_factory=lambda: ScenarioFolder(None))
    readers: list[SharedReader] = field(default_factory=list, init=False, repr=False)
    plans: PlanLimit = field(default_factory=lambda: PlanLimit(CLUSTER_SETTINGS), init=False, repr=False)

    async def reader(self, viewer: User, token: str) -> OpenedReader:
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
            reader = self._shared_reader(source, resources)
            await reader.start()
            pages = application(reader, self.scenarios, viewer=viewer.name, plans=self.plans)
            return OpenedReader(reader, pages, resources.pop_all())

    def _shared_reader(self, source: StateSource, resources: AsyncExitStack) -> SharedReader:
        """Return a reader, whose share of the processor is smaller while there are others."""
        reader = SharedReader(source, share=lambda: _SHARE / max(2, len(self.readers)))
        self.readers.append(reader)
        resources.callback(self.readers.remove, reader)
        resources.push_async_callback(reader.close)
        return reader

    def source(self, account: Client) -> LiveSource:
        """Return the whole state, with the console's own credentials."""
        return LiveSource(account, self.name, self.namespaces, watch_seconds=_WATCH_SECONDS)

    async def filtered_reader(self, hub: SourceHub, reviews: AccessReviews, viewer: User) -> OpenedReader:
        """Start a reader of what a viewer of the proxy may read of a started hub.

        Raises
        ------
        ApiError, TransportError, TimeoutError
            It cannot be reviewed.
        """
        async with AsyncExitStack() as resources:
            source = FilteredSource(hub, viewer, reviews, tuple(self.namespaces))
            reader = self._shared_reader(source, resources)
            await reader.start()
            pages = application(reader, self.scenarios, viewer=viewer.name, signs_out=False, plans=self.plans)
            return OpenedReader(reader, pages, resources.pop_all())


async def serve_cluster(
    console: ClusterConsole,
    certificate: Path,
    *,
    host: str = ANY_ADDRESS,
    port: int = 9443,
    ready: Callable[[int], None] = lambda _port: None,
    proxy_ready: Callable[[int], None] = lambda _port: None,
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
    ready, proxy_ready
        Receive the ports, once the console is served to viewers and to a proxy.

    Raises
    ------
    TrainyardError
        There is no valid certificate, or a port is in use.
    """
    files = ServingFiles(certificate)
    async with AsyncExitStack() as stack:
        listening = stack.enter_context(bound(host, port))
        # Its requests are few, and not throttled by those of readers, which have clients of their own.
        client = await stack.enter_async_context(
            Client(console.connection, user_agent=_USER_AGENT, timeout=5.0, patience=5.0)
        )
        sessions = ViewerSessions(lambda token: review_token(client, token), console.reader, most=console.sessions)
        guard = SessionGuard(sessions, console.hosts, console.name)
        background = [sessions.keep_confirmed, files.keep_loaded]
        own = PageServer(_config(guard, files), sessions.close_all, lambda: ready(listening.getsockname()[1]))
        servers = [(own, listening)]
        if console.proxy is not None:
            of_proxy = ServingFiles(certificate, console.proxy.authority)
            background.append(of_proxy.keep_loaded)
            other = stack.enter_context(bound(host, console.proxy.port))
            views = await _proxy_views(console, stack, client)
            config = _config(ProxyGuard(views, (*console.hosts, *LOOPBACK_NAMES)), of_proxy, console.proxy.names)
            servers.append((PageServer(config, views.close_all, lambda: proxy_ready(other.getsockname()[1])), other))
        await _serve_all(servers, background)


async def _proxy_views(console: ClusterConsole, stack: AsyncExitStack, client: Client) -> ProxyViews:
    """Return the readers of a proxy's viewers, which share the state that the console's own account reads."""
    account = await stack.enter_async_context(Client(console.connection, user_agent=_USER_AGENT))
    hub, reviews, lock = SourceHub(console.name, lambda: console.source(account)), AccessReviews(client), asyncio.Lock()
    stack.push_async_callback(hub.close)

    async def opened(viewer: User) -> OpenedReader:
        async with asyncio.timeout(START_SECONDS):
            async with lock:  # the first viewer starts the hub
                await hub.start()
            return await console.filtered_reader(hub, reviews, viewer)

    views = ProxyViews(opened, console.sessions)
    stack.push_async_callback(views.close_all)
    return views


async def _serve_all(
    servers: Sequence[tuple[PageServer, socket.socket]], background: Sequence[Callable[[], Coroutine[None, None, None]]]
) -> None:
    """Serve until one server ends, then end all."""
    tasks = [asyncio.create_task(each()) for each in background]
    serving = [asyncio.create_task(server.serve(sockets=[listening])) for server, listening in servers]
    try:
        await asyncio.wait(serving, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for server, _ in servers:
            server.should_exit = True
        await asyncio.gather(*serving)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _config(app: ASGIApp, files: ServingFiles, client_names: Sequence[str] = ()) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http=named_protocol(client_names) if client_names else BoundedProtocol,
        access_log=False,
        log_level="warning",
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=5,
        ws="none",
        proxy_headers=False,
    )
    config.load()
    config.ssl = files.context
    return config
