"""`trainyard up` that was killed goes on where it was when it is run again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.conftest import live
from tests.support import ROOT, LiveCluster, awaited, environment, require, stack_file, trainyard

pytestmark = pytest.mark.cluster

KILLS = int(os.environ.get("TRAINYARD_KILLS", "0"))
"""Runs that `make kills` kills at random."""

YES: Final = {"up": ("--yes",), "destroy": ("--yes",), "refresh": (), "preview": ()}


@pytest.fixture(scope="module")
def interrupted(state_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """A control plane on which `up` will be killed."""
    env, config = environment(state_home), stack_file(tmp_path_factory.mktemp("resume"), "resume")
    try:
        require(trainyard("cluster", "up", "--name", "resume", env=env))
        yield live("resume", config, env)
    finally:
        trainyard("cluster", "down", "--name", "resume", "--delete", env=env)


@pytest.fixture(scope="module")
def state(state_home: Path) -> Path:
    """The state file of the stack."""
    return state_home / "clusters" / "resume" / "pulumi" / ".pulumi" / "stacks" / "trainyard" / "local.json"


def killed(cluster: LiveCluster, operation: str, moment: Callable[[], bool], *, whole_group: bool) -> None:
    """Run `up` or `destroy` until a moment or its end, then kill it: the command alone, or with what it started."""
    process = subprocess.Popen(
        [sys.executable, "-m", "trainyard", operation, "--yes", "--config-file", str(cluster.config_file)],
        cwd=ROOT,
        env=cluster.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        awaited("the moment to kill it", lambda: moment() or process.poll() is not None, timeout=180)
    finally:
        if whole_group and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()


def test_up_finishes_after_being_killed_twice(interrupted: LiveCluster) -> None:
    def exists(kind: str, name: str, *where: str) -> Callable[[], bool]:
        return lambda: interrupted.get(kind, name, *where) is not None

    for moment, whole_group in (
        (exists("namespace", "volcano-system"), False),
        (exists("deployment", "volcano-admission", "-n", "volcano-system"), True),
    ):
        killed(interrupted, "up", moment, whole_group=whole_group)
        assert moment(), "`up` ended before it could be killed"
    require(interrupted.trainyard("up", "--yes", "--config-file", str(interrupted.config_file)))
    assert interrupted.get("queue", "vision")["status"]["state"] == "Open"
    assert interrupted.get("namespace", "vision") is not None
    again = require(interrupted.trainyard("up", "--yes", "--config-file", str(interrupted.config_file)))
    assert "nothing to change" in again


def test_of_two_runs_at_once_one_is_rejected_or_waits_for_nothing(interrupted: LiveCluster) -> None:
    """The state stays whole: afterwards there is nothing to change."""
    command = [sys.executable, "-m", "trainyard", "up", "--yes", "--config-file", str(interrupted.config_file)]
    runs = [
        subprocess.Popen(
            command, cwd=ROOT, env=interrupted.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for _ in range(2)
    ]
    printed = [run.communicate(timeout=300)[0] for run in runs]
    assert any(run.returncode == 0 for run in runs), printed
    for run, text in zip(runs, printed, strict=True):
        assert run.returncode == 0 or "holds the stack" in text or "currently locked" in text, text
        assert "Traceback" not in text
    again = require(interrupted.trainyard("up", "--yes", "--config-file", str(interrupted.config_file)))
    assert "nothing to change" in again


def rejected(result: subprocess.CompletedProcess[str]) -> str:
    """Return what a command printed that failed without a traceback."""
    output = result.stdout + result.stderr
    assert result.returncode != 0, output
    assert "Traceback" not in output, output
    return output


def test_a_rebuilt_cluster_is_recognized_and_refresh_makes_it_usable(interrupted: LiveCluster, state: Path) -> None:
    """The state of the former cluster says that all objects exist; the new one, under the same context, has none."""

    def command(operation: str) -> subprocess.CompletedProcess[str]:
        return interrupted.trainyard(operation, *YES[operation], "--config-file", str(interrupted.config_file))

    former = state.read_bytes()
    require(interrupted.trainyard("cluster", "down", "--name", "resume", "--delete"))
    require(interrupted.trainyard("cluster", "up", "--name", "resume"))
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_bytes(former)
    for operation in ("preview", "up", "destroy"):
        output = rejected(command(operation))
        assert "describes another cluster" in output, output
        assert "trainyard refresh --stack local" in output, output
    assert state.read_bytes() == former
    require(command("refresh"))
    require(command("up"))
    assert interrupted.get("queue", "vision")["status"]["state"] == "Open"
    assert "nothing to change" in require(command("up"))


@pytest.mark.skipif(not KILLS, reason="only in `make kills`")
def test_the_state_equals_the_cluster_after_random_kills(interrupted: LiveCluster, state: Path) -> None:
    """`up` and `destroy` are killed in turn, each after a random number of changes of the state."""
    random = Random(1)

    def resources() -> int:
        try:
            latest = json.loads(state.read_text())["checkpoint"]["latest"] or {}
        except (OSError, ValueError):
            return -1
        return len(latest.get("resources", []))

    for turn in range(KILLS):
        operation, before = ("destroy", "up")[turn % 2], resources()
        wanted = random.randrange(1, 120)

        def moved(start: int = before, wanted: int = wanted) -> bool:
            return abs(resources() - start) >= wanted

        killed(interrupted, operation, moved, whole_group=random.random() < 0.5)
    require(interrupted.trainyard("up", "--yes", "--config-file", str(interrupted.config_file)))
    for operation in ("refresh", "up"):
        done = require(interrupted.trainyard(operation, *YES[operation], "--config-file", str(interrupted.config_file)))
        assert "nothing to change" in done or "no changes" in done, done
