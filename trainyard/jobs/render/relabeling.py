"""Ancestor steps that a framework assigns: which replicatedJob gets the TrainJob's command.

An MPI-like job has one command, the launcher's. Where neither launcher nor node has the label of the trainer, the
launcher gets it; where both have it, only the launcher keeps it. Kubeflow Trainer follows the labels alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainyard.api.constants import ANCESTOR_LABEL, TRAINER
from trainyard.checks.finding import Finding
from trainyard.jobs.render.job_view import JobView


def trainers(job: JobView) -> frozenset[str]:
    """Return the names of the replicatedJobs with the ancestor step of the trainer."""
    return frozenset(pod_set.name for pod_set in job.pod_sets if pod_set.ancestor == TRAINER)


def relabeling_warnings(job: JobView, labeled: frozenset[str]) -> Iterator[Finding]:
    """Warn that the TrainJob's command reaches other replicatedJobs than with Kubeflow Trainer.

    Parameters
    ----------
    job
        The resolved job.
    labeled
        Result of :func:`trainers` before the framework assigned steps.
    """
    assigned = trainers(job)
    if assigned == labeled:
        return
    trainer, present = job.spec.trainer, {pod_set.name for pod_set in job.pod_sets}
    field = next((name for name in ("command", "args") if trainer and getattr(trainer, name) is not None), None)
    theirs = labeled & present
    if field is None or assigned == theirs:
        return
    yield Finding.warning(
        f"spec.trainer.{field}",
        f"reaches {_listed(assigned)}; with Kubeflow Trainer, which follows the labels of the runtime, it reaches "
        f"{_listed(theirs)}",
        f"label only the Job template of {_listed(assigned)} {ANCESTOR_LABEL}={TRAINER}",
    )


def _listed(names: frozenset[str]) -> str:
    return f"replicatedJob {' and '.join(sorted(names))}" if names else "no replicatedJob"
