"""Causes in the platform: schedulers and controllers that do not run, and the message of the scheduler."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Final

from trainyard.api.constants import CONTROLLER_SERVICE, VOLCANO_SCHEDULER
from trainyard.cluster_state.body_fields import condition, name_of, namespace_of, sequence, text, time, whole
from trainyard.cluster_state.cluster_index import ClusterIndex
from trainyard.cluster_state.observed import Kind
from trainyard.cluster_state.platform_programs import CONTROLLERS as _CONTROLLERS
from trainyard.cluster_state.platform_programs import JOB_SET as _JOB_SET
from trainyard.cluster_state.platform_programs import LEASES
from trainyard.cluster_state.platform_programs import SCHEDULER as _SCHEDULER
from trainyard.insight.explain.cause import Cause, Family, Found
from trainyard.insight.explain.job_state import ExplainedState, JobState
from trainyard.insight.explain.named_objects import short_kind

_GRACE: Final = datetime.timedelta(seconds=15)
_LONGEST: Final = 24 * 3600
_YOUNG: Final = datetime.timedelta(seconds=10)
_MAXIMUM: Final = 300

_FIX: Final = "ask the platform team to {remedy}; locally `trainyard cluster status`"


def _example(name: str, namespace: str, **numbers: object) -> dict[str, object]:
    return {
        **{"object": f"{namespace}/{name}", "state": "0 of 1 replicas are ready"},
        **{"remedy": f"look at `kubectl get pods -n {namespace}`", **numbers},
    }


SCHEDULER: Final = Cause(
    "scheduler-not-running",
    "Scheduler that does not run",
    "status of Deployment volcano-scheduler, and its Lease",
    "Volcano's scheduler does not run, so no gang is placed: Deployment {object}: {state}",
    _FIX,
    _example(_SCHEDULER, "volcano-system"),
)
CONTROLLER: Final = Cause(
    "controller-not-running",
    "Trainyard's controller does not run",
    "status of Deployment kubeflow-trainer-controller-manager, and its Lease; the JobSet of the TrainJob",
    "{missing}, because Trainyard's controller does not run: Deployment {object}: {state}",
    _FIX,
    _example(CONTROLLER_SERVICE, "trainyard-system", missing="the TrainJob has no JobSet"),
)
JOB_SETS: Final = Cause(
    "job-set-controller-not-running",
    "JobSet's controller does not run",
    "status of Deployment jobset-controller-manager, and its Lease; the Jobs of the JobSet",
    "{missing}, because JobSet's controller does not run: Deployment {object}: {state}",
    _FIX,
    _example(_JOB_SET, "jobset-system", missing="the JobSet has 0 of 1 Jobs"),
)
VOLCANO: Final = Cause(
    "volcano-controllers-not-running",
    "Volcano's controllers do not run",
    "status of Deployment volcano-controllers, and its Lease; PodGroup and pods of the Volcano Job",
    "the job has no {missing}, because Volcano's controllers do not run: Deployment {object}: {state}",
    _FIX,
    _example(_CONTROLLERS, "volcano-system", missing="pods"),
)
MESSAGE: Final = Cause(
    "scheduler-message",
    "Message of the scheduler",
    "condition Unschedulable of the PodGroup; condition PodScheduled of the pods",
    "the scheduler reports: {message}",
    "{remedy}",
    {
        "message": "2/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable",
        "remedy": "ask a person who may list Nodes to run the same command",
    },
)


def _find(job_state: JobState) -> Iterator[Found]:
    if job_state.ended:
        return
    if job_state.holds_job_set:
        yield from _stopped(job_state, CONTROLLER, CONTROLLER_SERVICE, missing="its JobSet is still suspended")
    if job_state.state is ExplainedState.SUSPENDED:
        return
    reads = job_state.reads
    if job_state.train_job is not None and job_state.job_set is None and reads(Kind.JOB_SET) and _is_old(job_state):
        yield from _stopped(job_state, CONTROLLER, CONTROLLER_SERVICE, missing="the TrainJob has no JobSet")
    job_set = job_state.job_set
    if job_set is not None:
        wanted = sum(whole(part, "replicas", default=1) for part in sequence(job_set, "spec", "replicatedJobs"))
        if not job_state.jobs and wanted and reads(Kind.JOB):
            missing = f"the JobSet has 0 of {wanted} Jobs"
            yield from _stopped(job_state, JOB_SETS, _JOB_SET, missing=missing, jobs=0, wanted=wanted)
        elif job_state.held_jobs:
            missing = "the Jobs of the JobSet are still suspended"
            yield from _stopped(job_state, JOB_SETS, _JOB_SET, missing=missing)
    if job_state.kind == Kind.VOLCANO_JOB and not job_state.all_pods and reads(Kind.POD):
        missing = "pods" if job_state.pod_group is not None else "PodGroup"
        yield from _stopped(job_state, VOLCANO, _CONTROLLERS, missing=missing)
    elif job_state.unplaced and job_state.pod_group is None and reads(Kind.POD_GROUP) and _is_volcano(job_state):
        yield from _stopped(job_state, VOLCANO, _CONTROLLERS, missing="PodGroup")
    if job_state.unplaced and _is_volcano(job_state):
        yield from _stopped(job_state, SCHEDULER, _SCHEDULER)
    yield from _message(job_state)


def _is_volcano(job_state: JobState) -> bool:
    return any(text(spec, "schedulerName") == VOLCANO_SCHEDULER for spec in job_state.pod_specs)


def _is_old(job_state: JobState) -> bool:
    created = time(job_state.root, "metadata", "creationTimestamp")
    return created is None or job_state.index.observed.now - created >= _YOUNG


def _stopped(job_state: JobState, cause: Cause, name: str, **numbers: object) -> Iterator[Found]:
    if not job_state.index.knows(Kind.DEPLOYMENT):
        return
    index = job_state.index
    found = [body for body in index.of(Kind.DEPLOYMENT) if name_of(body) == name]
    states = [fault_of(index, name, namespace_of(body), body) for body in found]
    if not all(states):
        return  # one of that name is healthy
    for body, state in zip(found, states, strict=True):
        home = namespace_of(body)
        remedy = f"look at `kubectl get pods -n {home}`"
        if not _replicas(body):
            remedy = f"start it: `kubectl scale deployment {name} -n {home} --replicas=1`"
        values = {"deployment": name, "namespace": home, "object": f"{home}/{name}", "remedy": remedy}
        yield cause.found(**values, state=state, **numbers)
    if not found and index.observed.is_timed and not _is_renewed(index, name):
        remedy = f"install it (`kubectl get deployments -A | grep {name}` finds none)"
        values = {"deployment": name, "object": name, "remedy": remedy}
        yield cause.found(**values, state="it does not exist", **numbers)


def _is_renewed(index: ClusterIndex, name: str) -> bool:
    """Return whether a program renews its Lease: a chart may name its Deployment after the release."""
    leases = [body for body in index.of(Kind.LEASE) if name_of(body) in LEASES.get(name, ())]
    return any(time(body, "spec", "renewTime") is not None and not _expired(index, body) for body in leases)


def _replicas(body: object) -> int:
    return whole(body, "spec", "replicas", default=1)


def fault_of(index: ClusterIndex, name: str, namespace: str, body: object) -> str:
    """Return why a Deployment of the platform does not run; empty: it does.

    Parameters
    ----------
    index
        Index of the cluster.
    name, namespace
        Its name.
    body
        The Deployment.
    """
    wanted = _replicas(body)
    if not wanted:
        return "it is scaled to 0 replicas"
    if not (whole(body, "status", "readyReplicas") or whole(body, "status", "availableReplicas")):
        return f"0 of {wanted} replicas are ready"
    if not index.observed.is_timed:
        return ""
    for lease in LEASES.get(name, ()):
        if age := _expired(index, index.find(Kind.LEASE, lease, namespace)):
            return f"its Lease {lease} was renewed {int(age.total_seconds())} s ago"
    return ""


def _expired(index: ClusterIndex, lease: object) -> datetime.timedelta | None:
    """Return the age of a Lease that is not renewed in time, or None if it is renewed, or its age is unknown."""
    newest, renewed = index.newest_time, time(lease, "spec", "renewTime")
    if newest is None or renewed is None:
        return None
    lasts = min(max(0, whole(lease, "spec", "leaseDurationSeconds", default=15)), _LONGEST)
    age = newest - renewed
    return age if age > datetime.timedelta(seconds=lasts) + _GRACE else None


def _message(job_state: JobState) -> Iterator[Found]:
    """Yield the message of the scheduler, while pods wait."""
    if job_state.state is not ExplainedState.WAITING or not job_state.unplaced:
        return
    found = condition(job_state.pod_group, "Unschedulable")
    messages = [text(found, "message")]
    for pod in job_state.unplaced[:1]:
        messages.append(text(condition(pod, "PodScheduled", "False"), "message"))
    message = next(filter(None, messages), "")
    if message:
        unread = [f"{short_kind(kind)}s" for kind in (Kind.NODE, Kind.POD_GROUP) if not job_state.index.knows(kind)]
        remedy = (
            f"ask a person who may list all {' and '.join(unread)} to run the same command"
            if unread
            else "run the command again in a minute; if the message stays, ask the platform team"
        )
        yield MESSAGE.found(message=message[:_MAXIMUM], remedy=remedy)


FAMILY: Final = Family("Platform", 10, (SCHEDULER, CONTROLLER, JOB_SETS, VOLCANO, MESSAGE), _find)
