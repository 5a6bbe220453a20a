"""Warning about the deletion of a runtime that TrainJobs reference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from trainyard.api.constants import GROUP, TRAINING_RUNTIME
from trainyard.checks.finding import Finding
from trainyard.checks.report.text import listed
from trainyard.controller.status import awaits_job_set, finished, runtime_reference
from trainyard.kube.resource import Object

_SHOWN: Final = 5


def deletion_warnings(runtime: Object, train_jobs: Iterable[Object], *, named: bool = True) -> Iterator[Finding]:
    """Yield a warning if TrainJobs that have not finished reference a runtime that is being deleted.

    Parameters
    ----------
    runtime, train_jobs
        The runtime, and the TrainJobs of the cluster.
    named
        Whether the warning names the jobs.
    """
    kind, metadata = runtime["kind"], runtime["metadata"]
    jobs = [
        job
        for job in train_jobs
        if not finished(job)
        and runtime_reference(job) == (GROUP, kind, metadata["name"])
        and (kind != TRAINING_RUNTIME or job["metadata"].get("namespace") == metadata.get("namespace"))
    ]
    if not jobs:
        return
    waiting = sum(not awaits_job_set(job) for job in jobs)
    names = sorted(f"{job['metadata'].get('namespace')}/{job['metadata']['name']}" for job in jobs)
    shown = f" ({listed(names, _SHOWN)})" if named else ""
    number = "1 TrainJob references" if len(jobs) == 1 else f"{len(jobs)} TrainJobs reference"
    yield Finding.warning(
        "",
        f'{number} {kind} "{metadata["name"]}"{shown}: {waiting} cannot start without it, '
        f"{len(jobs) - waiting} keep their snapshot",
        "create it again, or delete these jobs",
    )
