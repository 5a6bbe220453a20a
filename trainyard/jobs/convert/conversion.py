"""Convert one legacy job to a TrainJob and a runtime, with a note for every field that is not carried over as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from trainyard.api import Body, ClusterTrainingRuntime, TrainJob, parse
from trainyard.api.constants import FRAMEWORK_LABEL
from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.jobs.convert.draft import Draft, Refused
from trainyard.jobs.convert.emit import own_runtime, train_job
from trainyard.jobs.convert.field_finding import Fidelity, FieldFinding
from trainyard.jobs.convert.fit import Catalog, catalog_runtime, on_runtime, unexpressed
from trainyard.jobs.convert.gang_metadata import read_gang_metadata
from trainyard.jobs.convert.gang_scheduling import place_queue
from trainyard.jobs.convert.metadata import job_name, read_metadata, read_pod_annotations, room_for_name
from trainyard.jobs.convert.operator_labels import label_keys, resolve_operator_labels
from trainyard.jobs.convert.part import resolve_on_host_network
from trainyard.jobs.convert.source import LegacySource
from trainyard.jobs.render.pipeline import validate
from trainyard.jobs.render.result import RenderContext
from trainyard.jobs.render.submission import read_runtime, server_errors

AUTO: Final = "auto"
"""Use a catalog runtime if one fits the job, else a runtime of the job's own."""
ALWAYS: Final = "always"
"""Use a runtime of the job's own."""

Converter = Callable[[Draft], None]
"""Fills a draft from its source: parts, framework, and everything outside of metadata."""


@dataclass(frozen=True)
class Conversion:
    """Result of converting one object.

    Parameters
    ----------
    source
        Kind, namespace and name of the legacy object.
    objects
        Objects to apply, in this order; empty if the job cannot be converted.
    notes
        Notes about its fields.
    hosts
        First new host by host names of the legacy job, or by their beginnings before a number.
    """

    source: str
    objects: tuple[Body, ...]
    notes: tuple[FieldFinding, ...]
    hosts: Mapping[str, str] = field(default_factory=dict)

    @property
    def lost(self) -> tuple[FieldFinding, ...]:
        """Return the notes of fields without an equivalent."""
        return tuple(note for note in self.notes if note.fidelity is Fidelity.LOST)

    def as_json(self) -> Body:
        """Return the conversion as JSON data."""
        return {
            "source": self.source,
            "notes": [note.as_json() for note in self.notes],
            "objects": list(self.objects),
        }


def convert(
    body: Body,
    converter: Converter,
    catalog: Catalog,
    *,
    runtime: str = AUTO,
    name: str | None = None,
    label_uses: Mapping[str, tuple[str, ...]] | None = None,
) -> Conversion:
    """Convert one legacy job.

    Parameters
    ----------
    body
        The legacy job.
    converter
        Converter of its kind.
    catalog
        Cluster runtimes by name.
    runtime
        ``auto``, ``always``, or the name of a runtime of the catalog.
    name
        Name of the TrainJob; if unset, that of the legacy job.
    label_uses
        Other objects of the input by the keys of labels that they name.

    Raises
    ------
    TrainyardError
        The job is invalid against its API, or the runtime does not exist.
    """
    source = LegacySource(body)
    try:
        draft = _drafted(source, converter, name, label_uses or {})
        room = room_for_name(draft)
        if len(draft.name) > room:
            short = draft.name[: max(room, 1)].rstrip("-")
            source = LegacySource(body)
            draft = _drafted(source, converter, short, label_uses or {})
    except Refused:
        source.lost("spec", "the job is not converted", "see above")
        return Conversion(source.label, (), tuple(source.notes))
    source.finish()
    objects = _objects(draft, catalog, runtime)
    notes = (*source.notes, *_rejections(objects, catalog))
    return Conversion(source.label, objects, notes, source.hosts)


def _drafted(
    source: LegacySource, converter: Converter, name: str | None, label_uses: Mapping[str, tuple[str, ...]]
) -> Draft:
    wanted = job_name(source)
    if name is not None and name != wanted:
        source.forget("metadata.name")
        source.changed("metadata.name", f"{name}: pods are named after the job, and no two jobs have one name")
    draft = Draft(source, name or wanted, own_label_keys=label_keys(source.body), label_uses=label_uses)
    read_metadata(draft)
    converter(draft)
    for part in draft.parts:
        read_pod_annotations(draft, part)
        resolve_on_host_network(draft.source, part)
    resolve_operator_labels(draft)
    read_gang_metadata(draft)
    place_queue(draft)
    return draft


def _objects(draft: Draft, catalog: Catalog, runtime: str) -> tuple[Body, ...]:
    fitting = catalog_runtime(draft, catalog) if runtime == AUTO else None
    if fitting is not None:
        candidate = on_runtime(draft, fitting, catalog[fitting])
        if not _findings((candidate,), catalog):
            _note_runtime(draft, fitting)
            return (*draft.objects, candidate)
    if runtime in (AUTO, ALWAYS):
        return (*draft.objects, own_runtime(draft), train_job(draft))
    if runtime not in catalog:
        known = ", ".join(sorted(catalog)) or "none"
        raise TrainyardError(
            f"Runtime {runtime!r} does not exist in the catalog", fix=f"use {AUTO}, {ALWAYS} or one of: {known}"
        )
    _note_runtime(draft, runtime)
    framework = catalog[runtime]["metadata"].get("labels", {}).get(FRAMEWORK_LABEL)
    if framework != draft.framework:
        message = f"the runtime {runtime} is for {framework}, the job for {draft.framework}"
        fix = f"use a runtime for {draft.framework}, or --runtime {ALWAYS}"
        draft.source.notes.append(FieldFinding.of("", framework, Fidelity.LOST, message, fix))
    for path in unexpressed(draft):
        message = f"{path} cannot be set in a TrainJob on the runtime {runtime}"
        fix = f"check whether {runtime} sets it, or use --runtime {ALWAYS}"
        draft.source.notes.append(FieldFinding.of("", path, Fidelity.LOST, message, fix))
    return (*draft.objects, on_runtime(draft, runtime, catalog[runtime]))


def _note_runtime(draft: Draft, name: str) -> None:
    message = f"runs on the cluster runtime {name}, which may add to the pods (shared memory, security settings)"
    draft.source.notes.append(FieldFinding.of("", name, Fidelity.CHANGED, message, f"see runtimes/{name}"))


def _rejections(objects: tuple[Body, ...], catalog: Catalog) -> list[FieldFinding]:
    return [
        FieldFinding.of(each.path, None, Fidelity.LOST, f"the new objects are rejected: {each.message}", each.fix)
        for each in _findings(objects, catalog)
    ]


def _findings(objects: tuple[Body, ...], catalog: Mapping[str, Body]) -> tuple[Finding, ...]:
    """Return why the API server would reject the objects."""
    try:
        job = parse(TrainJob, objects[-1])
        if errors := tuple(server_errors(TrainJob, objects[-1], None, ())):
            return errors
        own = next((body for body in objects if body["kind"] == "TrainingRuntime"), None)
        if own is not None:
            read = read_runtime(own)
            if read.errors or read.runtime is None:
                return read.errors
            return validate(job, read.runtime, RenderContext()).errors
        assert job.spec is not None  # noqa: S101
        known = parse(ClusterTrainingRuntime, catalog[job.spec.runtime_ref.name])
        return validate(job, known, RenderContext()).errors
    except TrainyardError as error:
        return error.findings
