"""MPI: mpirun on a launcher, with Open MPI, Intel MPI or MPICH."""

from __future__ import annotations

from trainyard.api.ml_policy import MpiPolicy
from trainyard.render.frameworks.mpi_implementations import IMPLEMENTATIONS, Implementation
from trainyard.render.frameworks.ssh_launch import SshLaunched
from trainyard.render.plan import Plan

__all__ = ["Mpi"]


class Mpi(SshLaunched):
    """mpirun on a launcher."""

    title = "MPI"
    field = "mpi"

    def policy(self, plan: Plan) -> MpiPolicy:
        """Return the MPI policy of the runtime."""
        return plan.ml_policy.mpi or MpiPolicy()

    def implementation(self, plan: Plan) -> Implementation:
        """Return the implementation that the runtime names."""
        return IMPLEMENTATIONS[self.policy(plan).mpi_implementation]
