"""What a gang scheduler is."""

from __future__ import annotations

from collections.abc import Iterable

from trainyard.api import Body
from trainyard.problem import Problem
from trainyard.render.plan import Plan

__all__ = ["GangScheduler"]


class GangScheduler:
    """One gang scheduler of podGroupPolicy; each step does nothing unless a scheduler says otherwise."""

    def check(self, plan: Plan) -> Iterable[Problem]:
        """Yield what the scheduler does not accept in the TrainJob or its runtime."""
        return ()

    def warn(self, plan: Plan) -> Iterable[Problem]:
        """Yield what is accepted and will surprise."""
        return ()

    def apply(self, plan: Plan) -> None:
        """Mark the pods as members; only called when nothing was found."""

    def objects(self, plan: Plan) -> Iterable[Body]:
        """Yield the object that describes the gang."""
        return ()
