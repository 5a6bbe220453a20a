"""The controller as a process of its own: started, killed, paused and read as an operator would."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import yaml

from tests.support import ROOT, awaited

_HEALTH = re.compile(r"health listens on 127\.0\.0\.1:(\d+)")


class Controller:
    """One replica of the controller, run with ``trainyard controller run``.

    Parameters
    ----------
    folder
        Where its files go.
    kubeconfig
        How it reaches the API server.
    name
        Names its log.
    configuration
        Content of its configuration file.
    arguments
        Further flags.
    modules
        Folder of Python modules that come before all others.
    root
        Folder of the program: a checkout.
    """

    def __init__(
        self,
        folder: Path,
        kubeconfig: Path,
        *,
        name: str = "controller",
        configuration: Mapping[str, Any] | None = None,
        arguments: tuple[str, ...] = ("--no-webhooks",),
        modules: Path | None = None,
        root: Path = ROOT,
    ) -> None:
        self.log = folder / f"{name}.log"
        self._root = root
        paths = [str(path) for path in (modules, root) if path is not None]
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
        file = folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump({"namespace": "kubeflow-system", **(configuration or {})}))
        self._command = [
            *(sys.executable, "-m", "trainyard", "controller", "run"),
            *("--kubeconfig", str(kubeconfig), "--config", str(file), "--host", "127.0.0.1"),
            *("--health-port", "0", "--metrics-port", "0", "--webhook-port", "0", *arguments),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def text(self) -> str:
        """Everything it logged."""
        return self.log.read_text() if self.log.exists() else ""

    def start(self, *, ready: bool = True) -> Controller:
        """Start it and, by default, wait until it is ready."""
        assert not self.alive
        offset = len(self.text)
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._root, env=self._environment, stdout=log, stderr=log
            )
        if ready:
            self.wait_ready(offset)
        return self

    def wait_ready(self, offset: int = 0, timeout: float = 60) -> None:
        """Wait until it says that it is ready."""

        def ready() -> bool:
            assert self.alive, f"the controller ended:\n{self.text[-3000:]}"
            found = _HEALTH.findall(self.text[offset:])
            return bool(found) and _ok(f"http://127.0.0.1:{found[-1]}/readyz")

        awaited("the controller's readiness", ready, timeout=timeout)

    def kill(self) -> None:
        """End it without warning (also while it is paused)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(20)

    def stop(self, timeout: float = 40) -> int:
        """End it in order and return its exit status."""
        assert self._process is not None
        self._process.terminate()
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def pause(self) -> None:
        """Stop it in the middle of whatever it does."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def wait_ended(self, timeout: float = 60) -> int:
        """Wait until it ended by itself, or was killed, and return its exit status."""
        assert self._process is not None
        return self._process.wait(timeout)

    def cpu_seconds(self) -> float:
        """Processor time it used."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)


def _ok(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status) == 200
    except (urllib.error.URLError, OSError):
        return False
