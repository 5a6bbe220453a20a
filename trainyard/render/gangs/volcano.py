"""Volcano: a PodGroup, and pods that name it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from trainyard import quantity
from trainyard.api import Body
from trainyard.api.constants import (
    GROUP_NAME_ANNOTATION,
    POD_GROUP_API_VERSION,
    QUEUE_ANNOTATION,
    SYSTEM_PRIORITY_CLASSES,
    VOLCANO_SCHEDULER,
)
from trainyard.problem import Problem
from trainyard.render.bodies import section
from trainyard.render.gangs.base import GangScheduler
from trainyard.render.membership import gang_of
from trainyard.render.plan import Plan

__all__ = ["Volcano"]

_QUEUE_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUEUE_PATH: Final = f"spec.annotations[{QUEUE_ANNOTATION}]"
_QUEUE_FIX: Final = (
    f"set annotation {QUEUE_ANNOTATION} in spec.runtimePatches[].trainingRuntimeSpec.template.metadata to a leaf queue"
)
_LONGEST_QUEUE: Final = 253


class Volcano(GangScheduler):
    """The Volcano scheduler."""

    def check(self, plan: Plan) -> Iterable[Problem]:
        """Yield queue names that cannot be, and priority classes that do not exist."""
        queue = plan.annotations.get(QUEUE_ANNOTATION)
        if queue == "":
            yield Problem(_QUEUE_PATH, "Volcano queue name must not be empty", _QUEUE_FIX)
        elif queue and (len(queue) > _LONGEST_QUEUE or not _QUEUE_NAME.fullmatch(queue)):
            yield Problem(_QUEUE_PATH, f"{queue!r} is not a Volcano queue name", _QUEUE_FIX)
        known = plan.context.priority_classes
        if known is not None:
            for name in sorted(set(_priority_classes(plan)) - known - SYSTEM_PRIORITY_CLASSES):
                yield Problem(
                    "spec.templateSpec.priorityClassName",
                    f'PriorityClass "{name}" doesn\'t exist',
                    f"create it, or name an existing one ({', '.join(sorted(known)) or 'there is none'})",
                )

    def warn(self, plan: Plan) -> Iterable[Problem]:
        """Yield members of the gang that another scheduler is to place."""
        members = gang_of(plan.job_set_spec, plan.pod_sets).members
        for pod_set in plan.pod_sets:
            scheduler = pod_set.pod.get("schedulerName", VOLCANO_SCHEDULER)
            if pod_set.name in members and scheduler != VOLCANO_SCHEDULER:
                yield Problem(
                    "spec.runtimeRef",
                    f'the pods of replicatedJob "{pod_set.name}" belong to a Volcano gang but name "{scheduler}"',
                    "remove schedulerName from the runtime unless Volcano runs under that name",
                )

    def apply(self, plan: Plan) -> None:
        """Send every pod to Volcano's queue, and make the members name their group."""
        members = gang_of(plan.job_set_spec, plan.pod_sets).members
        for pod_set in plan.pod_sets:
            pod_set.pod.setdefault("schedulerName", VOLCANO_SCHEDULER)
            pod_set.template.get("metadata", {}).get("annotations", {}).pop(GROUP_NAME_ANNOTATION, None)
            if pod_set.name in members:
                section(pod_set.template, "metadata", "annotations")[GROUP_NAME_ANNOTATION] = plan.name
            if plan.queue:
                section(pod_set.template, "metadata", "annotations")[QUEUE_ANNOTATION] = plan.queue
        if plan.queue:
            plan.annotations[QUEUE_ANNOTATION] = plan.queue

    def objects(self, plan: Plan) -> Iterable[Body]:
        """Yield the PodGroup."""
        gang = gang_of(plan.job_set_spec, plan.pod_sets)
        spec: Body = {
            "minMember": gang.min_member,
            "minResources": {
                name: quantity.format(amount, name) for name, amount in sorted(gang.min_resources.items())
            },
        }
        if plan.queue:
            spec["queue"] = plan.queue
        classes = [pod_set.pod.get("priorityClassName") for pod_set in plan.pod_sets if pod_set.name in gang.members]
        named = [name for name in classes if name]
        if named:
            spec["priorityClassName"] = named[-1]
        policy = plan.pod_group_policy.volcano
        if policy and policy.network_topology:
            topology = policy.network_topology
            spec["networkTopology"] = {"mode": topology.mode, "highestTierAllowed": topology.highest_tier_allowed}
        yield {
            "apiVersion": POD_GROUP_API_VERSION,
            "kind": "PodGroup",
            "metadata": plan.metadata(plan.name),
            "spec": spec,
        }


def _priority_classes(plan: Plan) -> Iterator[str]:
    return (name for pod_set in plan.pod_sets if (name := pod_set.pod.get("priorityClassName")))
