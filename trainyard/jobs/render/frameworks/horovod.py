"""Horovod: horovodrun or mpirun on a launcher.

``horovodrun`` requires the number of processes and the host file as arguments. The launcher provides them as variables:
``horovodrun -np $(HOROVOD_NUM_PROC) --hostfile $(HOROVOD_HOSTFILE) python train.py``, with MPI or Gloo. With Open MPI,
``mpirun python train.py`` requires no arguments.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from trainyard.api.kubernetes_model import Int32, KubernetesModel
from trainyard.jobs.render.frameworks.mpi_implementations import HOROVOD, MPI_RANKS, MPI_SIZES, Implementation
from trainyard.jobs.render.frameworks.ssh_launch import MountPath, SshLaunched
from trainyard.jobs.render.job_view import JobView


class HorovodPolicy(KubernetesModel):
    """Horovod: host file, SSH keys and launcher."""

    num_proc_per_node: Annotated[Int32, Field(ge=1)] = 1
    """Processes (slots) per node."""
    ssh_auth_mount_path: MountPath = "/root/.ssh"
    """Mount path of the SSH keys."""
    run_launcher_as_node: bool = False
    """Whether the launcher is also a training node."""


class Horovod(SshLaunched[HorovodPolicy]):
    """horovodrun on a launcher, over SSH."""

    name = "horovod"
    order = 90
    summary = "Horovod."
    title = "Horovod"
    policy_model = HorovodPolicy
    added = "Horovod with the host file and SSH keys of mpi"
    variables = ("OMPI_MCA_orte_*", "OMPI_MCA_plm_rsh_args", "HOROVOD_HOSTFILE", "HOROVOD_NUM_PROC")

    ranks = ("HOROVOD_RANK", "HOROVOD_CROSS_RANK", *MPI_RANKS)
    sizes = ("HOROVOD_SIZE", "HOROVOD_CROSS_SIZE", *MPI_SIZES)

    def launch_policy(self, job: JobView) -> HorovodPolicy:
        """Return the Horovod policy of the runtime."""
        return self.policy(job) or HorovodPolicy()

    def implementation(self, job: JobView) -> Implementation:
        """Return host file and variables of horovodrun and mpirun."""
        return HOROVOD


FRAMEWORK: Final = Horovod()
