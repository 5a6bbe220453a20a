"""`trainyard console`: a recorded cluster on a free port, and messages of what is missing."""

from __future__ import annotations

import asyncio
import os
import queue
import re
import signal
import subprocess
import threading
import time
import webbrowser
from pathlib import Path

import httpx
import orjson
import pytest

from tests.console.recorded_platform import platform
from tests.console.served_console import PROGRAM, command
from tests.console.test_live_source import put
from tests.kube.fake_api import FakeApi, serving
from tests.kube.kubeconfigs import kubeconfig
from tests.support import in_process, python, require
from trainyard.cluster_state.recorded_file import recorded
from trainyard.insight.console.loopback_server import serve
from trainyard.insight.console.recorded_source import RecordedSource


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("console") / "cluster.json"
    file.write_bytes(orjson.dumps(recorded(platform().observed)))
    return file


@pytest.mark.slow
def test_a_console_that_was_killed_leaves_nothing_to_the_next(
    snapshot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    left = lambda: sorted(tmp_path.glob("trainyard-console-*"))  # noqa: E731
    other = tmp_path / "trainyard-console-elsewhere-1-x"
    other.mkdir()
    with command("--from", str(snapshot)) as (address, run), httpx.Client(follow_redirects=True) as client:
        assert client.get(address).status_code == 200
        page = address.partition("/?")[0]
        with client.stream("GET", f"{page}/events") as events:
            lines = events.iter_lines()
            assert next(lines) == "event: changed"
            (own,) = (each for each in left() if each != other)
            run.kill()
            with pytest.raises(httpx.TransportError):
                list(lines)
        assert run.wait(20) == -signal.SIGKILL
        assert own.is_dir()
        port = page.rpartition(":")[2]
        with command("--from", str(snapshot), "--port", port) as (again, _):
            assert client.get(page).status_code == 401, "the cookie of the former console"
            assert client.get(address).status_code == 401, "its token"
            assert client.get(again).status_code == 200
            assert not own.exists()
            assert other in left(), "of another machine"
    assert left() == [other]


@pytest.mark.slow
def test_a_snapshot_is_served_until_interrupted(snapshot: Path) -> None:
    with command("--from", str(snapshot)) as (address, run):
        with httpx.Client(follow_redirects=True) as client:
            assert client.get(address).status_code == 200
            answer = client.get(address.partition("?")[0])
            assert "cluster.json" in answer.text
            assert httpx.get(address.partition("?")[0]).status_code == 401
            port = str(answer.url.port)
            again = [str(PROGRAM), "console", "--no-browser", "--from", str(snapshot), "--port", port]
            found = subprocess.run(again, capture_output=True, text=True, timeout=60)
            assert found.returncode == 2
            assert f"Error: Port {port} of 127.0.0.1 cannot be used" in found.stderr
            assert "set another --port" in found.stderr
            with client.stream("GET", str(answer.url.join("/events"))) as events:
                lines = events.iter_lines()
                assert next(lines) == "event: changed"
                run.send_signal(signal.SIGINT)
                assert "" in list(lines)
        assert run.wait(20) in (0, 130)
        assert run.stdout is not None
        assert run.stdout.read() == "End with Ctrl+C.\n"


@pytest.mark.slow
async def test_a_cluster_is_served(tmp_path: Path) -> None:
    async with serving(FakeApi()) as api:
        for body in platform().bodies:
            put(api, body)
        file = kubeconfig(tmp_path, f"http://127.0.0.1:{api.port}", {})
        started = await asyncio.create_subprocess_exec(
            *(PROGRAM, "console", "--no-browser", "--kubeconfig", file), stdout=asyncio.subprocess.PIPE
        )
        assert started.stdout is not None
        line = (await started.stdout.readline()).decode()
        try:
            async with httpx.AsyncClient(follow_redirects=True) as client:
                address = line.removeprefix("Console: ").strip()
                assert (await client.get(address)).status_code == 200
                answer = await client.get(address.partition("?")[0])
                assert f"http://127.0.0.1:{api.port}" in answer.text
                assert "No issues found." in answer.text
                assert re.search(r", \d+ API requests", answer.text)
                assert "language/waits" in (await client.get(answer.url.join("/jobs"))).text
        finally:
            started.send_signal(signal.SIGINT)
            await asyncio.wait_for(started.wait(), 20)


def test_a_cluster_that_does_not_answer_is_an_error(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, "http://127.0.0.1:1", {})
    found = in_process("console", "--no-browser", "--kubeconfig", str(file))
    assert found.returncode == 2
    assert found.stderr.startswith("Error: No answer from the API server: ")
    assert "Fix: check that the cluster runs" in found.stderr


def test_without_the_extra_the_error_names_it(snapshot: Path) -> None:
    script = "import sys; sys.modules['jinja2'] = None; from trainyard.cli import main; main()"
    found = python(script, "console", "--from", str(snapshot))
    assert found.returncode == 2
    assert found.stderr == (
        "Error: The console needs the Python package jinja2\nFix: pip install 'trainyard-platform[console]'\n"
    )


def test_other_commands_do_not_import_the_server() -> None:
    script = (
        "import sys; from trainyard.cli.app import build; build('console'); "
        "print([name for name in ('aiohttp', 'jinja2', 'trainyard.kube') if name in sys.modules])"
    )
    assert require(python(script)).strip() == "[]"


class Blocking(webbrowser.BaseBrowser):
    """A browser whose command lasts until it is closed."""

    def __init__(self, name: str = "blocking") -> None:
        super().__init__(name)
        self.pages: queue.Queue[str] = queue.Queue()
        self.closed = threading.Event()

    def open(self, url: str, new: int = 0, autoraise: bool = True) -> bool:
        """Block until the browser is closed."""
        self.pages.put(url)
        self.closed.wait(60)
        return True


async def test_a_browser_that_blocks_does_not_delay_the_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    browser = Blocking()
    monkeypatch.setattr(webbrowser, "get", lambda: browser)
    monkeypatch.setenv("HOME", str(tmp_path))
    served = asyncio.create_task(serve(RecordedSource(platform().observed, "x"), announce=lambda _: None))
    page = await asyncio.to_thread(browser.pages.get, timeout=30)
    file = Path(page.removeprefix("file://"))
    assert file.is_relative_to(tmp_path)  # the /tmp of a browser in a sandbox is its own
    assert (await asyncio.to_thread(file.stat)).st_mode & 0o777 == 0o600
    served.cancel()
    begun = time.monotonic()
    await asyncio.gather(served, return_exceptions=True)
    assert time.monotonic() - begun < 5
    assert not browser.closed.is_set()
    assert await asyncio.to_thread(os.listdir, tmp_path) == []
    browser.closed.set()


@pytest.mark.parametrize("name", ["/usr/bin/lynx", "w3m", "none"])
async def test_without_a_browser_for_pages_it_is_said(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    browser = Blocking(name)
    monkeypatch.setattr(webbrowser, "get", lambda: browser)
    monkeypatch.setattr(browser, "open", lambda _: False if name == "none" else pytest.fail("opened"))
    said: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    source = RecordedSource(platform().observed, "x")

    def say(message: str) -> None:
        loop.call_soon_threadsafe(said.put_nowait, message)

    served = asyncio.create_task(serve(source, announce=lambda _: None, say=say))
    assert await asyncio.wait_for(said.get(), 30) == "No browser was opened: open the address in one."
    served.cancel()
    await asyncio.gather(served, return_exceptions=True)
