"""Jobs of a scenario: gangs of identical pods that arrive, run for a duration and finish."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pydantic import Field

from trainyard.api.constants import SYSTEM_PRIORITY_CLASSES
from trainyard.checks.finding import Finding
from trainyard.local.simulate.clock import Duration
from trainyard.settings.settings_model import DnsLabel, DnsSubdomain, Resources, SettingsModel
from trainyard.settings.stack import StackSettings

DEFAULT_NAMESPACE = "default"


class JobKind(StrEnum):
    """Objects of a job."""

    GANG = "gang"
    JOB = "job"
    VCJOB = "vcjob"


class TopologyMode(StrEnum):
    """Mode of a network topology request."""

    HARD = "hard"
    SOFT = "soft"


class JobTopology(SettingsModel):
    """Network topology request of a job."""

    mode: TopologyMode = Field(default=TopologyMode.HARD, description="hard: required; soft: preferred")
    tier: DnsLabel | None = Field(default=None, description="Highest tier that the pods may span; required if hard")


class GroupSettings(SettingsModel):
    """Groups of a job's pods, each in one domain."""

    size: int = Field(ge=1, le=10_000, description="Number of pods in a group; divides pods and minMember")
    tier: DnsLabel = Field(description="Tier in which all pods of a group share a domain")


