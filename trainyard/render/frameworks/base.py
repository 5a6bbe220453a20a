"""Interface of frameworks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import ClassVar, TypeVar

from trainyard.api import Body, KubernetesModel
from trainyard.api.extensions import PolicyField
from trainyard.checks.finding import Finding
from trainyard.render.working_state import Plan

__all__ = ["Framework"]

Policy = TypeVar("Policy", bound=KubernetesModel)


class Framework(PolicyField[Policy]):
    """A framework of mlPolicy; the default of each step is a no-op.

    The steps are called in this order: counts, check, warn, and, if there are no errors, apply and objects.
    """

    reserved: ClassVar[frozenset[str]] = frozenset()
    """Variables that the framework sets and that are rejected in a TrainJob."""

    variables: ClassVar[tuple[str, ...]] = ()
    """Variables of the framework for which runtimes and TrainJobs get a warning; a trailing * matches any suffix."""

    may_be_set: ClassVar[bool] = False
    """Whether a TrainJob, as opposed to a runtime, may set these variables without a warning."""

    launched: ClassVar[bool] = False
    """Whether a launcher starts the processes; numProcPerNode is then a number, never a word such as gpu."""

    one_process_a_device: ClassVar[bool] = False
    """Whether each of the numProcPerNode processes of a node uses one device."""

    keys: ClassVar[str | None] = None
    """Kind of the TrainJob's generated Secret, a module of ``trainyard.controller.keys``; None: no Secret.

    The framework yields the Secret among its objects. Its values come from ``keys`` of the context, otherwise they are
    placeholders. The creator of the objects generates the values once, before it creates the Secret.
    """

    children: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    """Suffixes of the names of its ConfigMaps and Secrets, by kind; the TrainJob's name precedes the suffix.

    Rule OBJ-001 reserves these names: only the platform writes such objects.
    """

    def policy(self, plan: Plan) -> Policy | None:
        """Return the runtime's policy for this framework; None: unset."""
        return plan.ml_policy.of(type(self))

    def counts(self, plan: Plan) -> None:
        """Set the number of pods, unless it is numNodes for the trainer."""

    def check(self, plan: Plan) -> Iterable[Finding]:
        """Yield errors of the TrainJob and its runtime."""
        return ()

    def warn(self, plan: Plan) -> Iterable[Finding]:
        """Yield warnings about valid settings with unexpected effects."""
        return ()

    def apply(self, plan: Plan) -> None:
        """Set the environment of the framework in the pods."""

    def objects(self, plan: Plan) -> Iterable[Body]:
        """Yield further objects of the framework (ConfigMaps, Secrets)."""
        return ()
