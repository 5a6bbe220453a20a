"""Horovod: horovodrun, or plain mpirun, on a launcher.

``horovodrun`` takes the number of processes and the host file as arguments; the launcher has them as variables, so a
command is ``horovodrun -np $(HOROVOD_NUM_PROC) --hostfile $(HOROVOD_HOSTFILE) python train.py``, with MPI or Gloo. With
Open MPI ``mpirun python train.py`` needs no argument.
"""

from __future__ import annotations

from trainyard.api.ml_policy import HorovodPolicy
from trainyard.render.frameworks.mpi_implementations import HOROVOD, Implementation
from trainyard.render.frameworks.ssh_launch import SshLaunched
from trainyard.render.plan import Plan

__all__ = ["Horovod"]


class Horovod(SshLaunched):
    """horovodrun on a launcher."""

    title = "Horovod"
    field = "horovod"

    def policy(self, plan: Plan) -> HorovodPolicy:
        """Return the Horovod policy of the runtime."""
        return plan.ml_policy.horovod or HorovodPolicy()

    def implementation(self, plan: Plan) -> Implementation:
        """Return what horovodrun and mpirun read."""
        return HOROVOD
