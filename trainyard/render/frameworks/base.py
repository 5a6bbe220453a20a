"""Interface of frameworks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, TypeVar

from trainyard.api import Body, KubernetesModel
from trainyard.api.extensions import PolicyField
from trainyard.checks.finding import Finding
from trainyard.render.working_state import Plan

__all__ = ["Framework"]

Policy = TypeVar("Policy", bound=KubernetesModel)


class Framework(PolicyField[Policy]):
    """One framework of mlPolicy; each step does nothing unless a framework says otherwise.

    The steps are called in this order: counts, check and warn, then, when nothing was found, apply and objects.
    """

    reserved: ClassVar[frozenset[str]] = frozenset()
    """Variables that the framework sets and a TrainJob may not."""

    variables: ClassVar[tuple[str, ...]] = ()
    """Variables that runtimes and TrainJobs are warned of, because the framework sets them; a final * is any text."""

    may_be_set: ClassVar[bool] = False
    """Whether a TrainJob, unlike a runtime, may set these variables."""

    launched: ClassVar[bool] = False
    """Whether a launcher starts the processes, so that their number is written and never a word such as gpu."""

    one_process_a_device: ClassVar[bool] = False
    """Whether numProcPerNode processes start on a node, each for a device of its own."""

    keys: ClassVar[str | None] = None
    """Kind of the job's one generated Secret, "ssh" or "curve"; None where the framework needs none.

    The framework yields that Secret among its objects with a value for each of its keys: from the context's ``keys``,
    else a placeholder. Whoever creates objects generates the values once, before the Secret is created.
    """

    def policy(self, plan: Plan) -> Policy | None:
        """Return what the runtime says of this framework, None where it names another one or none."""
        return plan.ml_policy.of(type(self))

    def counts(self, plan: Plan) -> None:
        """Set the number of pods where it is not simply numNodes for the trainer."""

    def check(self, plan: Plan) -> Iterable[Finding]:
        """Yield what the framework does not accept in the TrainJob or its runtime."""
        return ()

    def warn(self, plan: Plan) -> Iterable[Finding]:
        """Yield what is accepted and will surprise."""
        return ()

    def apply(self, plan: Plan) -> None:
        """Put the framework's environment into the pods."""

    def objects(self, plan: Plan) -> Iterable[Body]:
        """Yield further objects the framework needs (ConfigMaps, Secrets)."""
        return ()
