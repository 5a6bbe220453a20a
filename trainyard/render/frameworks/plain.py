"""No framework: the nodes run as the runtime says."""

from __future__ import annotations

from collections.abc import Iterable

from trainyard.api import Body
from trainyard.problem import Problem
from trainyard.render.plan import Plan

__all__ = ["Plain"]


class Plain:
    """Nodes without a distributed environment."""

    def check(self, plan: Plan) -> Iterable[Problem]:
        """Yield nothing: every TrainJob is fine."""
        return ()

    def apply(self, plan: Plan) -> None:
        """Leave the pods as they are."""

    def objects(self, plan: Plan) -> Iterable[Body]:
        """Yield nothing."""
        return ()
