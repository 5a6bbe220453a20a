"""Horovod: horovodrun, or plain mpirun, on a launcher.

``horovodrun`` takes the number of processes and the host file as arguments; the launcher has them as variables, so a
command is ``horovodrun -np $(HOROVOD_NUM_PROC) --hostfile $(HOROVOD_HOSTFILE) python train.py``, with MPI or Gloo. With
Open MPI ``mpirun python train.py`` needs no argument.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from trainyard.api.kubernetes_model import Int32, KubernetesModel
from trainyard.render.frameworks.mpi_implementations import HOROVOD, Implementation
from trainyard.render.frameworks.ssh_launch import MountPath, SshLaunched
from trainyard.render.working_state import Plan

__all__ = ["FRAMEWORK", "Horovod", "HorovodPolicy"]


class HorovodPolicy(KubernetesModel):
    """Horovod: host file, keys and launcher."""

    num_proc_per_node: Annotated[Int32, Field(ge=1)] = 1
    """Processes (slots) on one node."""
    ssh_auth_mount_path: MountPath = "/root/.ssh"
    """Where the keys are mounted."""
    run_launcher_as_node: bool = False
    """Whether the launcher trains too."""


class Horovod(SshLaunched[HorovodPolicy]):
    """horovodrun on a launcher."""

    name = "horovod"
    order = 90
    summary = "Horovod."
    title = "Horovod"
    policy_model = HorovodPolicy
    added = "Horovod with the files that mpi makes"
    variables = ("OMPI_MCA_orte_*", "OMPI_MCA_plm_rsh_args", "HOROVOD_HOSTFILE", "HOROVOD_NUM_PROC")

    def launch_policy(self, plan: Plan) -> HorovodPolicy:
        """Return the Horovod policy of the runtime."""
        return self.policy(plan) or HorovodPolicy()

    def implementation(self, plan: Plan) -> Implementation:
        """Return what horovodrun and mpirun read."""
        return HOROVOD


FRAMEWORK: Final = Horovod()
