"""Pods of a runtime's replicatedJobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.api.constants import ANCESTOR_LABEL


@dataclass(frozen=True)
class JobTemplate:
    """One replicatedJob.

    Parameters
    ----------
    index
        Index in the list.
    step
        Step of a TrainJob; empty if unset.
    pod
        Pod specification; empty if invalid.
    """

    index: int
    step: str
    pod: dict[str, Any]


def job_templates(body: Mapping[str, Any]) -> Iterator[JobTemplate]:
    """Yield the replicatedJobs of a runtime; invalid entries are skipped."""
    jobs = _at(body, "spec", "template", "spec").get("replicatedJobs")
    for index, job in enumerate(jobs if isinstance(jobs, list) else ()):
        if isinstance(job, dict):
            step = _at(job, "template", "metadata", "labels").get(ANCESTOR_LABEL, "")
            yield JobTemplate(index, str(step), _at(job, "template", "spec", "template", "spec"))


def containers_of(pod: Mapping[str, Any]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield the containers of a pod, init containers first: the name of their list, their index, and the container."""
    for kind in ("initContainers", "containers"):
        listed = pod.get(kind)
        for number, container in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(container, dict):
                yield kind, number, container


def _at(body: Mapping[str, Any], *names: str) -> dict[str, Any]:
    found: Any = body
    for name in names:
        found = found.get(name) if isinstance(found, dict | Mapping) else None
    return found if isinstance(found, dict) else {}
