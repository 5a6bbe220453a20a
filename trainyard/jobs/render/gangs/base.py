"""Interface of gang schedulers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from trainyard.api import Body, KubernetesModel
from trainyard.api.extensions import PolicyField
from trainyard.checks.finding import Finding
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.job_view import JobView
from trainyard.jobs.render.resolved_job import ResolvedJob

Policy = TypeVar("Policy", bound=KubernetesModel)


@dataclass(frozen=True)
class Child:
    """Resource of the object that describes a gang; the controller creates, watches, changes and deletes it.

    Parameters
    ----------
    group, version, plural, kind
        The namespaced resource.
    optional
        Whether clusters may not serve it; the controller then checks for it less often.
    requested
        Fields of its specification that a TrainJob may request; removed once it no longer does.
    """

    group: str
    version: str
    plural: str
    kind: str
    optional: bool = True
    requested: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """ApiVersion of the objects."""
        return f"{self.group}/{self.version}"


class GangScheduler(PolicyField[Policy]):
    """A gang scheduler of podGroupPolicy; the default of each step is a no-op."""

    schedulers: ClassVar[tuple[str, ...]]
    """Default names of the scheduler; a stack may set others."""
    stack_schedulers: ClassVar[Mapping[str, str] | None] = None
    """Further names in the settings of a stack, as ``adds`` of a rule's parameter, or None if there are none."""
    scheduler_names: ClassVar[str]
    """Description of these names in the rule that pods use the scheduler of their gang."""
    metadata_prefixes: ClassVar[tuple[str, ...]]
    """Prefixes of the labels and annotations that the scheduler reads."""
    child: ClassVar[Child | None] = None
    """Resource of the object that describes the gang, or None if the scheduler creates it itself."""
    member_label: ClassVar[str | None] = None
    """Label of a pod that refers to that object, or None if it is not a label."""
    member_annotation: ClassVar[str | None] = None
    """Annotation of a pod that refers to that object, or None if it is not an annotation."""
    requests: ClassVar[tuple[str, ...]] = ()
    """Annotations of its JobSet template by which a TrainJob requests something of the scheduler."""

    def policy(self, job: JobView) -> Policy | None:
        """Return the runtime's policy for this scheduler, or None if unset."""
        return job.pod_group_policy.of(type(self))

    def validate(self, job: ResolvedJob) -> Iterable[Finding]:
        """Yield errors of the TrainJob and its runtime, and warnings about settings with unexpected effects."""
        return ()

    def build(self, builder: JobSetBuilder) -> Iterable[Body]:
        """Mark the pods as members, and return the object that describes the gang; only called without errors."""
        return ()


def name_scheduler(builder: JobSetBuilder, scheduler: str) -> None:
    """Set the scheduler of all pods, unless the runtime sets one."""
    for pod_set in builder.pod_sets:
        pod_set.pod["schedulerName"] = pod_set.pod.get("schedulerName") or scheduler
