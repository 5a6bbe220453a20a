"""The table of docs/convert.md: what each field becomes, as the conversions of all inputs and of each field say it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tests.convert.conversions import NAMES, bodies_of, conversion_of
from tests.convert.schema_fields import SCHEMAS, conversions_of, notes_of
from trainyard.jobs.convert.field_finding import FieldFinding
from trainyard.jobs.convert.kinds import KINDS

_ROLES = re.compile(r"^spec\.\w+ReplicaSpecs\.\w+")
_TEMPLATE = re.compile(r"^.*?emplate\.(?=spec|metadata)")
_KEYS = {
    re.compile(r"\[\d+\]"): "[]",
    re.compile(r"(sparkConf|hadoopConf)(\[.*?\]|\.\w+$)"): r"\1.*",
    re.compile(r"rayStartParams\.[\w-]+$"): "rayStartParams.*",
    re.compile(r"^metadata\.(labels|annotations)\[(?!scheduling|ray|volcano|kueue|kubectl).*\]"): r"metadata.\1.*",
    re.compile(r"^metadata\.(labels|annotations)\.[\w-]+$"): r"metadata.\1.*",
    re.compile(r"^spec\.rayClusterSpec\."): "(cluster).",
}
_OF_ONE_JOB = re.compile(
    r"^(names [A-Z/]|names the |runs on the|not \d)|is not known here|are rejected|is not done|named after the job"
)
_NUMBER = re.compile(r" at \d+, .*")
Rows = dict[tuple[int, str, str], set[tuple[str, str]]]
_RUN_POLICY = "runPolicy"
_EVERY = "every kind"
_PODS = "pod templates"


def table() -> str:
    """Return the table as Markdown."""
    rows: Rows = {}
    for name in NAMES:
        for body in bodies_of(name):
            if (body["apiVersion"], body["kind"]) not in KINDS:
                continue
            _add(rows, body["kind"], conversion_of(body).notes)
    for schema in sorted(SCHEMAS.glob("*.txt")):
        for _, path, conversion in conversions_of(schema.stem):
            _add(rows, schema.stem.partition("-")[0], notes_of(path, conversion))
    lines = ["| kind | field | becomes | |", "|---|---|---|---|"]
    for (_, kind, field), found in sorted(rows.items()):
        for severity, message in sorted(found):
            lines.append(f"| {kind} | `{field}` | {message.replace('|', '/')} | {severity} |")
    return "\n".join(lines) + "\n"


def _add(rows: Rows, kind: str, notes: Iterable[FieldFinding]) -> None:
    for title, field, note in _fields(kind, notes):
        message = _NUMBER.sub("", note.message)
        rows.setdefault((_order(title), title, field), set()).add((note.fidelity.value, message))


def _fields(kind: str, notes: Iterable[FieldFinding]) -> Iterator[tuple[str, str, FieldFinding]]:
    for note in notes:
        if not note.path or _OF_ONE_JOB.search(note.message):
            continue
        path = note.path
        for pattern, replacement in _KEYS.items():
            path = pattern.sub(replacement, path)
        if path.startswith("metadata.") and not path.startswith("metadata.labels[ray"):
            yield _EVERY, path, note
        elif _TEMPLATE.match(path) and not path.startswith("spec.driver") and not path.startswith("spec.executor"):
            yield _PODS, _TEMPLATE.sub("", path), note
        elif path.startswith("spec.runPolicy."):
            yield _RUN_POLICY, path.removeprefix("spec.runPolicy."), note
        elif _ROLES.match(path):
            yield _title(kind), _ROLES.sub("(role)", path) or "(role)", note
        elif path.startswith("(cluster)"):
            yield "RayCluster", path.removeprefix("(cluster)."), note
        elif kind == "RayCluster":
            yield kind, path.removeprefix("spec."), note
        else:
            yield _title(kind), path.removeprefix("spec."), note


def _title(kind: str) -> str:
    return "Volcano Job" if kind == "Job" else kind


def _order(title: str) -> int:
    titles = [_EVERY, _PODS, _RUN_POLICY, *(_title(kind) for _, kind in KINDS)]
    return titles.index(title)
