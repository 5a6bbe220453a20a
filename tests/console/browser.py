"""Headless Chromium through its WebDriver: opens pages, runs scripts, reads the console, and runs axe-core."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

MISSING = "no browser: Chromium and its driver are not installed (Debian: apt-get install chromium chromium-driver)"
AXE = Path(__file__).parent / "assets" / "axe.min.js"
_OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,1000")
_PORT = re.compile(r"port (\d+)")


def reason_to_skip() -> str:
    """Return why no browser can be started; empty: one can. As root on Debian, it is installed first."""
    if not _installed() and os.getuid() == 0 and shutil.which("apt-get"):
        command = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "chromium", "chromium-driver"]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                command, capture_output=True, timeout=300, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            )
    return "" if _installed() else MISSING


def _installed() -> bool:
    return all(shutil.which(name) for name in ("chromium", "chromedriver"))


class Browser:
    """A session of a browser."""

    def __init__(self, client: httpx.Client, session: str) -> None:
        self._client = client
        self._session = session

    def call(self, method: str, path: str, **body: Any) -> Any:
        answer = self._client.request(
            method, f"/session/{self._session}{path}", json=body if method == "POST" else None
        )
        value = answer.json()["value"]
        assert answer.is_success, value
        return value

    def open(self, address: str) -> None:
        """Open a page and wait until it is loaded."""
        self.call("POST", "/url", url=address)

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script in the page; return its value."""
        return self.call("POST", "/execute/sync", script=script, args=list(arguments))

    def wait(self, script: str, seconds: float = 20.0) -> Any:
        """Wait until a script returns something that is true."""
        end = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < end, f"not true in {seconds:g} s: {script}"
            time.sleep(0.02)
        return value

    def sign_in(self, address: str, cookies: httpx.Cookies) -> None:
        """Take over the cookies of a client that has opened an address."""
        for name, value in cookies.items():
            self.command("Network.setCookie", name=name, value=value, url=address, httpOnly=True, sameSite="Strict")

    def command(self, name: str, /, **parameters: Any) -> Any:
        """Send a command of the DevTools protocol."""
        return self.call("POST", "/goog/cdp/execute", cmd=name, params=parameters)

    def errors(self) -> list[str]:
        """Return the errors and warnings in the console since the last call."""
        entries = self.call("POST", "/se/log", type="browser")
        return [each["message"] for each in entries if each["level"] in ("SEVERE", "WARNING")]

    def violations(self) -> list[str]:
        """Return the violations that axe-core finds in the page."""
        self.command("Page.setBypassCSP", enabled=True)
        found = self.run(AXE.read_text() + "; return axe.run(document, {resultTypes: ['violations']})")
        return [f"{each['id']}: {node['html'][:200]}" for each in found["violations"] for node in each["nodes"]]

    def screenshot(self) -> bytes:
        """Return the window as PNG."""
        return base64.b64decode(self.call("GET", "/screenshot"))


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser without a profile; it ends with the context."""
    with tempfile.TemporaryDirectory() as folder:
        driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            assert driver.stdout is not None
            lines = iter(driver.stdout.readline, "")
            port = next(match[1] for line in lines if "successfully" in line and (match := _PORT.search(line)))
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
                options = {"binary": shutil.which("chromium"), "args": [*_OPTIONS, f"--user-data-dir={folder}"]}
                wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
                answer = client.post("/session", json={"capabilities": {"alwaysMatch": wanted}}).json()["value"]
                session = Browser(client, answer["sessionId"])
                try:
                    yield session
                finally:
                    session.call("DELETE", "")
        finally:
            driver.terminate()
            driver.wait(30)
