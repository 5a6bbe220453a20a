"""The launchers of Open MPI, Intel MPI and MPICH, run in pods with the variables and the host file that render returns.

The pods are namespaces of this machine (see ``pod_network``). A stub of SSH starts commands in the pods of ``node``; as
in a cluster, the launcher has no SSH server, and only its own pod resolves its short name.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.launchers import pod_network, programs
from tests.render.builders import environment, pods, train_job
from tests.render.launched import launched
from trainyard.render import RenderContext, Rendered, render

pytestmark = pytest.mark.slow

NAMESPACES = ("unshare", "--user", "--map-root-user", "--net", "--mount", "--uts", "--pid", "--fork", "--mount-proc")
HOST_FILE = "/etc/mpi/hostfile"
REPORT = "echo rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK} size=${OMPI_COMM_WORLD_SIZE:-$PMI_SIZE} host=$(hostname)"
ALLREDUCE = Path(__file__).with_name("allreduce.py")


def _no_namespaces() -> str | None:
    try:
        done = subprocess.run(
            [*NAMESPACES, "sh", "-c", "hostname pod && mount -t tmpfs none /dev/shm && ip link add bridge type bridge"],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        return f"{error.filename} is not installed"
    return f"namespaces cannot be created: {done.stderr.strip()}" if done.returncode else None


@pytest.fixture(scope="module", autouse=True)
def namespaces() -> None:
    if reason := _no_namespaces():
        pytest.skip(reason)


@dataclass(frozen=True)
class Launch:
    """Output of a launcher, and who asked SSH for which host."""

    output: str
    errors: str
    asked: list[tuple[str, str]]

    @property
    def processes(self) -> list[tuple[int, int, str]]:
        """Rank, size and host of each process, by rank."""
        found = re.findall(r"rank=(\d+) size=(\d+) host=(\S+)", self.output)
        return sorted((int(rank), int(size), host) for rank, size, host in found)


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
) -> Launch:
    """Run mpirun in the launcher of a rendered job."""
    place = programs.launcher(implementation)
    if place is None:
        pytest.skip(f"no launcher of {implementation}: run `python -m tests.launchers.programs`")
    policy: dict[str, Any] = {"mpiImplementation": implementation} if framework == "mpi" else {}
    runtime = launched(framework=framework, nodes=nodes, runLauncherAsNode=as_node, **policy)
    job = train_job(trainer={"numNodes": nodes, "numProcPerNode": processes})
    rendered = render(job, runtime, RenderContext())
    assert isinstance(rendered, Rendered)
    [host_file] = [body["data"]["hostfile"] for body in rendered.objects if "hostfile" in body.get("data", {})]
    folder.mkdir(exist_ok=True)
    written = folder / "hostfile"
    written.write_text(host_file)
    [container] = pods(job, runtime)["launcher"]["spec"]["containers"]
    variables = {name: value.replace(HOST_FILE, str(written)) for name, value in environment(container).items()}
    hosts = ["job-launcher-0-0", *(f"job-node-0-{index}" for index in range(nodes - as_node))]
    plan = {
        "folder": str(folder / "pods"),
        "path": str(place / "bin"),
        "pods": [
            {
                "hostname": host,
                "name": f"{host}.job",
                "fqdn": f"{host}.job.vision.svc.cluster.local",
                "address": f"10.9.{index // 250}.{index % 250 + 1}",
            }
            for index, host in enumerate(hosts)
        ],
        "interface": interface,
        "environment": {**variables, **_OF_THE_IMAGE.get(implementation, {}), "I_MPI_ROOT": str(place)},
        "launcher": "job-launcher-0-0.job",
        "command": ["mpirun", *program],
        "seconds": 40,
    }
    done = subprocess.run(
        [*NAMESPACES, "--kill-child", sys.executable, pod_network.__file__],
        input=json.dumps(plan),
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )
    asked = [tuple(line.split()) for line in (folder / "pods" / "ssh.log").read_text().splitlines()]
    return Launch(done.stdout, done.stderr, [(source, target) for source, target in asked])


_OF_THE_IMAGE = {"OpenMPI": {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}}
"""What an image sets: here the programs run as root of a user namespace."""


def expected(nodes: int, processes: int, *, as_node: bool) -> dict[str, int]:
    """Return the number of processes of each host."""
    hosts = [*(["job-launcher-0-0"] if as_node else []), *(f"job-node-0-{index}" for index in range(nodes - as_node))]
    return dict.fromkeys(hosts, processes)


def check(found: Launch, nodes: int, processes: int, *, as_node: bool) -> None:
    """Check that each host runs its processes, and that the launcher alone starts them on the other nodes."""
    total = nodes * processes
    ranks = [(rank, size) for rank, size, _ in found.processes]
    assert ranks == [(rank, total) for rank in range(total)], found.errors
    hosts = [host for _, _, host in found.processes]
    assert {host: hosts.count(host) for host in hosts} == expected(nodes, processes, as_node=as_node)
    others = {f"{host}.job" for host in hosts} - {"job-launcher-0-0.job"}
    assert sorted(found.asked) == sorted(("job-launcher-0-0", host) for host in others)


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
