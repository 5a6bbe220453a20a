"""`trainyard console`: a recorded cluster on a free port, and messages of what is missing."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import orjson
import pytest

from tests.console.recorded_platform import platform
from tests.support import ROOT
from trainyard.explain import recorded

PROGRAM = Path(sys.executable).with_name("trainyard")


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("console") / "cluster.json"
    file.write_bytes(orjson.dumps(recorded(platform().observed)))
    return file


@contextlib.contextmanager
def served(*arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [str(PROGRAM), "console", "--no-browser", *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) as run:
        try:
            assert run.stdout is not None
            line = run.stdout.readline()
            assert line.startswith("Console: http://127.0.0.1:"), line + run.stdout.read()
            yield line.removeprefix("Console: ").strip(), run
        finally:
            run.send_signal(signal.SIGINT)
            run.wait(20)


def test_a_snapshot_is_served_until_interrupted(snapshot: Path) -> None:
    with served("--from", str(snapshot)) as (address, run):
        with httpx.Client(follow_redirects=True) as client:
            answer = client.get(address)
            assert answer.status_code == 200
            assert "cluster.json" in answer.text
            assert "token" not in str(answer.url)
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


def test_without_the_extra_the_error_names_it(snapshot: Path) -> None:
    script = "import sys; sys.modules['uvicorn'] = None; from trainyard.cli import main; main()"
    command = [sys.executable, "-c", script, "console", "--from", str(snapshot)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert found.returncode == 2
    assert found.stderr == (
        "Error: The console needs the Python package uvicorn\nFix: pip install 'trainyard[console]'\n"
    )


def test_other_commands_do_not_import_the_server() -> None:
    script = (
        "import sys; from trainyard.cli.app import build; build('console'); "
        "print([name for name in ('starlette', 'uvicorn', 'jinja2', 'trainyard.kube') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.strip() == "[]"
