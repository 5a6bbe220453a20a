"""JobSet template of a runtime: parsed once, copied for each TrainJob."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from trainyard.api import Body, Runtime
from trainyard.render.pod_editing import copied
from trainyard.render.runtime_cache import once_per_runtime

__all__ = ["Template", "template_of"]


@dataclass(frozen=True)
class Template:
    """JobSet template of a runtime.

    Parameters
    ----------
    spec
        The JobSet specification without nulls; shared, must not be modified.
    text
        The specification as JSON, for fast copies; None: JSON does not represent it exactly.
    labels, annotations
        Metadata of the JobSet.
    """

    spec: Body
    text: bytes | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @property
    def jobs(self) -> list[Body]:
        """The replicatedJobs; must not be modified."""
        found: list[Body] = self.spec.get("replicatedJobs", [])
        return found

    def copy(self) -> Body:
        """Return a copy of the specification that may be modified."""
        body: Body = orjson.loads(self.text) if self.text is not None else copied(self.spec)
        return body


@once_per_runtime
def template_of(runtime: Runtime) -> Template:
    """Return the template of a runtime."""
    template = runtime.spec.template if runtime.spec else None
    body = copied(template.spec if template else None)
    spec = _without_empty_dependencies(body) if isinstance(body, dict) else {}
    metadata = template.metadata if template else None
    return Template(
        spec,
        _exact_text(spec),
        dict((metadata.labels if metadata else None) or {}),
        dict((metadata.annotations if metadata else None) or {}),
    )


def _without_empty_dependencies(spec: Body) -> Body:
    """Drop empty ``dependsOn`` lists: JobSet rejects even an empty one on its first replicatedJob."""
    jobs = spec.get("replicatedJobs")
    for job in jobs if isinstance(jobs, list) else ():
        if isinstance(job, dict) and job.get("dependsOn") == []:
            del job["dependsOn"]
    return spec


def _exact_text(value: Any) -> bytes | None:
    try:
        text = orjson.dumps(value)
    except TypeError:
        return None
    return text if orjson.loads(text) == value else None
