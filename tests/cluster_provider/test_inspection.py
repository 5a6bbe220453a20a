"""Names, health and logs of replicas as people see them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainyard.errors import TrainyardError
from trainyard.local.cluster.controlplane import CONTROL_PLANE_PROGRAMS
from trainyard.local.cluster.embedded import EmbeddedProvider
from trainyard.local.cluster.folders import ClusterFolder, write_private
from trainyard.local.cluster.inspection import host_processes, inspect, log_file
from trainyard.local.cluster.ports import SLOTS, allocate
from trainyard.local.cluster.process import NOT_INSTALLED, STOPPING, ProcessRecord, identity, write_record
from trainyard.local.cluster.state import ClusterState, ProgramFile, save_state

PROGRAM = "trainyard-controller"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterFolder:
    monkeypatch.setenv("TRAINYARD_STATE_HOME", str(tmp_path))
    found = ClusterFolder(tmp_path / "clusters" / "c")
    programs = {name: ProgramFile("1", "/bin/true") for name in CONTROL_PLANE_PROGRAMS}
    save_state(found, ClusterState(allocate("c", {}, ()), programs))
    write_private(found.kubeconfig, "x")
    return found


def record(folder: ClusterFolder, name: str, *, runs: bool = True, waiting: str = "") -> None:
    pid = os.getpid() if runs else None
    write_record(folder.processes, ProcessRecord(name, "1", "", pid, identity(pid) if pid else None, waiting=waiting))


def replicas(folder: ClusterFolder) -> dict[str, tuple[str, str]]:
    """Return health and log file of each replica by its name."""
    own = [each for each in inspect(folder).processes if each.name.startswith(PROGRAM)]
    return {each.name: (each.health, each.log.name if each.log else "") for each in own}


def test_a_program_without_a_deployment_is_one_line(folder: ClusterFolder) -> None:
    assert replicas(folder) == {PROGRAM: ("not installed", "")}
    record(folder, PROGRAM, runs=False, waiting=NOT_INSTALLED)
    record(folder, f"{PROGRAM}.1", runs=False, waiting=NOT_INSTALLED)
    assert replicas(folder) == {PROGRAM: ("not installed", "")}
    record(folder, PROGRAM, runs=False, waiting="scaled to 0 replicas")
    assert replicas(folder) == {PROGRAM: ("not installed", f"{PROGRAM}.log")}


def test_the_first_replica_has_the_programs_name_whatever_its_slot(folder: ClusterFolder) -> None:
    record(folder, PROGRAM, runs=False, waiting=NOT_INSTALLED)
    record(folder, f"{PROGRAM}.1")
    record(folder, f"{PROGRAM}.3")
    assert {name: log for name, (_, log) in replicas(folder).items()} == {
        PROGRAM: f"{PROGRAM}.1.log",
        f"{PROGRAM}-1": f"{PROGRAM}.3.log",
    }
    assert log_file(folder, f"{PROGRAM}-1") == folder.log(f"{PROGRAM}.3")
    assert log_file(folder, f"{PROGRAM}-2") is None


def test_a_replica_that_stops_comes_last_and_is_no_trouble(folder: ClusterFolder) -> None:
    record(folder, PROGRAM, waiting=STOPPING)
    record(folder, f"{PROGRAM}.1")
    found = [each for each in inspect(folder).processes if each.name.startswith(PROGRAM)]
    assert [(each.name, each.health) for each in found] == [(PROGRAM, "unhealthy"), (f"{PROGRAM}-1", STOPPING)]
    assert [each.ok for each in found] == [False, True]
    assert "does not answer on port" in found[0].detail


def test_a_replica_that_cannot_run_says_why(folder: ClusterFolder) -> None:
    record(folder, PROGRAM)
    record(folder, f"{PROGRAM}.1", runs=False, waiting="Deployment n/d has no pod for it yet: exceeded quota")
    found = {each.name: each.detail for each in inspect(folder).processes}
    assert found[f"{PROGRAM}-1"] == "Deployment n/d has no pod for it yet: exceeded quota"


def test_a_cluster_of_an_older_version_says_what_to_do(folder: ClusterFolder) -> None:
    programs = {name: ProgramFile("1", "/bin/true") for name in CONTROL_PLANE_PROGRAMS}
    ports = {use: port for use, port in allocate("c", {}, ()).items() if not use[0].isdigit()}
    save_state(folder, ClusterState(ports, programs))
    assert "run `trainyard cluster up --name c`" in inspect(folder).detail


def test_logs_of_a_replica_are_found_by_its_name(folder: ClusterFolder) -> None:
    record(folder, PROGRAM)
    record(folder, f"{PROGRAM}.2")
    write_private(folder.log(f"{PROGRAM}.2"), "second\n")
    provider = EmbeddedProvider("c")
    assert provider.logs(f"{PROGRAM}-1", 5) == "second"
    with pytest.raises(TrainyardError, match=f"Process '{PROGRAM}-2' does not exist") as raised:
        provider.logs(f"{PROGRAM}-2", 5)
    assert f"{PROGRAM}-1" in raised.value.fix


def test_every_slot_of_every_program_is_stopped_by_down() -> None:
    names = [name for name, _ in host_processes()]
    assert len(names) == len(set(names)) == 8 * SLOTS
    assert {PROGRAM, f"{PROGRAM}.{SLOTS - 1}"} <= set(names)
