"""Convert documents with legacy jobs: each object is converted, skipped with a note, or rejected with an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from trainyard.api import Body
from trainyard.errors import TrainyardError
from trainyard.jobs.convert.conversion import AUTO, Conversion, Converter, convert
from trainyard.jobs.convert.field_finding import Fidelity, FieldFinding
from trainyard.jobs.convert.fit import Catalog
from trainyard.jobs.convert.kinds import KINDS, RETIRED, converter_of
from trainyard.jobs.convert.metadata import job_name
from trainyard.jobs.convert.operator_labels import label_keys
from trainyard.jobs.convert.other_hosts import note_other_hosts
from trainyard.jobs.convert.schedules import SCHEDULES, server_note
from trainyard.jobs.convert.source import LegacySource
from trainyard.manifests.documents import in_namespace, objects


def convert_documents(
    texts: Mapping[str, str], catalog: Catalog, *, runtime: str = AUTO, namespace: str | None = None
) -> list[Conversion]:
    """Convert every job of some texts, in order.

    Parameters
    ----------
    texts
        YAML or JSON by the name of its source.
    catalog
        Cluster runtimes by name.
    runtime
        ``auto``, ``always``, or the name of a runtime of the catalog.
    namespace
        Namespace of the jobs that name none.

    Raises
    ------
    TrainyardError
        A text is not YAML or contains something other than Kubernetes objects, or a job is invalid against its API.
    """
    found = []
    names: set[tuple[str, str]] = set()
    bodies = [
        (f"Document {index} of {origin}", body)
        for origin, text in texts.items()
        for index, body in enumerate(objects(text, origin), 1)
    ]
    bodies = [(where, in_namespace(body, namespace)) for where, body in bodies]
    kinds = [_kind(where, body) for where, body in bodies]
    uses = _label_uses(
        body
        for (_, body), kind in zip(bodies, kinds, strict=True)
        if converter_of(*kind) is None and kind not in SCHEDULES
    )
    for (where, body), kind in zip(bodies, kinds, strict=True):
        schedule = SCHEDULES.get(kind)
        converter = converter_of(kind[0], schedule.kind if schedule else kind[1])
        if converter is None:
            found.append(_skipped(body))
            continue
        convert_one = partial(_converted, converter=converter, catalog=catalog, runtime=runtime, names=names, uses=uses)
        try:
            found.append(schedule.convert(body, convert_one) if schedule else convert_one(body))
        except TrainyardError as error:
            raise TrainyardError(f"{where}: {error.message}", fix=error.fix, findings=error.findings) from error
    return note_other_hosts([body for _, body in bodies], found)


def _converted(
    body: Body,
    converter: Converter,
    catalog: Catalog,
    runtime: str,
    names: set[tuple[str, str]],
    uses: Mapping[str, tuple[str, ...]],
) -> Conversion:
    """Convert a job under a unique name in its namespace."""
    source = LegacySource(body)
    source.mapping("metadata")
    namespace, name = str(source.text("metadata.namespace") or "default"), job_name(source)
    taken = (namespace, name) in names
    wanted = f"{name}-{str(body['kind']).lower()}" if taken else None
    names.add((namespace, wanted or name))
    return convert(body, converter, catalog, runtime=runtime, name=wanted, label_uses=uses)


def _label_uses(others: Iterable[Body]) -> dict[str, tuple[str, ...]]:
    """Return the objects other than jobs by the keys of labels that they name."""
    uses: dict[str, tuple[str, ...]] = {}
    for body in others:
        label = LegacySource(body).label
        for key in label_keys(body):
            uses[key] = (*uses.get(key, ()), label)
    return uses


def _skipped(body: Body) -> Conversion:
    kind, version = body["kind"], body["apiVersion"]
    if (served := server_note(version, kind)) is not None:
        return Conversion(LegacySource(body).label, (), (served,))
    group = version.partition("/")[0]
    message = f"{kind} of {version} is skipped"
    read = [known for known, name in KINDS if name == kind and known.partition("/")[0] == group]
    if read:
        note = FieldFinding.of(
            "apiVersion", version, Fidelity.LOST, message, f"convert it to {' or '.join(read)} first"
        )
    elif (group, kind) in RETIRED:
        why, fix = RETIRED[group, kind]
        note = FieldFinding.of("kind", kind, Fidelity.LOST, f"{message}: {why}", fix)
    else:
        kinds = ", ".join(sorted({name for _, name in (*KINDS, *SCHEDULES)}))
        note = FieldFinding.of(
            "kind", kind, Fidelity.LOSSLESS, message, f"no action, unless it is a job; supported kinds are {kinds}"
        )
    return Conversion(LegacySource(body).label, (), (note,))


def _kind(where: str, body: Any) -> tuple[str, str]:
    if isinstance(body, dict):
        version, kind = body.get("apiVersion"), body.get("kind")
        if isinstance(version, str) and isinstance(kind, str) and kind:
            return version, kind
    raise TrainyardError(f"{where} is not a Kubernetes object", fix="give every document apiVersion, kind and metadata")
