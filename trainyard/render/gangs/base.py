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
        The resource; its objects are namespaced.
    optional
        Whether many clusters do not serve it: then the controller looks for it less often.
    """

    group: str
    version: str
    plural: str
    kind: str
    optional: bool = True

    @property
    def api_version(self) -> str:
        """Return the apiVersion of its objects."""
        return f"{self.group}/{self.version}"


class GangScheduler(PolicyField[Policy]):
    """One gang scheduler of podGroupPolicy; each step does nothing unless a scheduler says otherwise."""

    schedulers: ClassVar[tuple[str, ...]]
    """Names under which the scheduler runs, where a stack names no others."""
    scheduler_names: ClassVar[str]
    """Description of these names, for the rule that pods name the scheduler of their gang."""
    metadata_prefixes: ClassVar[tuple[str, ...]]
    """What names of labels and annotations that the scheduler reads begin with."""
    child: ClassVar[Child | None] = None
    """Resource of the object that describes the gang; None where the scheduler makes its own."""
    member_label: ClassVar[str | None] = None
    """Label by which a pod names that object, where it does so by a label."""
    member_annotation: ClassVar[str | None] = None
    """Annotation by which a pod names that object, where it does so by an annotation."""

    def policy(self, plan: Plan) -> Policy | None:
        """Return what the runtime says of this scheduler, None where it names another one or none."""
        return plan.pod_group_policy.of(type(self))

    def check(self, plan: Plan) -> Iterable[Finding]:
        """Yield what the scheduler does not accept in the TrainJob or its runtime."""
        return ()

    def warn(self, plan: Plan) -> Iterable[Finding]:
        """Yield what is accepted and will surprise."""
        return ()

    def apply(self, plan: Plan) -> None:
        """Mark the pods as members; only called when nothing was found."""

    def objects(self, plan: Plan) -> Iterable[Body]:
        """Yield the object that describes the gang."""
        return ()


def members(plan: Plan) -> Iterator[PodSet]:
    """Yield the pod sets that belong to the gang, in the order of the runtime."""
    names = members_of(plan.job_set_spec, plan.pod_sets)
    return (pod_set for pod_set in plan.pod_sets if pod_set.name in names)


def name_scheduler(plan: Plan, scheduler: str) -> None:
    """Send every pod to the scheduler, unless the runtime names one."""
    for pod_set in plan.pod_sets:
        pod_set.pod.setdefault("schedulerName", scheduler)
