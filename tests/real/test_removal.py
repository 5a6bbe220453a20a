"""Interrupted commands: the next `up` completes them, and after `down` nothing stays on the machine. Runs last."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.real.conftest import RealCluster, machine_state, node_commands
from tests.real.test_disturbances import all_ready
from tests.support import ROOT, awaited, require, trainyard
from trainyard.cluster.node.node_plan import NAMESPACE_FOLDER, junction, machine_name

pytestmark = pytest.mark.real


def test_an_interrupted_start_is_completed_by_the_next_one(real: RealCluster) -> None:
    real.timed("cluster", "down")
    hub = NAMESPACE_FOLDER / junction(machine_name(real.root))
    command = [sys.executable, "-m", "trainyard", "cluster", "up", *real.options]
    with subprocess.Popen(command, cwd=ROOT, env=real.cluster.env, stderr=subprocess.DEVNULL) as started:
        awaited("the first namespace", lambda: hub.exists() or None, timeout=60)
        started.kill()
    real.timed("cluster", "up")
    assert all_ready(real)


def test_nothing_stays_after_down_although_the_supervisor_and_the_command_were_killed(real: RealCluster) -> None:
    supervisor = next(
        int(line["pid"])
        for line in json.loads(
            require(trainyard("cluster", "status", *real.options, "-o", "json", env=real.cluster.env))
        )["processes"]
        if line["name"] == "supervisor"
    )
    os.kill(supervisor, signal.SIGKILL)
    command = [sys.executable, "-m", "trainyard", "cluster", "down", "--delete", *real.options]
    with subprocess.Popen(command, cwd=ROOT, env=real.cluster.env, stderr=subprocess.DEVNULL) as ended:
        time.sleep(1.0)
        ended.kill()
    real.timed("cluster", "down", "--delete")
    assert machine_state() == real.before
    assert node_commands() == []
    assert not real.root.exists()
