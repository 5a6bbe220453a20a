"""The launchers of Open MPI, Intel MPI and MPICH, run in pods with the variables and the host file that render returns.

The pods are namespaces of this machine. A stub of SSH starts commands in the pods of ``node``; as in a cluster, the
launcher has no SSH server, and only its own pod resolves its short name.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.launchers import programs
from tests.launchers.rendered_pods import Run, require_namespaces, run_pods
from tests.render.builders import train_job
from tests.render.launched import launched

pytestmark = pytest.mark.slow

REPORT = "echo rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK} size=${OMPI_COMM_WORLD_SIZE:-$PMI_SIZE} host=$(hostname)"
ALLREDUCE = Path(__file__).with_name("allreduce.py")
LAUNCHER = "job-launcher-0-0"
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
"""The programs run as root of a user namespace."""


@pytest.fixture(scope="module", autouse=True)
def namespaces() -> None:
    require_namespaces()


def launch(
    folder: Path,
    implementation: str,
    nodes: int,
    *,
    framework: str = "mpi",
    as_node: bool = True,
    processes: int = 1,
    interface: str = "eth0",
    program: tuple[str, ...] = ("sh", "-c", REPORT),
) -> Run:
    """Run mpirun in the launcher of a rendered job."""
    place = programs.launcher(implementation)
    if place is None:
        pytest.skip(f"no launcher of {implementation}: run `python -m tests.launchers.programs`")
    policy: dict[str, Any] = {"mpiImplementation": implementation} if framework == "mpi" else {}
    runtime = launched(framework=framework, nodes=nodes, runLauncherAsNode=as_node, **policy)
    job = train_job(trainer={"numNodes": nodes, "numProcPerNode": processes, "command": ["mpirun", *program]})
    return run_pods(
        folder,
        job,
        runtime,
        LAUNCHER,
        path=place / "bin",
        variables={**AS_ROOT, "I_MPI_ROOT": str(place)},
        interface=interface,
        servers=["node"],
    )


def check(found: Run, nodes: int, processes: int, *, as_node: bool) -> None:
    """Check that each host runs its processes, and that the launcher alone starts them on the other nodes."""
    total = nodes * processes
    ranks = [(rank, size) for rank, size, _ in found.processes]
    assert ranks == [(rank, total) for rank in range(total)], found.errors
    hosts = [host for _, _, host in found.processes]
    others = [f"job-node-0-{index}" for index in range(nodes - as_node)]
    expected = [*others, LAUNCHER] if as_node else others
    assert {host: hosts.count(host) for host in hosts} == dict.fromkeys(expected, processes)
    assert sorted(found.asked) == sorted((LAUNCHER, f"{host}.job") for host in others)


@pytest.mark.parametrize("implementation", programs.PROGRAMS.values())
@pytest.mark.parametrize(
    ("nodes", "processes", "as_node", "interface"),
    [
        (1, 2, True, "eth0"),
        (3, 2, True, "eth0"),
        (2, 1, True, "net1"),
        (1, 1, False, "eth0"),
        (3, 2, False, "eth0"),
    ],
)
def test_mpirun_starts_the_processes_of_each_node(
    tmp_path: Path, implementation: str, nodes: int, processes: int, as_node: bool, interface: str
) -> None:
    found = launch(tmp_path, implementation, nodes, processes=processes, as_node=as_node, interface=interface)
    check(found, nodes, processes, as_node=as_node)


@pytest.mark.parametrize(
    ("implementation", "nodes", "as_node"),
    [("Intel", 18, True), ("Intel", 18, False), ("MPICH", 18, True), ("OpenMPI", 66, True), ("OpenMPI", 66, False)],
)
def test_the_launcher_starts_all_nodes_of_a_job_for_which_mpirun_would_use_a_tree(
    tmp_path: Path, implementation: str, nodes: int, as_node: bool
) -> None:
    check(launch(tmp_path, implementation, nodes, as_node=as_node), nodes, 1, as_node=as_node)


@pytest.mark.parametrize("as_node", [True, False])
def test_mpirun_with_the_variables_of_horovod(tmp_path: Path, as_node: bool) -> None:
    check(launch(tmp_path, "OpenMPI", 2, framework="horovod", processes=2, as_node=as_node), 2, 2, as_node=as_node)


@pytest.mark.parametrize(("implementation", "library"), [("OpenMPI", "libmpi.so.40"), ("MPICH", "libmpi.so.12")])
def test_processes_of_different_pods_reach_each_other(tmp_path: Path, implementation: str, library: str) -> None:
    place = programs.launcher(implementation)
    program = (sys.executable, str(ALLREDUCE), f"{place}/lib/{library}")
    found = launch(tmp_path, implementation, 2, processes=2, program=program)
    check(found, 2, 2, as_node=True)
    assert found.output.count("sum=6") == 4
