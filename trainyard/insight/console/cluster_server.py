"""Server of a console in a cluster: TLS, and viewers with tokens of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from trainyard.insight.console.live_source import LiveSource
from trainyard.insight.console.page_server import LIMITS, bound, serving, terminated
from trainyard.insight.console.plan_limit import CLUSTER_SETTINGS, PlanLimit
from trainyard.insight.console.scenario_folder import ScenarioFolder
from trainyard.insight.console.serving_certificate import ServingFiles
from trainyard.insight.console.shared_reader import SharedReader
from trainyard.insight.console.viewer_credential import ViewerCookie
from trainyard.insight.console.viewer_guard import ViewerGuard
from trainyard.insight.console.viewer_readers import OpenedReader, ViewerReaders
from trainyard.insight.console.web_application import Pages, application
from trainyard.kube.client import Client
from trainyard.kube.credentials import Connection
from trainyard.kube.reviews import own_name
from trainyard.listening import ANY_ADDRESS

_WATCH_SECONDS: Final = (15, 20)
"""Timeouts of watches: a right that is taken away hides what was read with it within a minute."""
_USER_AGENT: Final = "trainyard-console"
_SHARE: Final = 0.5
"""Share of a core that the states and explanations of all viewers may use; of one, half of it."""


@dataclass(frozen=True, kw_only=True)
class ClusterConsole:
    """What a console in a cluster serves.

    Parameters
    ----------
    connection
        The API server; of its credentials only the authority is used.
    name
        Name of the cluster for the pages.
    namespaces
        Namespaces that are read for viewers who may not list all.
    hosts
        Names by which the console is opened.
    sessions
        Number of readers at the same time.
    scenarios
        Folder with reports of scenarios, which every viewer sees.
    """

    connection: Connection
    name: str
    namespaces: Sequence[str] = ()
    hosts: Sequence[str] = ()
    sessions: int = 10
    scenarios: ScenarioFolder = field(default_factory=lambda: ScenarioFolder(None))
    readers: list[SharedReader] = field(default_factory=list, init=False, repr=False)
    plans: PlanLimit = field(default_factory=lambda: PlanLimit(CLUSTER_SETTINGS), init=False, repr=False)

    async def viewer(self, token: str) -> str:
        """Return the name of the user of a token.

        Raises
        ------
        ApiError, TransportError
            The API server rejects the token, with CredentialsError, or does not answer.
        """
        connection = self.connection.with_token(token)
        async with Client(connection, user_agent=_USER_AGENT, timeout=5.0, patience=5.0) as client:
            return await own_name(client)

    async def reader(self, viewer: str, token: str) -> OpenedReader:
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
            reader = SharedReader(source, share=lambda: _SHARE / max(2, len(self.readers)))
            self.readers.append(reader)
            resources.callback(self.readers.remove, reader)
            resources.push_async_callback(reader.close)
            await reader.start()
            pages = Pages(reader, self.scenarios, viewer, plans=self.plans)
            return OpenedReader(source, reader, pages, resources.pop_all())


async def serve_cluster(
    console: ClusterConsole,
    certificate: Path,
    *,
    host: str = ANY_ADDRESS,
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
    readers = ViewerReaders(console.viewer, console.reader, most=console.sessions)
    guard = ViewerGuard(readers, ViewerCookie(certificate), console.hosts, console.name)
    app = application(guard.middleware)
    with bound(host, port) as listening:
        number = listening.getsockname()[1]
        async with serving(app, listening, readers.close_all, LIMITS, tls=files.context):
            background = [asyncio.create_task(each()) for each in (readers.keep_used, files.keep_loaded)]
            try:
                ready(number)
                await terminated()
            finally:
                for task in background:
                    task.cancel()
                await asyncio.gather(*background, return_exceptions=True)
