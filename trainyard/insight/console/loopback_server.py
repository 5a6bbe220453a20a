"""Server of a local console: 127.0.0.1, a random token, and the browser."""

from __future__ import annotations

import dataclasses
import glob
import os
import shutil
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Final

from trainyard.insight.console.access_guard import AccessGuard
from trainyard.insight.console.page_server import LIMITS, bound, serving, terminated
from trainyard.insight.console.recorded_source import StateSource
from trainyard.insight.console.scenario_folder import ScenarioFolder
from trainyard.insight.console.shared_reader import SharedReader
from trainyard.insight.console.web_application import Pages, application

_HOST: Final = "127.0.0.1"
_LIMITS: Final = dataclasses.replace(LIMITS, connections=64)
_TEXT_BROWSERS: Final = frozenset({"www-browser", "links", "elinks", "lynx", "w3m"})


async def serve(
    source: StateSource,
    *,
    port: int = 0,
    scenarios: ScenarioFolder | None = None,
    browser: bool = True,
    announce: Callable[[str], None] = print,
    say: Callable[[str], None] = print,
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
    say
        Receives a message if no browser was opened.

    Raises
    ------
    TrainyardError
        The port is in use.
    """
    with bound(_HOST, port) as listening:
        number = listening.getsockname()[1]
        reader = SharedReader(source)
        try:
            await reader.start()  # its errors are those of the command
            guard = AccessGuard(Pages(reader, scenarios), number)
            app = application(guard.middleware)
            async with serving(app, listening, reader.end_streams, _LIMITS, end_seconds=1.0):
                address = f"http://{_HOST}:{number}/?token={guard.new_token()}"
                announce(address)
                home = _readable_folder()
                _remove_left(home)
                with tempfile.TemporaryDirectory(prefix=f"{_folder_of(os.getpid())}-", dir=home) as folder:
                    if browser:
                        page = page_of(Path(folder), address).as_uri()
                        # It may last as long as the browser.
                        threading.Thread(target=_open, args=(page, say), daemon=True).start()
                    await terminated()
        finally:
            await reader.close()


def page_of(folder: Path, address: str) -> Path:
    """Return a page of the user that leads to an address: other users see the arguments of a browser."""
    file = folder / "console.html"
    file.touch(mode=0o600)
    head = f'<meta charset="utf-8"><meta http-equiv="refresh" content="0; url={address}"><title>Trainyard</title>'
    file.write_text(
        f'<!doctype html><html lang="en"><head>{head}</head><body><a href="{address}">Console</a></body></html>'
    )
    return file


def _readable_folder() -> Path | None:
    """Return a folder that a browser in a sandbox can read, whose /tmp is its own, or None for the usual one."""
    home = Path.home()
    return home if os.access(home, os.W_OK | os.X_OK) else None


def _folder_of(process: int | str) -> str:
    return f"trainyard-console-{socket.gethostname()}-{process}"


def _remove_left(home: Path | None) -> None:
    """Remove the folders of consoles of this machine that were killed."""
    for folder in (home or Path(tempfile.gettempdir())).glob(f"{glob.escape(_folder_of(''))}*"):
        process = folder.name.removeprefix(_folder_of("")).partition("-")[0]
        if process.isdecimal() and not _runs(int(process)):
            shutil.rmtree(folder, ignore_errors=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # of another user, or no pid: it is left alone
        pass
    return True


def _open(page: str, say: Callable[[str], None]) -> None:
    """Open the browser; one for the terminal would hide the output of the command."""
    try:
        found = webbrowser.get()
        opened = Path(getattr(found, "name", "")).name not in _TEXT_BROWSERS and found.open(page)
    except webbrowser.Error:
        opened = False
    if not opened:
        say("No browser was opened: open the address in one.")
