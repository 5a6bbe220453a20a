"""What a framework is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from trainyard.api import Body
from trainyard.problem import Problem
from trainyard.render.plan import Plan

__all__ = ["Framework"]


class Framework(Protocol):
    """One framework of mlPolicy."""

    def check(self, plan: Plan) -> Iterable[Problem]:
        """Yield what the framework does not accept in the TrainJob or its runtime."""

    def apply(self, plan: Plan) -> None:
        """Put the framework's environment into the pods; only called when nothing was found."""

    def objects(self, plan: Plan) -> Iterable[Body]:
        """Yield further objects the framework needs (ConfigMaps, Secrets)."""
