"""Causes in initializers: jobs that the gang waits for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard.api.constants import REPLICATED_JOB_LABEL
from trainyard.checks.report.text import counted
from trainyard.cluster_state.body_fields import Body, condition, name_of, text, whole
from trainyard.cluster_state.observed import Kind
from trainyard.insight.explain.cause import Cause, Family, Found
from trainyard.insight.explain.job_state import ExplainedState, JobState
from trainyard.insight.explain.pod_ends import ends_of

_MAXIMUM: Final = 300

FAILED: Final = Cause(
    "initializer-failed",
    "Failed initializer",
    "conditions of the Jobs that others wait for; status of their pods, and exit codes of their containers",
    "{initializer}, which the gang waits for, failed (failed pods: {times}){ended}",
    "{remedy}; check storageUri and the credentials",
    {
        **{"initializer": "dataset-initializer", "times": 1, "ended": ", last with exit code 1 (Error)"},
        "remedy": "read its log: `kubectl logs -n vision train-dataset-initializer-0-0-x7k2p`",
    },
)
RUNNING: Final = Cause(
    "initializer-running",
    "Initializer that has not finished",
    "`status.replicatedJobsStatus` of the JobSet, and the pods of the initializers",
    "the gang starts after {initializers}, which has not finished: {progress}",
    "wait; `kubectl logs -n {namespace} {pod}` shows its progress",
    {
        **{"initializers": ["dataset-initializer"], "progress": "1 pod, Running since 2026-11-24T10:00:00Z"},
        **{"namespace": "vision", "pod": "train-dataset-initializer-0-0-x7k2p"},
    },
)


def _find(job_state: JobState) -> Iterator[Found]:
    if job_state.ended or job_state.state is ExplainedState.SUSPENDED or not job_state.initializers:
        return
    names = set(job_state.initializers)
    jobs = [job for job in job_state.jobs if text(job, "metadata", "labels", REPLICATED_JOB_LABEL) in names]
    pods = [pod for job in jobs for pod in job_state.index.children(job, Kind.POD)]
    namespace = job_state.namespace or "default"
    for job in jobs:
        own = [pod for pod in job_state.index.children(job, Kind.POD) if text(pod, "status", "phase") == "Failed"]
        failures = max(whole(job, "status", "failed"), len(own))
        if failures or condition(job, "Failed") is not None:
            name = name_of(own[-1]) if own else "POD"
            end = next((each for pod in reversed(own) for each in ends_of(pod)), None)
            yield FAILED.found(
                initializer=text(job, "metadata", "labels", REPLICATED_JOB_LABEL),
                times=max(1, failures),
                ended=f", last with {end.short}" if end else "",
                namespace=namespace,
                pod=name,
                remedy=end.remedy if end else f"read its log: `kubectl logs -n {namespace} {name}`",
            )
    live = [pod for pod in pods if text(pod, "status", "phase") in ("Pending", "Running", "")]
    yield RUNNING.found(
        initializers=job_state.initializers,
        progress=_progress(live),
        namespace=namespace,
        pod=name_of(live[0]) if live else "POD",
    )


def _progress(pods: list[Body]) -> str:
    if not pods:
        return "it has no pod yet"
    phase = text(pods[0], "status", "phase") or "Pending"
    since = text(pods[0], "status", "startTime") or text(pods[0], "metadata", "creationTimestamp")
    progress = f"{counted(len(pods), 'pod')}, {phase}" + (f" since {since}" if since else "")
    reported = text(condition(pods[0], "PodScheduled", "False"), "message")[:_MAXIMUM]
    return f"{progress}: {reported}" if reported else progress


FAMILY: Final = Family("Initializers", 7, (FAILED, RUNNING), _find)
