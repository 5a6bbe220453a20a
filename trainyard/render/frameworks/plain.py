"""Plain: no framework; the nodes run the command of the runtime or TrainJob unchanged."""

from __future__ import annotations

from trainyard.api import KubernetesModel
from trainyard.render.frameworks.base import Framework

__all__ = ["Plain"]


class Plain(Framework[KubernetesModel]):
    """Nodes without a distributed environment."""
