"""Input and output of rendering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trainyard.api import Body, Runtime
from trainyard.checks.finding import Finding

COSCHEDULING_SCHEDULER = "scheduler-plugins-scheduler"
"""Scheduler name in the scheduler-plugins chart, which can run the coscheduling plug-in as a second scheduler."""


@dataclass(frozen=True)
class StatusServerAddress:
    """Server to which training code reports its progress.

    Parameters
    ----------
    service, namespace
        The Service in front of the server.
    port
        Its port.
    authority
        CA certificates of the server, PEM; None: a placeholder is rendered.
    """

    service: str
    namespace: str
    port: int = 10443
    authority: str | None = None


@dataclass(frozen=True)
class RenderContext:
    """Facts about the cluster that are not part of a TrainJob or its runtime.

    Parameters
    ----------
    default_queue
        Queue of the tenant, for TrainJobs that set none.
    priority_classes
        Names of the PriorityClasses; None: unknown and therefore not validated.
    active_replicated_jobs
        ReplicatedJobs of the TrainJob's JobSet that still have running pods.
    keys
        Data of the TrainJob's generated Secret (SSH or Flux keys); None: placeholders are rendered.
    scheduler_features
        Enabled actions and plug-ins of the Volcano scheduler; None: unknown.
    tiers
        Tiers of the fabric, number by name; None: unknown.
    volcano_version
        Version of Volcano; None: a version that Trainyard is tested with.
    coscheduling_scheduler
        Name of a second scheduler that runs the coscheduling plug-in; None: the default scheduler runs it.
    job_set_gates
        Feature gates of JobSet that are declared as enabled.
    status_server
        Server for progress reports; None: not installed.
    from_snapshot
        Whether the TrainJob is rendered from the snapshot of its runtime.
    stored_runtime
        The runtime as it is stored now, if ``from_snapshot``; None: it is missing or does not match its schema.
    """

    default_queue: str | None = None
    priority_classes: frozenset[str] | None = None
    active_replicated_jobs: tuple[str, ...] = ()
    keys: Mapping[str, str] | None = field(default=None, repr=False)
    scheduler_features: frozenset[str] | None = None
    tiers: Mapping[str, int] | None = None
    volcano_version: str | None = None
    coscheduling_scheduler: str | None = None
    job_set_gates: frozenset[str] = frozenset()
    status_server: StatusServerAddress | None = None
    from_snapshot: bool = False
    stored_runtime: Runtime | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Rendered:
    """Objects of a TrainJob, in the order in which they are applied: ConfigMap, PodGroup, JobSet."""

    objects: tuple[Body, ...]
    warnings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Rejected:
    """Findings of a TrainJob that cannot be rendered."""

    errors: tuple[Finding, ...]
    warnings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class AdmissionDecision:
    """Decision of admission, with its findings."""

    errors: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether the object is admitted: there are no errors."""
        return not self.errors
