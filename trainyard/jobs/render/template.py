"""JobSet template: parsed once for each runtime, merged and copied for each TrainJob."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from trainyard.api import Body, Runtime
from trainyard.api.constants import ANCESTOR_CONTAINERS
from trainyard.jobs.render.pod_editing import copied
from trainyard.jobs.render.pod_set import ancestor_of
from trainyard.jobs.render.runtime_cache import once_per_runtime


@dataclass(frozen=True)
class Template:
    """JobSet template of a runtime, or of a runtime with the changes of a TrainJob.

    Parameters
    ----------
    spec
        The JobSet specification without nulls; shared, must not be modified.
    labels, annotations
        Metadata of the JobSet.
    """

    spec: Body
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @property
    def jobs(self) -> list[Body]:
        """The replicatedJobs; must not be modified."""
        found: list[Body] = self.spec.get("replicatedJobs", [])
        return found

    def job(self, name: str) -> Body | None:
        """Return a replicatedJob; must not be modified."""
        return next((job for job in self.jobs if job["name"] == name), None)

    def copy(self) -> Body:
        """Return a copy of the specification that may be modified."""
        body: Body
        try:
            body = orjson.loads(orjson.dumps(self.spec))  # faster than a copy in Python
        except TypeError:
            return copied(self.spec)  # type: ignore[no-any-return]
        return body if body == self.spec else copied(self.spec)


@once_per_runtime
def template_of(runtime: Runtime) -> Template:
    """Return the template of a runtime."""
    template = runtime.spec.template if runtime.spec else None
    body = copied(template.spec if template else None)
    spec = _without_empty_fields(body) if isinstance(body, dict) else {}
    metadata = template.metadata if template else None
    return Template(
        spec,
        dict((metadata.labels if metadata else None) or {}),
        dict((metadata.annotations if metadata else None) or {}),
    )


def _without_empty_fields(spec: Body) -> Body:
    """Drop fields that Go's types do not write, so that every reader of the runtime counts the same.

    JobSet rejects even an empty ``dependsOn`` list on its first replicatedJob. ``replicas: 0`` is unset, so one, for
    Kubeflow Trainer and for Kueue; that of an ancestor step stays and is an error, as upstream.
    """
    jobs = spec.get("replicatedJobs")
    for job in jobs if isinstance(jobs, list) else ():
        if not isinstance(job, dict):
            continue
        if job.get("dependsOn") == []:
            del job["dependsOn"]
        if _is_zero(job.get("replicas")) and not _is_step(job):
            del job["replicas"]
    return spec


def _is_zero(value: Any) -> bool:
    return value == 0 and isinstance(value, int) and not isinstance(value, bool)


def _is_step(job: Body) -> bool:
    """Return whether a replicatedJob is an ancestor step; its parts may be malformed."""
    try:
        return ancestor_of(job) in ANCESTOR_CONTAINERS
    except (AttributeError, KeyError, TypeError):
        return True
