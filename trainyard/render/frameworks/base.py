"""Interface of frameworks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from trainyard.api import Body
from trainyard.problem import Problem
from trainyard.render.plan import Plan

__all__ = ["Framework"]


class Framework:
    """One framework of mlPolicy; each step does nothing unless a framework says otherwise.

    The steps are called in this order: counts, check and warn, then, when nothing was found, apply and objects.
    """

    reserved: ClassVar[frozenset[str]] = frozenset()
    """Variables that the framework sets and a TrainJob may not."""

    keys: ClassVar[str | None] = None
    """Kind of the job's one generated Secret, "ssh" or "curve"; None where the framework needs none.

    The framework yields that Secret among its objects with a value for each of its keys: from the context's ``keys``,
    else a placeholder. Whoever creates objects generates the values once, before the Secret is created.
    """

    def counts(self, plan: Plan) -> None:
        """Set the number of pods where it is not simply numNodes for the trainer."""

    def check(self, plan: Plan) -> Iterable[Problem]:
        """Yield what the framework does not accept in the TrainJob or its runtime."""
        return ()

    def warn(self, plan: Plan) -> Iterable[Problem]:
        """Yield what is accepted and will surprise."""
        return ()

    def apply(self, plan: Plan) -> None:
        """Put the framework's environment into the pods."""

    def objects(self, plan: Plan) -> Iterable[Body]:
        """Yield further objects the framework needs (ConfigMaps, Secrets)."""
        return ()
