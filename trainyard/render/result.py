"""What goes into rendering and what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trainyard.api import Body
from trainyard.problem import Problem

__all__ = ["Rejected", "RenderContext", "Rendered", "Verdict"]


@dataclass(frozen=True)
class RenderContext:
    """Facts about the cluster that a TrainJob and its runtime do not carry.

    Parameters
    ----------
    default_queue
        The tenant's queue for jobs that name none.
    priority_classes
        Names of the PriorityClasses; None where they are not known and therefore not checked.
    active_replicated_jobs
        ReplicatedJobs of the job's JobSet that still have running pods.
    keys
        Values of the job's generated Secret (SSH or Flux keys) by their name in it; None renders named placeholders.
    """

    default_queue: str | None = None
    priority_classes: frozenset[str] | None = None
    active_replicated_jobs: tuple[str, ...] = ()
    keys: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Rendered:
    """The objects of a TrainJob, in the order in which they are applied: ConfigMap, PodGroup, JobSet."""

    objects: tuple[Body, ...]
    warnings: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class Rejected:
    """Why a TrainJob cannot become objects."""

    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """The answer of admission."""

    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()

    @property
    def allowed(self) -> bool:
        """Return whether nothing speaks against the object."""
        return not self.errors
