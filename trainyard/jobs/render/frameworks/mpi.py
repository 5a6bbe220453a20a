"""MPI: mpirun on a launcher, with Open MPI, Intel MPI or MPICH."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from trainyard.api.kubernetes_model import Int32, KubernetesModel
from trainyard.jobs.render.frameworks.mpi_implementations import IMPLEMENTATIONS, MPI_RANKS, MPI_SIZES, Implementation
from trainyard.jobs.render.frameworks.ssh_launch import MountPath, SshLaunched
from trainyard.jobs.render.job_view import JobView


class MpiPolicy(KubernetesModel):
    """MPI: host file, SSH keys and launcher."""

    num_proc_per_node: Annotated[Int32, Field(ge=1)] = 1
    """Processes (slots) per node."""
    mpi_implementation: Literal["OpenMPI", "Intel", "MPICH", ""] = "OpenMPI"
    """MPI implementation."""
    ssh_auth_mount_path: MountPath = "/root/.ssh"
    """Mount path of the SSH keys."""
    run_launcher_as_node: bool = False
    """Whether the launcher is also a training node."""


class Mpi(SshLaunched[MpiPolicy]):
    """mpirun on a launcher, over SSH."""

    name = "mpi"
    order = 20
    summary = "MPI."
    title = "MPI"
    policy_model = MpiPolicy
    variables = (
        "OMPI_MCA_orte_*",
        "OMPI_MCA_plm_rsh_args",
        "I_MPI_HYDRA_HOST_FILE",
        "I_MPI_PERHOST",
        "I_MPI_HYDRA_BOOTSTRAP*",
        "HYDRA_HOST_FILE",
        "HYDRA_LAUNCH*",
    )

    ranks = MPI_RANKS
    sizes = MPI_SIZES

    def launch_policy(self, job: JobView) -> MpiPolicy:
        """Return the MPI policy of the runtime."""
        return self.policy(job) or MpiPolicy()

    def implementation(self, job: JobView) -> Implementation:
        """Return the MPI implementation of the runtime."""
        return IMPLEMENTATIONS[self.launch_policy(job).mpi_implementation]


FRAMEWORK: Final = Mpi()
