"""Server of a local console: 127.0.0.1, a random token, and the browser."""

from __future__ import annotations

import asyncio
import secrets
import socket
import tempfile
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn

from trainyard.console.access_guard import AccessGuard
from trainyard.console.recorded_source import Source
from trainyard.console.scenario_folder import ScenarioFolder
from trainyard.console.shared_reader import SharedReader
from trainyard.console.web_application import application
from trainyard.errors import TrainyardError

__all__ = ["page_of", "serve"]


async def serve(
    source: Source,
    *,
    port: int = 0,
    scenarios: ScenarioFolder | None = None,
    browser: bool = True,
    announce: Callable[[str], None] = print,
) -> None:
    """Serve the pages until interrupted.

    Parameters
    ----------
    source
        Source of the state.
    port
        Port of 127.0.0.1; 0: a free one.
    scenarios
        Folder of reports of `trainyard simulate`.
    browser
        Whether to open a browser.
    announce
        Receives the address with the token, once the pages are served.

    Raises
    ------
    TrainyardError
        The port is in use.
    """
    listening = _bound(port)
    with listening:
        number = listening.getsockname()[1]
        token = secrets.token_urlsafe(24)
        reader = SharedReader(source)
        try:
            await reader.start()  # its errors are those of the command
        except BaseException:
            await reader.close()
            raise
        pages = AccessGuard(application(reader, scenarios), token, number)
        server = _Server(
            reader,
            uvicorn.Config(
                pages,
                access_log=False,  # it would contain the token
                log_level="warning",
                server_header=False,
                lifespan="on",
                timeout_graceful_shutdown=1,
                ws="none",
                proxy_headers=False,
            ),
        )
        task = asyncio.create_task(server.serve(sockets=[listening]))
        ready = asyncio.create_task(server.ready.wait())
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if not task.done():
            address = f"http://127.0.0.1:{number}/?token={token}"
            announce(address)
        with tempfile.TemporaryDirectory(prefix="trainyard-console-") as folder:
            if browser and not task.done():
                await asyncio.to_thread(webbrowser.open, page_of(Path(folder), address).as_uri())
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                server.should_exit = True
                await task
                raise


def page_of(folder: Path, address: str) -> Path:
    """Return a page of the user that leads to an address: other users see the arguments of a browser."""
    file = folder / "console.html"
    file.touch(mode=0o600)
    head = f'<meta charset="utf-8"><meta http-equiv="refresh" content="0; url={address}"><title>Trainyard</title>'
    file.write_text(
        f'<!doctype html><html lang="en"><head>{head}</head><body><a href="{address}">Console</a></body></html>'
    )
    return file


class _Server(uvicorn.Server):
    def __init__(self, reader: SharedReader, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._reader = reader
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve, and say so."""
        await super().startup(sockets)
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams of the pages, which would keep the server from stopping, and stop."""
        self._reader.end_streams()
        await super().shutdown(sockets)


def _bound(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise TrainyardError(f"Port {port} of 127.0.0.1 cannot be used: {error}", fix="set another --port") from error
    return listening
