"""Plain: no framework; the nodes run the command of the runtime or TrainJob unchanged."""

from __future__ import annotations

from typing import Final

from trainyard.api import KubernetesModel
from trainyard.jobs.render.frameworks.base import Framework

PLAIN_LABEL: Final = "plainml"
"""Value of the framework label of runtimes without a framework."""


class Plain(Framework[KubernetesModel]):
    """Nodes without a distributed environment."""

    catalog_runtime = "plain"
    ranks = ("RANK", "NODE_RANK", "PET_NODE_RANK", "JAX_PROCESS_ID", "DMLC_TASK_ID", "PADDLE_TRAINER_ID")