class JobSettings(SettingsModel):
    """A job, or several identical ones."""

    kind: JobKind = Field(
        default=JobKind.GANG,
        description="gang: a PodGroup and its pods, as of a TrainJob; job: a Job of Kubernetes; vcjob: a Volcano Job",
    )
    tenant: DnsLabel | None = Field(default=None, description="Tenant that submits it")
    queue: DnsLabel | None = Field(default=None, description="Queue; the tenant's default queue if unset")
    at: Duration = Field(default=0, description="Instant of its arrival")
    duration: Duration | None = Field(
        default=None, alias="for", description="Run time; until the end of the scenario if unset"
    )
    pods: int = Field(default=1, ge=1, le=10_000, description="Number of pods")
    min_member: int | None = Field(default=None, ge=1, description="Minimum number of pods to run; all if unset")
    per_pod: Resources | None = Field(
        default=None, description="Requests of a pod; the accelerators of a whole node if unset"
    )
    priority_class: DnsSubdomain | None = Field(default=None, description="PriorityClass of the pods")
    topology: JobTopology | None = Field(default=None, description="Network topology request")
    groups: GroupSettings | None = Field(default=None, description="Groups of pods, each in one domain of a tier")
    copies: int = Field(
        default=1, ge=1, le=10_000, description="Number of identical jobs, named with suffixes -0, -1, …"
    )
    every: Duration = Field(default=0, description="Time between the arrivals of two copies")

    def findings(self, path: str, settings: StackSettings, tiers: Sequence[str]) -> Iterator[Finding]:
        """Yield unresolved references and contradictions."""
        if self.tenant is not None and self.tenant not in settings.active_tenants:
            known = ", ".join(settings.active_tenants) or "none"
            yield Finding(f"{path}.tenant", f"tenant {self.tenant!r} does not exist", f"declared tenants: {known}")
        elif self.tenant is not None and self.queue not in (None, *settings.active_tenants[self.tenant].queues):
            allowed = ", ".join(settings.active_tenants[self.tenant].queues)
            message = f"tenant {self.tenant!r} may not use queue {self.queue!r}"
            yield Finding(f"{path}.queue", message, f"use one of {allowed}")
        if self.queue is not None and self.queue not in settings.leaf_queues:
            message = f"{self.queue!r} is not a leaf queue"
            yield Finding(f"{path}.queue", message, f"use one of {', '.join(settings.leaf_queues)}")
        if self.min_member is not None and self.min_member > self.pods:
            message = f"minMember {self.min_member} exceeds the {self.pods} pods: the job would never run"
            yield Finding(f"{path}.minMember", message, "lower minMember")
        classes = (*settings.priority_classes, *sorted(SYSTEM_PRIORITY_CLASSES))
        if self.priority_class is not None and self.priority_class not in classes:
            known = ", ".join(classes)
            message = f"PriorityClass {self.priority_class!r} does not exist"
            yield Finding(f"{path}.priorityClass", message, f"declared classes: {known}")
        if self.per_pod is None and not settings.accelerator_resources:
            yield Finding(f"{path}.perPod", "the nodes have no accelerators", "set the requests of a pod")
        yield from self._topology_findings(path, tiers)
        yield from self._kind_findings(path)

    def _kind_findings(self, path: str) -> Iterator[Finding]:
        """Yield settings that a job of this kind does not have."""
        if self.kind is JobKind.GANG:
            return
        for name in ("topology", "groups"):
            if getattr(self, name) is not None:
                yield Finding(f"{path}.{name}", f"not supported for kind {self.kind}", "remove it, or use kind gang")
        if self.kind is JobKind.JOB and self.min_member not in (None, 1):
            message = f"minMember of a Job is 1, but is {self.min_member}"
            yield Finding(f"{path}.minMember", message, "remove it, or use kind vcjob")

    def _topology_findings(self, path: str, tiers: Sequence[str]) -> Iterator[Finding]:
        known = f"use one of {', '.join(tiers)}"
        if self.groups is not None:
            for pods in sorted({self.pods, self.min_member or self.pods}):
                if pods % self.groups.size:
                    message = f"{self.groups.size} does not divide {pods} pods"
                    yield Finding(f"{path}.groups.size", message, "use a divisor of pods and minMember")
            if self.groups.tier not in tiers:
                yield Finding(f"{path}.groups.tier", f"tier {self.groups.tier!r} does not exist", known)
        if self.topology is None:
            return
        if self.topology.tier is None and self.topology.mode is TopologyMode.HARD:
            yield Finding(f"{path}.topology.tier", "hard topology without a tier has no effect", known)
        if self.topology.tier is not None and self.topology.tier not in tiers:
            yield Finding(f"{path}.topology.tier", f"tier {self.topology.tier!r} does not exist", known)

    def expanded(self, name: str, settings: StackSettings) -> dict[str, ScenarioGang]:
        """Return the individual jobs by name."""
        tiers = {tier: number for number, tier in enumerate(settings.fabric.tier_names, start=1)}
        capacity = settings.fabric.node_shape.capacity
        per_pod = self.per_pod or {each: capacity[each] for each in settings.accelerator_resources if each in capacity}
        tenant = settings.active_tenants.get(self.tenant or "")
        queue = self.queue or (tenant.default_queue or tenant.queues[0] if tenant else "default")
        names = [name] if self.copies == 1 else [f"{name}-{number}" for number in range(self.copies)]
        return {
            each: ScenarioGang(
                name=each,
                namespace=self.tenant or DEFAULT_NAMESPACE,
                queue=queue,
                arrival=self.at + number * self.every,
                duration=self.duration,
                pods=self.pods,
                min_member=self.min_member or (1 if self.kind is JobKind.JOB else self.pods),
                kind=self.kind,
                per_pod=dict(per_pod),
                priority_class=self.priority_class,
                mode=self.topology.mode if self.topology else None,
                tier=tiers.get(self.topology.tier or "") if self.topology else None,
                group_size=self.groups.size if self.groups else None,
                group_tier=tiers.get(self.groups.tier) if self.groups else None,
            )
            for number, each in enumerate(names)
        }


@dataclass(frozen=True, kw_only=True)
class ScenarioGang:
    """A gang.

    Parameters
    ----------
    name, namespace, queue
        Name, namespace and queue of its PodGroup; the namespace is the tenant.
    arrival, duration
        Seconds of scenario time; None: until the end.
    pods, min_member
        Number of pods, and minimum number to run.
    per_pod
        Request of one pod by resource, in Kubernetes quantities.
    priority_class
        Name of its PriorityClass.
    mode, tier
        Network topology request; the tier as a number.
    group_size, group_tier
        Pods of a group, and the tier of its domain.
    kind
        Its objects.
    """

    name: str
    namespace: str
    queue: str
    arrival: int
    duration: int | None
    pods: int
    min_member: int
    per_pod: Mapping[str, str]
    priority_class: str | None = None
    mode: TopologyMode | None = None
    tier: int | None = None
    group_size: int | None = None
    group_tier: int | None = None
    kind: JobKind = JobKind.GANG
