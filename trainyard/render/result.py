"""Input and output of rendering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trainyard.api import Body
from trainyard.checks.finding import Finding

__all__ = ["COSCHEDULING_SCHEDULER", "Rejected", "RenderContext", "Rendered", "StatusServer", "Verdict"]

COSCHEDULING_SCHEDULER = "scheduler-plugins-scheduler"
"""Name under which the scheduler-plugins chart runs the coscheduling plug-in as a second scheduler."""


@dataclass(frozen=True)
class StatusServer:
    """Where training code reports its progress.

    Parameters
    ----------
    service, namespace
        The Service in front of the server.
    port
        Its port.
    authority
        PEM certificates that the server's certificate is checked against; None renders a named placeholder.
    """

    service: str
    namespace: str
    port: int = 10443
    authority: str | None = None


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
    scheduler_features
        Actions and plug-ins of the Volcano scheduler that are on; None where they are not known.
    tiers
        Levels of the fabric, number by name; None where they are not known.
    volcano_version
        Version of Volcano; None for one that Trainyard was tested with.
    coscheduling_scheduler
        Name of the scheduler that runs the coscheduling plug-in.
    status_server
        Where training code reports its progress; None where nothing takes reports.
    """

    default_queue: str | None = None
    priority_classes: frozenset[str] | None = None
    active_replicated_jobs: tuple[str, ...] = ()
    keys: Mapping[str, str] | None = field(default=None, repr=False)
    scheduler_features: frozenset[str] | None = None
    tiers: Mapping[str, int] | None = None
    volcano_version: str | None = None
    coscheduling_scheduler: str = COSCHEDULING_SCHEDULER
    status_server: StatusServer | None = None


@dataclass(frozen=True)
class Rendered:
    """The objects of a TrainJob, in the order in which they are applied: ConfigMap, PodGroup, JobSet."""

    objects: tuple[Body, ...]
    warnings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Rejected:
    """Why a TrainJob cannot become objects."""

    errors: tuple[Finding, ...]
    warnings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """The answer of admission."""

    errors: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()

    @property
    def allowed(self) -> bool:
        """Return whether nothing speaks against the object."""
        return not self.errors
