"""Facts in Kubernetes objects that usage is counted by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from trainyard.insight.usage.levels import Share
from trainyard.scheduling.queues.amounts import units
from trainyard.scheduling.queues.queue import ROOT

_EVICTED: Final = "Evict"
"""Reason of condition Ready with which Volcano's scheduler evicts (``defaultEvictor`` in ``pkg/scheduler/cache``)."""
_DISRUPTED: Final = "PreemptionByScheduler"
"""Reason of condition DisruptionTarget with which other schedulers preempt."""


def is_evicted(pod: Mapping[str, Any]) -> bool:
    """Return whether the scheduler takes back what a pod has, by the status that it wrote."""
    conditions = {each.get("type"): each.get("reason") for each in (pod.get("status") or {}).get("conditions") or ()}
    return conditions.get("Ready") == _EVICTED or conditions.get("DisruptionTarget") == _DISRUPTED


def shares(queues: Iterable[Mapping[str, Any]], counts: Callable[[str], bool] = lambda _: True) -> dict[str, Share]:
    """Return the share of each Queue, of resources that count.

    A queue with queues below it has none: jobs are in leaves, and what it deserves is divided among them. What a queue
    deserves beyond its own capability, the scheduler never gives it.
    """
    found = {queue["metadata"]["name"]: queue.get("spec") or {} for queue in queues}
    parents = {ROOT, *(spec.get("parent") or ROOT for spec in found.values())}
    return {name: Share({}) if name in parents else _share(spec, counts) for name, spec in found.items()}


def _share(spec: Mapping[str, Any], counts: Callable[[str], bool]) -> Share:
    deserved, guarantee = units(spec.get("deserved") or {}), units((spec.get("guarantee") or {}).get("resource") or {})
    limit = units(spec.get("capability") or {})
    deserved = {name: min(amount, limit.get(name, amount)) for name, amount in deserved.items()}
    named = [name for name in {*deserved, *guarantee} if counts(name)]
    whole = {name: max(deserved.get(name, 0), guarantee.get(name, 0)) for name in named}
    return Share(whole, {name: guarantee[name] for name in named if name in guarantee})


def minimum(group: Mapping[str, Any]) -> dict[str, int]:
    """Return the minimum of a PodGroup, in units of extended resources."""
    found = units((group.get("spec") or {}).get("minResources") or {})
    return {name: amount for name, amount in found.items() if "/" in name and amount}
