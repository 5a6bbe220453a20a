"""`trainyard up` that was killed goes on where it was when it is run again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import live
from tests.support import ROOT, LiveCluster, awaited, environment, require, stack_file, trainyard

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def interrupted(state_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """A control plane on which `up` will be killed."""
    env, config = environment(state_home), stack_file(tmp_path_factory.mktemp("resume"), "resume")
    try:
        require(trainyard("cluster", "up", "--name", "resume", env=env))
        yield live("resume", config, env)
    finally:
        trainyard("cluster", "down", "--name", "resume", "--delete", env=env)


def killed_up(cluster: LiveCluster, moment: Callable[[], bool], *, whole_group: bool) -> None:
    """Run `up` until a moment, then kill it: the command alone, or with everything it started."""
    process = subprocess.Popen(
        [sys.executable, "-m", "trainyard", "up", "--yes", "--config-file", str(cluster.config_file)],
        cwd=ROOT,
        env=cluster.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        awaited("the moment to kill `up`", moment, timeout=180)
        assert process.poll() is None, "`up` ended before it could be killed"
    finally:
        if whole_group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()


def test_up_finishes_after_being_killed_twice(interrupted: LiveCluster) -> None:
    def exists(kind: str, name: str, *where: str) -> Callable[[], bool]:
        return lambda: interrupted.get(kind, name, *where) is not None

    killed_up(interrupted, exists("namespace", "volcano-system"), whole_group=False)
    killed_up(interrupted, exists("deployment", "volcano-admission", "-n", "volcano-system"), whole_group=True)
    require(interrupted.trainyard("up", "--yes", "--config-file", str(interrupted.config_file)))
    assert interrupted.get("queue", "vision")["status"]["state"] == "Open"
    assert interrupted.get("namespace", "vision") is not None
    again = require(interrupted.trainyard("up", "--yes", "--config-file", str(interrupted.config_file)))
    assert "nothing to change" in again
