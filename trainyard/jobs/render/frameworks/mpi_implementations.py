"""Implementations of mpirun: format of the host file and variables of the launcher.

The variables of Open MPI 4 are those of Trainer v2.3. Those of Intel MPI and MPICH, which share the Hydra launcher,
follow Kubeflow's mpi-operator and current versions of the launchers. ``tests/launchers`` runs each launcher with them.

A launcher that is a node has no SSH server, so mpirun must recognize itself in the host file. Its pod knows its host
name and its fully qualified name; the name with the subdomain comes from DNS. The launcher starts the processes of all
nodes itself: nodes cannot resolve the short names under which they would start those of further nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from trainyard.api import Body

HOST_FILE_DIRECTORY: Final = "/etc/mpi"
HOST_FILE_NAME: Final = "hostfile"

_HOST_FILE: Final = f"{HOST_FILE_DIRECTORY}/{HOST_FILE_NAME}"
_SSH_ARGUMENTS: Final = "-o ConnectionAttempts=10"
_INTERFACE: Final = "eth0"


@dataclass(frozen=True)
class Implementation:
    """An implementation of mpirun.

    Parameters
    ----------
    line
        Format of a line of the host file, with ``{host}`` and ``{slots}``.
    variables
        Variables of the launcher, reserved; ``{slots}`` is the number of processes of a pod of ``node``,
        ``{processes}`` the total number and ``{hosts}`` the number of hosts.
    defaults
        Variables of the launcher unless runtime or TrainJob set them.
    outside_defaults
        Further such variables of a launcher that is not a node.
    short_launcher
        Whether the host file names a launcher that is a node by its host name alone.
    uniform
        Whether a variable sets the same number of processes on every host.
    passes_variables
        Whether mpirun passes all of its environment to the processes on other hosts.
    """

    line: str
    variables: Mapping[str, str]
    defaults: Mapping[str, str] = field(default_factory=dict)
    outside_defaults: Mapping[str, str] = field(default_factory=dict)
    short_launcher: bool = False
    uniform: bool = False
    passes_variables: bool = True

    def host_file(self, hosts: Iterable[tuple[str, int]]) -> str:
        """Return the contents of the host file, from host names and slots."""
        return "".join(f"{self.line.format(host=host, slots=slots)}\n" for host, slots in hosts)

    def environment(self, hosts: int, slots: int, processes: int, defaults: Mapping[str, str]) -> list[Body]:
        """Return the reserved variables, then the given defaults."""
        return [
            {"name": name, "value": value.format(hosts=hosts, slots=slots, processes=processes)}
            for name, value in {**self.variables, **defaults}.items()
        ]

    def defaults_of(self, *, launcher_is_node: bool, host_network: bool) -> Mapping[str, str]:
        """Return the variables that runtime and TrainJob may set."""
        # On the network of its machine, other names of interfaces apply, and the name of the machine resolves.
        return self.defaults if launcher_is_node or host_network else {**self.defaults, **self.outside_defaults}


# Open MPI 5 ignores the variables of Open MPI 4; without its own, it starts all processes on the launcher. Unlike
# Open MPI 4, it recognizes itself by its host name only, to which it shortens the names of the host file unless told to
# keep them. With more than 64 nodes, nodes would start further ones, by these short names.
_OPEN_MPI: Final = Implementation(
    line="{host} slots={slots}",
    variables={
        "OMPI_MCA_orte_default_hostfile": _HOST_FILE,
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_set_default_slots": "{slots}",
        "OMPI_MCA_plm_rsh_args": _SSH_ARGUMENTS,
    },
    defaults={
        "PRTE_MCA_prte_default_hostfile": _HOST_FILE,
        "PRTE_MCA_prte_keep_fqdn_hostnames": "false",
        "PRTE_MCA_prte_set_default_slots": "{slots}",
        "PRTE_MCA_plm_ssh_args": _SSH_ARGUMENTS,
        "PRTE_MCA_plm_ssh_no_tree_spawn": "true",
    },
    passes_variables=False,
)

# Nodes connect back to Hydra by the launcher's name. If the launcher is a node, that is the name in the host file
# (MPICH) or the fully qualified name (Intel MPI), otherwise its host name, which other pods cannot resolve. With an
# interface set, they connect to its IP address. Container runtimes name the interface of a pod eth0.
# With more than 16 hosts, nodes of Intel MPI would start further ones, and connect to each other by host names.
_INTEL: Final = Implementation(
    line="{host}:{slots}",
    variables={
        "I_MPI_HYDRA_HOST_FILE": _HOST_FILE,
        "I_MPI_PERHOST": "{slots}",
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": _SSH_ARGUMENTS,
    },
    defaults={"I_MPI_HYDRA_BRANCH_COUNT": "{hosts}"},
    outside_defaults={"I_MPI_HYDRA_IFACE": _INTERFACE},
    short_launcher=True,
    uniform=True,
)

# Hydra renamed its variable for launcher arguments; mpi-operator sets the old name, HYDRA_LAUNCH_EXTRA_ARGS.
_MPICH: Final = Implementation(
    line="{host}:{slots}",
    variables={
        "HYDRA_HOST_FILE": _HOST_FILE,
        "HYDRA_LAUNCHER": "ssh",
        "HYDRA_LAUNCHER_EXTRA_ARGS": _SSH_ARGUMENTS,
        "HYDRA_LAUNCH_EXTRA_ARGS": _SSH_ARGUMENTS,
    },
    outside_defaults={"HYDRA_IFACE": _INTERFACE},
)

HOROVOD: Final = Implementation(
    line=_OPEN_MPI.line,
    variables={**_OPEN_MPI.variables, "HOROVOD_HOSTFILE": _HOST_FILE, "HOROVOD_NUM_PROC": "{processes}"},
    defaults=_OPEN_MPI.defaults,
    passes_variables=False,
)
"""Horovod: host file and variables of Open MPI, and variables for ``horovodrun``."""

IMPLEMENTATIONS: Final[Mapping[str, Implementation]] = {
    "OpenMPI": _OPEN_MPI,
    "": _OPEN_MPI,
    "Intel": _INTEL,
    "MPICH": _MPICH,
}
"""Implementations by ``mlPolicy.mpi.mpiImplementation``; default: Open MPI."""

MPI_RANKS: Final = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "RANK")
"""Variables of the rank of a process: mpirun sets the first ones, and programs such as those of DeepSpeed read RANK."""
MPI_SIZES: Final = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE")
"""Variables of the number of processes."""
