"""Gangs in queues, counted as the scheduler counts them: from live or recorded PodGroups and pods."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.api.constants import GROUP_NAME_ANNOTATION, SYSTEM_PRIORITY_CLASSES
from trainyard.scheduling.queues.amounts import Amounts, total, units
from trainyard.scheduling.queues.pod_requests import counted_by_volcano
from trainyard.scheduling.queues.queue import DEFAULT

_DONE = frozenset({"Completed", "Succeeded", "Failed"})
MAX_PARTS = 10_000
"""Pods of a gang whose pods are unknown that are counted one by one."""
PREEMPTABLE = "volcano.sh/preemptable"
"""Annotation or label of pods: whether reclaim may evict it."""
_TRUE = frozenset({"1", "t", "T", "true", "True", "TRUE"})
_SYSTEM = "kube-system"


@dataclass(frozen=True)
class GangPod:
    """One pod of a gang.

    Parameters
    ----------
    request
        Its requests, in units by resource.
    placed
        Whether it has a node.
    evictable
        Whether reclaim may evict it: neither critical nor exempt by ``volcano.sh/preemptable``.
    """

    request: Amounts
    placed: bool = False
    evictable: bool = True


@dataclass(frozen=True)
class QueuedJob:
    """One gang, in the scheduler's terms a job.

    Parameters
    ----------
    name
        Namespace and name.
    queue
        Its queue.
    request
        What its placed pods use, or, if it waits, what its pods request, in units by resource.
    running
        Whether at least ``min_member`` pods are placed.
    priority
        A higher priority is served first.
    created
        Time of creation; the older is served first.
    pods
        Its pods, in order of creation; empty: one pod with the whole request.
    min_member
        Number of pods that must run together; None: all.
    preempts
        Whether it may reclaim: the preemptionPolicy of its pods is not Never.
    topology
        Whether it requires one domain of the network topology.
    counted
        Whether the amounts are those of its pods; otherwise they come from ``minResources``.
    """

    name: str
    queue: str
    request: Amounts
    running: bool
    priority: int = 0
    created: str = ""
    pods: tuple[GangPod, ...] = ()
    min_member: int | None = None
    preempts: bool = True
    topology: bool = False
    counted: bool = True

    @property
    def members(self) -> tuple[GangPod, ...]:
        """Its pods; one pod with the whole request if they are unknown."""
        return self.pods or (GangPod(self.request, self.running),)

    @property
    def needed(self) -> int:
        """Number of pods that must run together."""
        return len(self.members) if self.min_member is None else self.min_member


def read_jobs(bodies: Iterable[Mapping[str, Any]], *, pods: bool | None = None) -> list[QueuedJob]:
    """Return the gangs among Kubernetes objects, without finished ones.

    Parameters
    ----------
    bodies
        PodGroups, their Pods, and PriorityClasses; other kinds are ignored.
    pods
        Whether the pods are complete; None: if there is at least one. Otherwise a gang has ``minMember`` pods with an
        equal part of ``minResources`` each.
    """
    groups, classes = list[Mapping[str, Any]](), dict[str, Mapping[str, Any]]()
    members: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    found = False
    for body in bodies:
        kind = body.get("kind")
        if kind == "PriorityClass":
            classes[body["metadata"]["name"]] = body
        elif kind == "PodGroup":
            groups.append(body)
        elif kind == "Pod" and (name := _annotation(body, GROUP_NAME_ANNOTATION)):
            found = True
            if _lives(body):
                members[f"{_namespace(body)}/{name}"].append(body)
    known = found if pods is None else pods
    jobs = [
        _job(group, classes, members[f"{_namespace(group)}/{group['metadata']['name']}"], known)
        for group in groups
        if _phase(group) not in _DONE
    ]
    return sorted(jobs, key=lambda job: (job.created, job.name))


def _job(
    group: Mapping[str, Any],
    classes: Mapping[str, Mapping[str, Any]],
    bodies: list[Mapping[str, Any]],
    known: bool,
) -> QueuedJob:
    metadata, spec = group["metadata"], group.get("spec") or {}
    least = max(1, int(spec.get("minMember") or 1))
    default = next((each for each in classes.values() if each.get("globalDefault")), {})
    priority_class = classes.get(spec.get("priorityClassName") or "", default)
    if known:
        ordered = sorted(bodies, key=lambda body: (_created(body), body["metadata"]["name"]))
        # A gated pod is not scheduled.
        pods = tuple(
            _pod(body) for body in ordered if (body.get("spec") or {}).get("nodeName") or not _gated(body)
        ) or _parts(group, least, 0)
        running = sum(pod.placed for pod in pods) >= least
        never = [(body.get("spec") or {}).get("preemptionPolicy") == "Never" for body in ordered]
        preempts = not all(never) if never else priority_class.get("preemptionPolicy") != "Never"
    else:
        running = _phase(group) == "Running"
        placed = int((group.get("status") or {}).get("running") or 0)
        pods = _parts(group, least, max(placed, least) if running else placed)
        preempts = priority_class.get("preemptionPolicy") != "Never"
    return QueuedJob(
        name=f"{_namespace(group)}/{metadata['name']}",
        queue=spec.get("queue") or DEFAULT,
        request=total(pod.request for pod in pods if pod.placed or not running),
        running=running,
        priority=int(priority_class.get("value") or 0),
        created=_created(group),
        pods=pods,
        min_member=least if known and bodies else min(least, MAX_PARTS),
        preempts=preempts,
        topology=requires_domain(spec),
        counted=known and bool(bodies),
    )


def requires_domain(spec: Mapping[str, Any]) -> bool:
    """Return whether a gang, or a subgroup of it, must be inside one domain of the fabric.

    Parameters
    ----------
    spec
        Spec of a PodGroup.
    """
    limits = (spec, *(spec.get("subGroupPolicy") or ()))
    return any((limit.get("networkTopology") or {}).get("mode") == "hard" for limit in limits)


def _parts(group: Mapping[str, Any], least: int, placed: int) -> tuple[GangPod, ...]:
    """Return the pods of a gang whose pods are unknown: equal parts of its minimum.

    Of more than `MAX_PARTS`, the last one has the parts of the rest.
    """
    spec = group.get("spec") or {}
    request = units(spec.get("minResources") or {})
    part = {name: -(-amount // least) for name, amount in request.items()}
    evictable = spec.get("priorityClassName") not in SYSTEM_PRIORITY_CLASSES and _namespace(group) != _SYSTEM
    count = max(least, placed)
    single = min(count, MAX_PARTS - 1) if count > MAX_PARTS else count
    used = min(placed, single)
    pods = (GangPod(part, True, evictable),) * used + (GangPod(part, False, evictable),) * (single - used)
    if count == single:
        return pods
    rest = {name: amount * (count - single) for name, amount in part.items()}
    return (*pods, GangPod(rest, placed >= count, evictable))


def _pod(body: Mapping[str, Any]) -> GangPod:
    spec = body.get("spec") or {}
    return GangPod(counted_by_volcano(spec), bool(spec.get("nodeName")), _evictable(body))


def _evictable(body: Mapping[str, Any]) -> bool:
    if (body.get("spec") or {}).get("priorityClassName") in SYSTEM_PRIORITY_CLASSES or _namespace(body) == _SYSTEM:
        return False
    metadata = body["metadata"]
    for values in (metadata.get("annotations") or {}, metadata.get("labels") or {}):
        if PREEMPTABLE in values:
            return values[PREEMPTABLE] in _TRUE
    return True


def _lives(body: Mapping[str, Any]) -> bool:
    return not body["metadata"].get("deletionTimestamp") and _phase(body) not in _DONE


def _gated(body: Mapping[str, Any]) -> bool:
    return bool((body.get("spec") or {}).get("schedulingGates"))


def _annotation(body: Mapping[str, Any], name: str) -> str:
    return str((body["metadata"].get("annotations") or {}).get(name) or "")


def _namespace(body: Mapping[str, Any]) -> str:
    return str(body["metadata"].get("namespace") or "default")


def _created(body: Mapping[str, Any]) -> str:
    return str(body["metadata"].get("creationTimestamp") or "")


def _phase(body: Mapping[str, Any]) -> str:
    return str((body.get("status") or {}).get("phase") or "")
