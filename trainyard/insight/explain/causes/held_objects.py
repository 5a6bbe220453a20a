"""Causes in objects below a job that are held: suspended though their owner is not, or being deleted for too long."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Final

from trainyard.cluster_state.body_fields import Body, condition, mapping, name_of, text, time
from trainyard.cluster_state.observed import Kind
from trainyard.insight.explain.cause import Cause, Family, Found
from trainyard.insight.explain.job_state import ExplainedState, JobState
from trainyard.insight.explain.named_objects import short_kind

_LATE: Final = datetime.timedelta(minutes=1)

SUSPENDED: Final = Cause(
    "child-suspended",
    "Suspended object below a job that is not suspended",
    "`spec.suspend` of the JobSet and of the Jobs, beside that of their owner",
    "{object} is suspended (`spec.suspend: true`){since_when}, and its owner is not",
    "wait: its controller resumes it within a minute; if it stays, look at the events of its owner (`{command}`)",
    {
        **{"object": "JobSet train", "since_when": " since 2026-11-24T10:00:00Z"},
        "command": "kubectl describe trainjob train -n vision",
    },
)
TERMINATING: Final = Cause(
    "pods-terminating",
    "Pods whose deletion does not end",
    "`metadata.deletionTimestamp` and finalizers of the pods; condition Ready of their nodes",
    "{count:pod} of it should have ended at {since} and {verb} still there: {pod} {reason}",
    "{remedy}",
    {
        **{"count": 1, "verb": "is", "since": "2026-11-24T10:00:00Z", "pod": "train-node-0-1"},
        "reason": "is on node rack-0-node-3, which is not ready",
        "remedy": "ask the platform team to repair rack-0-node-3; if it never returns, "
        "`kubectl delete pod train-node-0-1 -n vision --force --grace-period=0`",
    },
)


def _find(job_state: JobState) -> Iterator[Found]:
    if job_state.ended:
        return
    namespace = job_state.namespace or "default"
    if job_state.holds_job_set and job_state.job_set is not None:
        command = f"kubectl describe trainjob {job_state.name} -n {namespace}"
        yield _suspended(job_state.job_set, command)
    elif job_state.held_jobs and job_state.job_set is not None:
        command = f"kubectl describe jobset {name_of(job_state.job_set)} -n {namespace}"
        yield _suspended(job_state.held_jobs[0], command)
    if job_state.state is ExplainedState.WAITING:
        yield from _terminating(job_state, namespace)


def _suspended(body: Body, command: str) -> Found:
    since = text(condition(body, "Suspended"), "lastTransitionTime")
    return SUSPENDED.found(
        object=f"{short_kind(text(body, 'kind'))} {name_of(body)}",
        since=since,
        since_when=f" since {since}" if since else "",
        command=command,
    )


def _terminating(job_state: JobState, namespace: str) -> Iterator[Found]:
    """Yield the pods that a node out of service, or a finalizer, keeps; their successors are not created before."""
    leaving = [pod for pod in job_state.all_pods if mapping(pod, "metadata").get("deletionTimestamp")]
    lost = [pod for pod in leaving if _lost_node(job_state, pod)]
    late = [pod for pod in leaving if _is_late(job_state, pod)]
    chosen = lost or late
    if not chosen:
        return
    name = name_of(chosen[0])
    if lost:
        node = text(chosen[0], "spec", "nodeName")
        reason = f"is on node {node}, which {_lost_node(job_state, chosen[0])}"
        remedy = (
            f"ask the platform team to repair {node}; if it never returns, `kubectl delete pod {name} -n {namespace} "
            "--force --grace-period=0`"
        )
    else:
        finalizers = mapping(chosen[0], "metadata").get("finalizers")
        names = [each for each in finalizers if isinstance(each, str)] if isinstance(finalizers, list) else []
        reason = f"has finalizer {', '.join(names)}" if names else "does not end on its node"
        remedy = f"look at `kubectl describe pod {name} -n {namespace}`, or ask the platform team to do so"
    yield TERMINATING.found(
        count=len(chosen),
        verb="is" if len(chosen) == 1 else "are",
        since=min(text(pod, "metadata", "deletionTimestamp") for pod in chosen),
        pod=name,
        reason=reason,
        remedy=remedy,
    )


def _lost_node(job_state: JobState, pod: Body) -> str:
    """Return why the node of a pod cannot end it; empty: it can, or this is unknown."""
    name = text(pod, "spec", "nodeName")
    if not name or not job_state.index.knows(Kind.NODE):
        return ""
    node = job_state.view.table.nodes.get(name)
    if node is None:
        return "does not exist"
    return "" if node.ready else "is not ready"


def _is_late(job_state: JobState, pod: Body) -> bool:
    """Return whether a pod is there for long after the end of its grace period, which is its deletionTimestamp."""
    ends = time(pod, "metadata", "deletionTimestamp")
    observed = job_state.index.observed
    return observed.is_timed and ends is not None and observed.now - ends > _LATE


FAMILY: Final = Family("Held objects", 13, (SUSPENDED, TERMINATING), _find)
