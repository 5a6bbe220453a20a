"""JAX: JAX_* environment for the arguments of ``jax.distributed.initialize``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trainyard.api import Body
from trainyard.api.constants import JOB_COMPLETION_INDEX_FIELD, TRAINER_PORT
from trainyard.api.kubernetes_model import KubernetesModel
from trainyard.jobs.render.frameworks.base import Framework
from trainyard.jobs.render.hosts import host
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.pod_editing import add_ports, field_ref_env, prepend_env

_PROCESSES: Final = "JAX_NUM_PROCESSES"
_PROCESS: Final = "JAX_PROCESS_ID"
_COORDINATOR: Final = "JAX_COORDINATOR_ADDRESS"


class JaxPolicy(KubernetesModel):
    """JAX: environment of its distributed runtime."""


class Jax(Framework[JaxPolicy]):
    """One JAX process per node; the first one is the coordinator.

    The variables are not reserved: a TrainJob may override them, also to join processes of other jobs by a coordinator
    of its own.
    """

    name = "jax"
    order = 30
    catalog_runtime = "jax-distributed"
    summary = "JAX."
    policy_model = JaxPolicy
    variables = (_PROCESSES, _PROCESS, _COORDINATOR)
    may_be_set = True
    ranks = (_PROCESS,)
    sizes = (_PROCESSES,)
    coordinator = _COORDINATOR

    def build(self, builder: JobSetBuilder) -> Iterable[Body]:
        """Insert the variables at the front, so that later ones can refer to them."""
        nodes = builder.trainer
        container = nodes.main_container if nodes else None
        if nodes is None or container is None:
            return ()
        prepend_env(
            container,
            [
                {"name": _PROCESSES, "value": str(nodes.count)},
                field_ref_env(_PROCESS, JOB_COMPLETION_INDEX_FIELD),
                {"name": _COORDINATOR, "value": f"{host(builder, nodes)}:{TRAINER_PORT}"},
            ],
        )
        add_ports(container)
        return ()


FRAMEWORK: Final = Jax()
