"""Interrupted commands: the next `up` completes them, and after `down` nothing stays on the machine. Runs last."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.real.conftest import RealCluster, every_object, machine_state, node_commands, process_of
from tests.real.test_disturbances import all_ready
from tests.support import ROOT, awaited, require
from trainyard.local.cluster.node.node_plan import NAMESPACE_FOLDER, junction, machine_name

pytestmark = pytest.mark.real


def test_destroy_leaves_nothing_in_the_cluster(real: RealCluster) -> None:
    options = ("--stack", "node", "--config-file", str(real.cluster.config_file))
    require(real.cluster.trainyard("destroy", "--yes", *options))

    def remains() -> set[str]:
        return every_object(real.cluster) ^ real.objects

    try:
        awaited("the objects of before", lambda: not remains(), timeout=20)
    except AssertionError as error:
        raise AssertionError(sorted(remains())) from error


def test_a_dead_node_is_started_again_and_the_others_run_on(real: RealCluster) -> None:
    others = {name: process_of(real, f"node-{name}") for name in ("worker-0", "worker-2")}
    for pid in [process_of(real, name) for name in ("supervisor", "node-worker-1")]:
        os.kill(pid, signal.SIGKILL)
    real.timed("cluster", "up")
    assert {name: process_of(real, f"node-{name}") for name in others} == others
    awaited("ready nodes", lambda: all_ready(real))


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
    os.kill(process_of(real, "supervisor"), signal.SIGKILL)
    command = [sys.executable, "-m", "trainyard", "cluster", "down", "--delete", *real.options]
    with subprocess.Popen(command, cwd=ROOT, env=real.cluster.env, stderr=subprocess.DEVNULL) as ended:
        time.sleep(1.0)
        ended.kill()
    real.timed("cluster", "down", "--delete")
    assert machine_state() == real.before
    assert node_commands() == []
    assert not real.root.exists()
