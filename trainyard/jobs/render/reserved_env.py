"""Reserved environment variables: set by a framework, and rejected in a TrainJob."""

from __future__ import annotations

from collections.abc import Iterator, Set

from trainyard.checks.finding import Finding
from trainyard.jobs.render.resolved_job import ResolvedJob


def reserved_errors(job: ResolvedJob, names: Set[str]) -> Iterator[Finding]:
    """Yield one finding that lists all reserved variables that the TrainJob's trainer sets.

    Parameters
    ----------
    job
        The resolved job.
    names
        Names of the reserved variables.
    """
    trainer = job.spec.trainer
    found = sorted(names & {str(variable.get("name")) for variable in (trainer.env if trainer else None) or ()})
    if found:
        yield Finding(
            "spec.trainer.env",
            f"must not have reserved envs, invalid envs configured: [{' '.join(found)}]",
            "remove them: they are set for every job of this runtime",
        )
