"""Labels that only the legacy operator puts on pods.

Affinity, topology spread, the downward API and other objects of the input can name them. Labels that are the same on
all pods of a role are set in its template. The index of a pod has another label in a JobSet. The rest is lost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from trainyard.api import Body
from trainyard.api.constants import COMPLETION_INDEX_LABEL, JOB_INDEX_LABEL
from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.field_finding import Fidelity, FieldFinding
from trainyard.jobs.convert.part import Part
from trainyard.jobs.convert.source import LegacySource, dotted, parts_of, texts_in

_SPARK: Final = r"(?<![\w./-])spark-(?:role|version|app-name|app-selector|exec-id|exec-resourceprofile-id)(?![\w./-])"
_KEY: Final = re.compile(rf"(?<![\w.-])(?:(?![A-Za-z0-9])[\w.-])*+([A-Za-z0-9][\w.-]*+/[A-Za-z0-9][\w.-]*+|{_SPARK})")
"""It begins where a word does, and takes a word as a whole: the time is linear in the length of a text."""
_ALL_LABELS: Final = "metadata.labels"
_ALL_ANNOTATIONS: Final = "metadata.annotations"
_SELECTING: Final = ("affinity", "topologySpreadConstraints")


@dataclass(frozen=True)
class OperatorLabels:
    """Labels of the legacy operator on the pods of a role.

    Parameters
    ----------
    prefix
        Common beginning of the operator's label keys, or several; other keys with it are lost where they are named.
    static
        Labels with one value on all pods of the role.
    index
        Keys whose value is the index of the pod in its role.
    first
        Labels of the first pod of the role only.
    """

    prefix: str | tuple[str, ...]
    static: Mapping[str, str]
    index: tuple[str, ...] = ()
    first: Mapping[str, str] | None = None


def label_keys(body: Body) -> frozenset[str]:
    """Return the label keys with a prefix that an object names anywhere; other texts of this form are included."""
    return frozenset(_KEY.findall(repr(body)))


def label_part(draft: Draft, part: Part, labels: OperatorLabels) -> None:
    """Set the operator's static labels that are named, and record the others.

    Call it when the part has been read, before parts with equal templates are merged.
    """
    named = _named(draft)
    every = any(text == _ALL_LABELS for _, text in texts_in(part.template))
    static = dict(labels.static)
    if labels.first and part.pods == 1:
        static |= labels.first
    for key, value in static.items():
        if key not in named and not every:
            continue
        for kind in _kinds(part, key):
            part.template.setdefault("metadata", {}).setdefault(kind, {})[key] = value
        path = next(iter(_paths(draft, part, key)), dotted((*parts_of(part.path), "metadata", "labels", key)))
        _note(draft.source, path, key, Fidelity.LOSSLESS, "a label of the pods, as the old operator set it")
    part.operator_labels = (labels.prefix,) if isinstance(labels.prefix, str) else labels.prefix
    part.known_labels = frozenset(static) | frozenset(labels.index)
    part.index_labels = tuple(key for key in labels.index if key in named)
    if labels.first and part.pods > 1:
        _lose_first(draft, part, labels.first, named)


def resolve_operator_labels(draft: Draft) -> None:
    """Replace the index labels by those of a JobSet, and note labels that no pod has any more."""
    known: frozenset[str] = frozenset().union(*(part.known_labels for part in draft.parts))
    prefixes = {prefix for part in draft.parts for prefix in part.operator_labels}
    for part in draft.parts:
        new = _index_label(part)
        for key in part.index_labels:
            message = f"the index of a pod in its role is {new}"
            for path, field in _named_at(draft, part, key):
                if field:
                    _note(draft.source, path, key, Fidelity.CHANGED, message)
                else:
                    _lose(draft.source, path, key, f"use the label {new}")
            _replace_index(part, key, new)
    gone = sorted(key for key in _named(draft) - known if key.startswith(tuple(prefixes)))
    for key in gone:
        for part in draft.parts:
            own = part.template.get("metadata", {}).get("labels", {})
            for path in _paths(draft, part, key) if key not in own else ():
                _lose(draft.source, path, key, "remove it, or set the label in the pod template")
    _note_other_objects(draft, gone)


def _lose_first(draft: Draft, part: Part, first: Mapping[str, str], named: frozenset[str]) -> None:
    for key in first:
        fix = f'select the first pod by {COMPLETION_INDEX_LABEL}: "0"'
        for path in _paths(draft, part, key) if key in named else ():
            _lose(draft.source, path, key, fix)
        part.known_labels |= {key}
        for other in draft.label_uses.get(key, ()):
            _lose(draft.source, "", key, f"{fix} in {other}")


def _note_other_objects(draft: Draft, gone: list[str]) -> None:
    """Note other objects of the input that name a label without a fixed value."""
    indexes = {key: _index_label(part) for part in draft.parts for key in part.index_labels}
    for key, fix in (*indexes.items(), *((key, "") for key in gone)):
        for other in draft.label_uses.get(key, ()):
            _lose(draft.source, "", key, f"use the label {fix} in {other}" if fix else f"change {other}")


def _lose(source: LegacySource, path: str, key: str, fix: str) -> None:
    _note(source, path, key, Fidelity.LOST, f"names the label {key}, which the new pods do not have", fix)


def _note(source: LegacySource, path: str, key: str, fidelity: Fidelity, message: str, fix: str = "") -> None:
    source.notes.append(FieldFinding.of(path, key, fidelity, message, fix))


def _named(draft: Draft) -> frozenset[str]:
    """Return the keys that the job or another object of the input names."""
    return draft.own_label_keys | draft.label_uses.keys()


def _index_label(part: Part) -> str:
    return JOB_INDEX_LABEL if part.replicas > 1 else COMPLETION_INDEX_LABEL


def _replace_index(part: Part, old: str, new: str) -> None:
    for every in (_ALL_LABELS, _ALL_ANNOTATIONS):
        part.template["spec"] = _with_field(part.pod, _field(old, every), _field(new, every))
    for name in _SELECTING:
        if name in part.pod:
            part.pod[name] = _with_key(part.pod[name], old, new)


def _field(key: str, every: str = _ALL_LABELS) -> str:
    return f"{every}['{key}']"


def _kinds(part: Part, key: str) -> tuple[str, ...]:
    """Return where a key is set: as an annotation alone if all that a pod reads of it is one."""
    fields = {text for _, text in texts_in(part.template) if key in _KEY.findall(text)}
    annotation = _field(key, _ALL_ANNOTATIONS)
    if annotation not in fields:
        return ("labels",)
    return ("annotations",) if fields == {annotation} else ("labels", "annotations")


def _with_field(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {key: new if inner == old else _with_field(inner, old, new) for key, inner in value.items()}
    return [_with_field(inner, old, new) for inner in value] if isinstance(value, list) else value


def _with_key(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {new if key == old else key: _with_key(inner, old, new) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_key(inner, old, new) for inner in value]
    return new if value == old else value


def _paths(draft: Draft, part: Part, key: str) -> list[str]:
    return [path for path, _ in _named_at(draft, part, key)]


def _named_at(draft: Draft, part: Part, key: str) -> list[tuple[str, bool]]:
    """Return where a template names a label, and whether a selector or a field reference does."""
    found = []
    written = draft.source.peek(part.path)
    # The new template has other variables before those of the job.
    template = written if isinstance(written, dict) and "spec" in written else part.template
    for path, text in texts_in(template):
        if key in _KEY.findall(text):
            fields = (_field(key), _field(key, _ALL_ANNOTATIONS))
            field = text in fields or (path[:1] == ("spec",) and path[1] in _SELECTING)
            found.append((dotted((*parts_of(part.path), *path)), field))
    return found
