"""Interface of gang schedulers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainyard.api import Body
from trainyard.problem import Problem
from trainyard.render.gang_members import members_of
from trainyard.render.plan import Plan, PodSet

__all__ = ["GangScheduler", "members", "name_scheduler"]


class GangScheduler:
    """One gang scheduler of podGroupPolicy; each step does nothing unless a scheduler says otherwise."""

    def check(self, plan: Plan) -> Iterable[Problem]:
        """Yield what the scheduler does not accept in the TrainJob or its runtime."""
        return ()

    def warn(self, plan: Plan) -> Iterable[Problem]:
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
