"""A command that is forked does what a started one does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked_command import run_forked, starts_alike
from tests.support import run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("arguments", [("--help",), ("up", "--unknown"), ("cluster", "status", "--name", "none")])
def test_a_forked_command_prints_what_a_started_one_prints(arguments: tuple[str, ...], tmp_path: Path) -> None:
    env = {**os.environ, "TRAINYARD_STATE_HOME": str(tmp_path), "COLUMNS": "90"}
    forked = run_forked(arguments, env=env, timeout=60)
    started = run(sys.executable, "-m", "trainyard", *arguments, env=env, stdin="")
    assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)
    assert forked.stdout + forked.stderr


def test_a_forked_command_is_killed_at_its_timeout() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_forked(("--help",), env=os.environ, timeout=0.001)


def test_other_variables_of_python_need_a_start() -> None:
    assert starts_alike({**os.environ, "TRAINYARD_STATE_HOME": "/elsewhere"})
    assert not starts_alike({**os.environ, "PYTHONPATH": "/elsewhere"})
