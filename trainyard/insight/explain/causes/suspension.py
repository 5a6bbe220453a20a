"""Causes in the spec and the conditions of the job: suspended, managed elsewhere, or ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard.api.constants import (
    DEADLINE_EXCEEDED_REASON,
    JOB_SET_MISSING_REASON,
    KUEUE_QUEUE_LABEL,
    MANAGED_BY_TRAINER,
    RUNTIME_NOT_SUPPORTED_REASON,
)
from trainyard.cluster_state.body_fields import condition, mapping, text, whole
from trainyard.cluster_state.observed import Kind
from trainyard.insight.explain.cause import Cause, Family, Found
from trainyard.insight.explain.job_state import ExplainedState, JobState, gated_by_kueue
from trainyard.insight.explain.kueue_workload import patched_object, waits_for
from trainyard.insight.explain.pod_ends import ends_of

_MAXIMUM: Final = 300

BY_USER: Final = Cause(
    "suspended-by-user",
    "Suspended by a user",
    "`spec.suspend` of the job",
    "it is suspended (`spec.suspend: true`) since {since}",
    'resume it: `kubectl patch {kind} {name} -n {namespace} --type merge -p \'{{"spec":{{"suspend":false}}}}\'`',
    {"since": "2026-11-24T10:00:00Z", "kind": "trainjob", "name": "train", "namespace": "vision"},
)
BY_KUEUE: Final = Cause(
    "suspended-by-kueue",
    "Suspended by Kueue",
    "label `kueue.x-k8s.io/queue-name`; `spec.active`, conditions and admission checks of the Workload",
    "Kueue queue {queue} has {verdict}: {reason}",
    "{remedy}",
    {
        **{"queue": "vision", "verdict": "not admitted it"},
        "reason": "insufficient unused quota for nvidia.com/gpu in flavor default-flavor, 8 more needed",
        "remedy": "wait until quota of vision is free; see `kubectl describe workload trainjob-train-1a2b3 -n vision`",
    },
)
ELSEWHERE: Final = Cause(
    "managed-elsewhere",
    "Managed by another controller",
    "`spec.managedBy` of the job",
    "{manager} manages it (`spec.managedBy`), so Trainyard's controller leaves it alone",
    "look at the objects of {manager}, or create the job without `spec.managedBy`",
    {"manager": "kueue.x-k8s.io/multikueue"},
)
DEADLINE: Final = Cause(
    "deadline-exceeded",
    "Ended by its deadline",
    "condition Failed with reason DeadlineExceeded; `spec.activeDeadlineSeconds`",
    "it ran longer than its activeDeadlineSeconds of {seconds} and was ended at {when}",
    "create it again with a larger activeDeadlineSeconds",
    {"seconds": 3600, "when": "2026-11-24T10:00:00Z"},
)
JOB_SET_DELETED: Final = Cause(
    "job-set-deleted",
    "JobSet deleted while the job ran",
    "condition Failed with reason JobSetMissing",
    "its JobSet was deleted before it ended, at {when}, and a job is not run a second time",
    "delete the job and create it again",
    {"when": "2026-11-24T10:00:00Z"},
)
NOT_SUPPORTED: Final = Cause(
    "runtime-not-supported",
    "Kind of runtime that is not supported",
    "`spec.runtimeRef`; condition Failed with reason TrainingRuntimeNotSupported",
    "{reason}",
    "reference a TrainingRuntime or a ClusterTrainingRuntime of trainer.kubeflow.org",
    {"reason": "unsupported runtime: Pod.example.com"},
)
ABORTED: Final = Cause(
    "volcano-job-aborted",
    "Aborted Volcano Job",
    "`status.state` of the Volcano Job",
    "it was stopped at {when}{ending}: {reason}",
    "to go on: `vcctl job resume -n {namespace} -N {name}`",
    {
        **{"when": "2026-11-24T10:00:00Z", "reason": "Aborted: Job is aborted by user", "ending": ""},
        **{"name": "train", "namespace": "vision"},
    },
)
FAILED: Final = Cause(
    "job-failed",
    "Failed job",
    "condition Failed of the job; status of its pods, and exit codes of their containers",
    "it failed at {when}: {reason}{containers}",
    "{remedy}; then delete the job and create it again",
    {
        **{"when": "2026-11-24T10:00:00Z", "reason": "FailedJobs: jobset failed due to one or more job failures"},
        **{"containers": "; container node of pod train-node-0-0 ended with exit code 1 (Error)"},
        "remedy": "read its log: `kubectl logs -n vision train-node-0-0`",
    },
)


def _find(job_state: JobState) -> Iterator[Found]:
    if job_state.state is ExplainedState.FAILED:
        yield from _failed(job_state)
    if job_state.ended:
        return
    manager = text(job_state.root, "spec", "managedBy")
    elsewhere = job_state.kind == Kind.TRAIN_JOB and manager not in ("", MANAGED_BY_TRAINER)
    if elsewhere:
        yield ELSEWHERE.found(manager=manager)
    gated = gated_by_kueue(job_state)
    if job_state.state is not ExplainedState.SUSPENDED and not gated:
        return
    labeled = gated or [job_state.root]
    queue = text(labeled[0], "metadata", "labels", KUEUE_QUEUE_LABEL)
    suspended = mapping(job_state.root, "spec").get("suspend") is True
    waits = waits_for(job_state, queue) if queue else None
    # MultiKueue resumes a job that it has admitted in another cluster.
    if waits is not None and (waits.admitted is False or (suspended and not elsewhere)):
        yield BY_KUEUE.found(
            queue=queue,
            verdict="admitted it, and not resumed it" if waits.admitted else "not admitted it",
            reason=waits.reason,
            workload=waits.workload,
            namespace=job_state.namespace,
            remedy=waits.remedy,
        )
    elif suspended and waits is None:
        since = text(condition(job_state.root, "Suspended"), "lastTransitionTime")
        created = text(job_state.root, "metadata", "creationTimestamp")
        yield BY_USER.found(since=since or created or "its creation", **patched_object(job_state))


def _failed(job_state: JobState) -> Iterator[Found]:
    ended = condition(job_state.root, "Failed")
    reason, when = text(ended, "reason"), text(ended, "lastTransitionTime") or "an unknown time"
    if reason == DEADLINE_EXCEEDED_REASON:
        seconds = whole(job_state.root, "spec", "activeDeadlineSeconds")
        yield DEADLINE.found(seconds=seconds or "its runtime", when=when)
    elif reason == JOB_SET_MISSING_REASON:
        yield JOB_SET_DELETED.found(when=when)
    elif reason == RUNTIME_NOT_SUPPORTED_REASON:
        yield NOT_SUPPORTED.found(reason=text(ended, "message"))
    elif reason != "ReachedMaxRestarts":
        message = text(ended, "message") or text(job_state.root, "status", "state", "message")
        phase = text(job_state.root, "status", "state", "phase") or text(job_state.root, "status", "phase")
        reason, home = ": ".join(filter(None, (reason or phase, message)))[:_MAXIMUM], job_state.namespace or "default"
        if phase in ("Aborted", "Aborting"):
            when = text(job_state.root, "status", "state", "lastTransitionTime") or when
            ending = ", and its pods are being deleted" if phase == "Aborting" else ""
            yield ABORTED.found(when=when, ending=ending, reason=reason, namespace=home, name=job_state.name)
            return
        end = next((each for pod in job_state.all_pods for each in ends_of(pod)), None)
        yield FAILED.found(
            when=when,
            reason=reason,
            containers=f"; {end.message}" if end else "",
            namespace=home,
            pod=end.pod if end else "POD",
            remedy=end.remedy if end else f"read the logs: `kubectl logs -n {home} POD`",
        )


FAMILY: Final = Family(
    "Suspension and end",
    12,
    (DEADLINE, JOB_SET_DELETED, NOT_SUPPORTED, ABORTED, FAILED, ELSEWHERE, BY_KUEUE, BY_USER),
    _find,
)
