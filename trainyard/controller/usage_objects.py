"""Pods, PodGroups and Queues as the record of usage sees them: what they hold, and since when.

Only what a tenant cannot write decides how much counts, and for whom: the namespace, the requests and the node of a
pod, its status, and the times that the API server, the scheduler and the kubelet set. Labels and owner references only
choose which job of the same namespace a pod belongs to.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from trainyard.api.constants import GROUP_NAME_ANNOTATION, JOB_SET_NAME_LABEL, QUEUE_ANNOTATION
from trainyard.insight.usage.bodies import is_evicted
from trainyard.kube.resource import Object, controller_of
from trainyard.scheduling.queues.pod_requests import counted_by_volcano

BY_GROUP: Final = "group"
_FACTS: Final = "usage"
_DONE: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class PodFacts:
    """What the record needs of a pod.

    Parameters
    ----------
    created, bound, ended
        Instants in seconds; None if it has not happened, 0 if its time is unknown.
    amounts
        Requested units of extended resources.
    group, queue, job_set
        PodGroup, queue and JobSet that its metadata names.
    owner
        Kind and name of its controller, or of itself.
    evicted
        Whether the scheduler evicts it.
    priority_class
        Its PriorityClass.
    failure
        Why it failed: the reason of the pod, or of its first container that failed; empty if it has not.
    """

    created: int
    bound: int | None
    ended: int | None
    amounts: Mapping[str, int]
    group: str
    queue: str
    job_set: str
    owner: tuple[str, str]
    evicted: bool
    priority_class: str = ""
    failure: str = ""


def reduced_pod(body: Object) -> Object:
    """Return a pod as it is cached: its metadata and `PodFacts`, which are missing if it requests no device."""
    metadata = body["metadata"]
    kept: Object = {"metadata": {key: metadata[key] for key in ("namespace", "name", "uid", "resourceVersion")}}
    spec, status = body.get("spec") or {}, body.get("status") or {}
    amounts = {name: amount for name, amount in counted_by_volcano(spec).items() if "/" in name and amount}
    if not amounts:
        return kept
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled", {})
    kept[_FACTS] = PodFacts(
        created=seconds(metadata.get("creationTimestamp")),
        bound=(seconds(scheduled.get("lastTransitionTime")) if scheduled.get("status") == "True" else 0)
        if spec.get("nodeName")
        else None,
        ended=_ended(status) if status.get("phase") in _DONE else None,
        amounts=amounts,
        group=str(annotations.get(GROUP_NAME_ANNOTATION) or ""),
        queue=str(annotations.get(QUEUE_ANNOTATION) or ""),
        job_set=str(labels.get(JOB_SET_NAME_LABEL) or ""),
        owner=owner_of(body) or ("Pod", metadata["name"]),
        evicted=is_evicted(body),
        priority_class=str(spec.get("priorityClassName") or ""),
        failure=_failure(status),
    )
    return kept


def reduced_group(body: Object) -> Object:
    """Return a PodGroup as it is cached."""
    metadata, spec = body["metadata"], body.get("spec") or {}
    kept = {key: metadata[key] for key in ("namespace", "name", "uid", "resourceVersion", "creationTimestamp")}
    return {
        "metadata": {**kept, "ownerReferences": metadata.get("ownerReferences") or []},
        "spec": {key: spec[key] for key in ("queue", "minResources", "priorityClassName") if key in spec},
        "status": {"phase": (body.get("status") or {}).get("phase")},
    }


def reduced_queue(body: Object) -> Object:
    """Return a Queue as it is cached."""
    metadata, spec = body["metadata"], body.get("spec") or {}
    kept = {key: metadata[key] for key in ("name", "uid", "resourceVersion")}
    fields = ("parent", "deserved", "guarantee", "capability")
    return {"metadata": kept, "spec": {key: spec[key] for key in fields if key in spec}}


def facts_of(body: Object | None) -> PodFacts | None:
    """Return the facts of a cached pod; None if it requests no device."""
    return None if body is None else body.get(_FACTS)


def group_name(body: Object) -> str:
    """Return namespace and PodGroup of a cached pod; empty if it has none."""
    facts = facts_of(body)
    return f"{body['metadata']['namespace']}/{facts.group}" if facts is not None and facts.group else ""


def owner_of(body: Object) -> tuple[str, str] | None:
    """Return kind and name of an object's controller."""
    owner = controller_of(body)
    return (str(owner.get("kind")), str(owner.get("name"))) if owner is not None else None


def seconds(text: object) -> int:
    """Return seconds since 1970 of a time in the API's notation; 0 if it is unset or invalid."""
    try:
        return int(datetime.datetime.fromisoformat(str(text)).timestamp())
    except (ValueError, OverflowError):
        return 0


def _failure(status: Mapping[str, Any]) -> str:
    if status.get("phase") != "Failed":
        return ""
    codes = [each for each in _terminated(status) if each.get("exitCode")]
    failed = min(codes, key=lambda each: str(each.get("finishedAt")), default={})
    reason = str(status.get("reason") or failed.get("reason") or "Failed")
    return f"{reason} (exit code {failed['exitCode']})" if failed else reason


def _ended(status: Mapping[str, Any]) -> int:
    return max((seconds(each.get("finishedAt")) for each in _terminated(status)), default=0)


def _terminated(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return how the containers of a pod ended; one that failed in an init container has started no other."""
    statuses = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    return [(each.get("state") or {}).get("terminated") or {} for each in statuses]
