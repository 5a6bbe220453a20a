"""Kinds that create jobs at times, of which one job is converted, and kinds of the same operators that are no jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from trainyard.api import Body
from trainyard.jobs.convert.conversion import Conversion
from trainyard.jobs.convert.field_finding import Fidelity, FieldFinding
from trainyard.jobs.convert.source import LegacySource
from trainyard.jobs.render.pod_editing import copied

_SPEC: Final = "spec"
_SUSPEND: Final = "suspend"
_CREATES: Final = "nothing creates jobs at times"
_FIX: Final = "create the TrainJob from what runs at times, such as a pipeline, with a new name each time"
_ONE_JOB: Final = "has no effect: one job is created, and not again"
_FIELDS: Final = (
    "concurrencyPolicy",
    "failedJobsHistoryLimit",
    "failedRunHistoryLimit",
    "startingDeadlineSeconds",
    "successfulJobsHistoryLimit",
    "successfulRunHistoryLimit",
    "timeZone",
)


@dataclass(frozen=True)
class Schedule:
    """A kind that creates jobs of another kind.

    Parameters
    ----------
    kind
        The kind of its jobs, of the same apiVersion.
    path
        Path of the specification of a job.
    """

    kind: str
    path: str

    def convert(self, body: Body, convert: Callable[[Body], Conversion]) -> Conversion:
        """Convert a job of the schedule.

        Parameters
        ----------
        body
            The schedule.
        convert
            Converts the job.
        """
        source = LegacySource(body)
        metadata, spec = self._metadata(source), copied(source.mapping(self.path))
        job: Body = {"apiVersion": body["apiVersion"], "kind": self.kind, "metadata": metadata, "spec": spec}
        source.lost(f"{_SPEC}.schedule", _CREATES, _FIX)
        for field in _FIELDS:
            source.changed(f"{_SPEC}.{field}", _ONE_JOB)
        suspended = source.flag(f"{_SPEC}.{_SUSPEND}")
        if suspended:
            source.changed(f"{_SPEC}.{_SUSPEND}", "TrainJob spec.suspend")
        else:
            source.same(f"{_SPEC}.{_SUSPEND}", "the job is not suspended")
        for field in ("apiVersion", "kind", "metadata", "status"):
            source.take(field)
        source.finish()
        found = convert(job)
        if suspended and found.objects:
            found.objects[-1]["spec"][_SUSPEND] = True
        notes = (*source.notes, *(self._moved(note) for note in found.notes))
        return replace(found, source=source.label, notes=notes)

    def _metadata(self, source: LegacySource) -> Any:
        """Return the metadata of the schedule, with labels and annotations of its template."""
        metadata = copied(source.mapping("metadata"))
        parent = self.path.rpartition(".")[0]
        if parent == _SPEC:
            return metadata
        for kind in ("labels", "annotations"):
            entries = source.texts(f"{parent}.metadata.{kind}")
            if entries:
                metadata[kind] = {**source.texts(f"metadata.{kind}"), **entries}
                source.same(f"{parent}.metadata.{kind}", f"TrainJob metadata.{kind}")
        return metadata

    def _moved(self, note: FieldFinding) -> FieldFinding:
        """Return a note with its path in the schedule."""
        inside = note.path.startswith(f"{_SPEC}.") and not note.message.startswith("the new objects are rejected")
        return replace(note, path=f"{self.path}{note.path.removeprefix(_SPEC)}") if inside else note


SCHEDULES: Final = {
    ("batch.volcano.sh/v1alpha1", "CronJob"): Schedule("Job", "spec.jobTemplate.spec"),
    ("ray.io/v1", "RayCronJob"): Schedule("RayJob", "spec.jobTemplate"),
    ("sparkoperator.k8s.io/v1beta2", "ScheduledSparkApplication"): Schedule("SparkApplication", "spec.template"),
}
"""Schedules by apiVersion and kind."""

_SERVERS: Final = {("ray.io", "RayService"): "KubeRay", ("sparkoperator.k8s.io", "SparkConnect"): "the Spark operator"}
"""Operators of kinds that serve, by API group and kind."""


def server_note(version: str, kind: str) -> FieldFinding | None:
    """Return the note on an object that serves, or None for other kinds."""
    operator = _SERVERS.get((version.partition("/")[0], kind))
    if operator is None:
        return None
    message = f"{kind} of {version} serves requests and does not end, as a TrainJob does"
    return FieldFinding.of("kind", kind, Fidelity.LOST, message, f"leave it to {operator}")
