"""What a gang scheduler is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from trainyard.api import Body
from trainyard.problem import Problem
from trainyard.render.plan import Plan

__all__ = ["GangScheduler"]


class GangScheduler(Protocol):
    """One gang scheduler of podGroupPolicy."""

    def check(self, plan: Plan) -> Iterable[Problem]:
        """Yield what the scheduler does not accept in the TrainJob or its runtime."""

    def warn(self, plan: Plan) -> Iterable[Problem]:
        """Yield what is accepted and will surprise."""

    def apply(self, plan: Plan) -> None:
        """Mark the pods as members; only called when nothing was found."""

    def objects(self, plan: Plan) -> Iterable[Body]:
        """Yield the object that describes the gang."""
