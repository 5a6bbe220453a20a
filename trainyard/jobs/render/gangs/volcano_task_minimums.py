"""Minimum number of pods of each replicatedJob of a Volcano gang.

Volcano counts the pods of a task by annotation. It ignores all minimums of tasks if their sum exceeds minMember.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from trainyard.checks.finding import Finding
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.pod_editing import section
from trainyard.jobs.render.resolved_job import ResolvedJob

_TASK_ANNOTATION: Final = "volcano.sh/task-spec"
_PATH: Final = "spec.runtimeRef"
_FIELD: Final = "podGroupPolicy.volcano.minTaskMember"


def check_task_minimums(
    job: ResolvedJob, minimums: Mapping[str, int], path: str = _PATH, field: str = _FIELD
) -> Iterator[Finding]:
    """Yield minimums that are never reached, and those that Volcano ignores.

    Parameters
    ----------
    path
        Path of the findings.
    field
        Name of the minimums in their messages.
    """
    members = {pod_set.name: pod_set for pod_set in job.members if pod_set.name in job.gang.counted}
    for name, least in minimums.items():
        if name not in members:
            known = ", ".join(members) or "none"
            message = f'replicatedJob "{name}" does not start with the gang'
            yield Finding(path, f"{field}: {message}", f"name one that does ({known})")
        elif least > members[name].pods:
            message = f'{least} exceeds the {members[name].pods} pods of replicatedJob "{name}"'
            yield Finding(path, f"{field}: {message}, so the gang never starts", "use fewer, or a larger job")
    total = sum(minimums.values())
    if total > job.gang.min_member:
        yield Finding(
            path,
            f"{field}: Volcano ignores it, because its sum {total} exceeds minMember {job.gang.min_member}",
            "lower the numbers, or raise torch.elasticPolicy.minNodes of the runtime",
        )


def name_tasks(builder: JobSetBuilder, minimums: Mapping[str, int]) -> None:
    """Mark the pods of each replicatedJob with a minimum."""
    for pod_set in builder.members:
        if pod_set.name in minimums:
            section(pod_set.template, "metadata", "annotations")[_TASK_ANNOTATION] = pod_set.name
