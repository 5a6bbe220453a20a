"""Interface of gang schedulers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from trainyard.api import Body, KubernetesModel
from trainyard.api.extensions import PolicyField
from trainyard.checks.finding import Finding
from trainyard.render.gang_members import members_of
from trainyard.render.working_state import Plan, PodSet

__all__ = ["Child", "GangScheduler", "members", "name_scheduler"]

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
    """

    group: str
    version: str
    plural: str
    kind: str
    optional: bool = True

    @property
    def api_version(self) -> str:
        """ApiVersion of the objects."""
        return f"{self.group}/{self.version}"


class GangScheduler(PolicyField[Policy]):
    """A gang scheduler of podGroupPolicy; the default of each step is a no-op."""

    schedulers: ClassVar[tuple[str, ...]]
    """Default names of the scheduler; a stack may set others."""
    scheduler_names: ClassVar[str]
    """Description of these names in the rule that pods use the scheduler of their gang."""
    metadata_prefixes: ClassVar[tuple[str, ...]]
    """Prefixes of the labels and annotations that the scheduler reads."""
    child: ClassVar[Child | None] = None
    """Resource of the object that describes the gang; None: the scheduler creates it itself."""
    member_label: ClassVar[str | None] = None
    """Label of a pod that refers to that object; None: not a label."""
    member_annotation: ClassVar[str | None] = None
    """Annotation of a pod that refers to that object; None: not an annotation."""

    def policy(self, plan: Plan) -> Policy | None:
        """Return the runtime's policy for this scheduler; None: unset."""
        return plan.pod_group_policy.of(type(self))

    def check(self, plan: Plan) -> Iterable[Finding]:
        """Yield errors of the TrainJob and its runtime."""
        return ()

    def warn(self, plan: Plan) -> Iterable[Finding]:
        """Yield warnings about valid settings with unexpected effects."""
        return ()

    def apply(self, plan: Plan) -> None:
        """Mark the pods as members; only called if there are no errors."""

    def objects(self, plan: Plan) -> Iterable[Body]:
        """Yield the object that describes the gang."""
        return ()


def members(plan: Plan) -> Iterator[PodSet]:
    """Yield the pod sets that belong to the gang, in the order of the runtime."""
    names = members_of(plan.job_set_spec, plan.pod_sets)
    return (pod_set for pod_set in plan.pod_sets if pod_set.name in names)


def name_scheduler(plan: Plan, scheduler: str) -> None:
    """Set the scheduler of all pods, unless the runtime sets one."""
    for pod_set in plan.pod_sets:
        pod_set.pod.setdefault("schedulerName", scheduler)
