"""Values as Go clients write them: the types of upstream's API, and how their fields are encoded.

A client that is compiled with upstream's types reads an object, changes a part and writes the whole back. What it does
not change comes back in its own notation: quantities as text, times in UTC, empty values left out, structs that are not
pointers always there, unknown fields gone. ``go_types.json`` has the types; `tests.compatibility.typed_clients`
generates it from upstream's modules.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from trainyard import quantity
from trainyard.api.date_time import is_date_time
from trainyard.api.go_quantity import canonical
from trainyard.api.kubernetes_model import Body

JOB_SPEC: Final = "trainer.TrainJobSpec"
"""Type of a TrainJob's spec."""
RUNTIME_SPEC: Final = "trainer.TrainingRuntimeSpec"
"""Type of a runtime's spec."""
JOB_SET_SPEC: Final = "jobset.JobSetSpec"
"""Type of a JobSet's spec."""
RELEASES: Final = ("2.1", "2.3")
"""Releases whose clients are known; those of v2.0 and v2.2 drop fields they do not know."""

_ABSENT: Final = object()
_EMPTY: Final[Mapping[str, Any]] = {"string": "", "int": 0, "bool": False}
_MEANINGFUL: Final = frozenset({"trainer.Trainer.command", "trainer.Trainer.args"})
"""Lists that have a meaning when they are empty: they remove what the runtime sets."""
_NAMES: Final = ("manager", "name")


@dataclass(frozen=True)
class _Field:
    """How a field is encoded.

    Parameters
    ----------
    type
        Notation: ``*`` a pointer, ``[]`` a list, ``{}`` a map, a scalar, or the name of a struct.
    omitted
        Whether an empty value is left out.
    kept
        Whether an empty value is kept in stored objects: a default, a bound or its meaning would change without it.
    releases
        Releases that have the field.
    """

    type: str
    omitted: bool
    kept: bool
    releases: frozenset[str]


def stored_form(kind: str, value: Any) -> Any:
    """Return a value as it is stored: in the notation of Go clients, without empty values.

    Only what such a client would write the same way is changed. Malformed values and unknown fields are kept.

    Parameters
    ----------
    kind
        Notation of the type.
    value
        JSON data; not modified.
    """
    return _rewritten(kind, value, exact=True)


def comparable(kind: str, value: Any) -> Any:
    """Return a value that is equal to that of another one with the same meaning for a Go client."""
    return _rewritten(kind, value, exact=False)


def with_stored_values(kind: str, value: Any, old: Any) -> Any:
    """Return the stored form of an updated value; what the client did not change is as in the old value.

    Parameters
    ----------
    kind
        Notation of the type.
    value, old
        JSON data after and before the update; not modified.
    """
    if value == old:
        return old
    kind = kind.lstrip("*")
    if kind.startswith("[]") and isinstance(value, list):
        return [with_stored_values(kind[2:], item, before) for item, before in _pairs(value, old)]
    if not isinstance(value, dict) or not isinstance(old, dict):
        return old if comparable(kind, value) == comparable(kind, old) else stored_form(kind, value)
    if kind.startswith("{}"):
        return {name: with_stored_values(kind[2:], item, old.get(name, _ABSENT)) for name, item in value.items()}
    return _updated_struct(kind, value, old)


def known(kind: str, value: Any, release: str) -> Any:
    """Return what is left of a value when a client of a release has read it."""
    kind = kind.lstrip("*")
    if isinstance(value, list) and kind.startswith("[]"):
        return [known(kind[2:], item, release) for item in value]
    if not isinstance(value, dict):
        return value
    if kind.startswith("{}"):
        return {name: known(kind[2:], item, release) for name, item in value.items()}
    fields = _types().get(kind)
    if fields is None:
        return value
    return {
        name: known(fields[name].type, item, release)
        for name, item in value.items()
        if name in fields and release in fields[name].releases
    }


def _updated_struct(kind: str, value: Body, old: Body) -> Body:
    fields = _types().get(kind, {})
    result: Body = {}
    for name, item in value.items():
        field, before = fields.get(name), old.get(name, _ABSENT)
        if field is None:
            result[name] = item
        elif before is not _ABSENT:
            written = with_stored_values(field.type, item, before)
            if written == before or field.kept or not _leaves_out(field, written):
                result[name] = written
        elif not _without_meaning(field, comparable(field.type, item)):
            result[name] = stored_form(field.type, item)
    for name, before in old.items():
        field = fields.get(name)
        if name not in value and field is not None and _without_meaning(field, comparable(field.type, before)):
            result[name] = before
    return result


def _pairs(value: list[Any], old: Any) -> list[tuple[Any, Any]]:
    """Return each item with the old one of the same name, or of the same position where items have no names."""
    before = old if isinstance(old, list) else []
    named = {name: item for item in before if (name := _name(item)) is not None}
    return [(item, _counterpart(item, index, before, named)) for index, item in enumerate(value)]


def _counterpart(item: Any, index: int, before: list[Any], named: Mapping[str, Any]) -> Any:
    name, beside = _name(item), before[index] if index < len(before) else _ABSENT
    return beside if name == _name(beside) else named.get(name, _ABSENT) if name is not None else _ABSENT


def _name(item: Any) -> str | None:
    found = next((item[key] for key in _NAMES if key in item), None) if isinstance(item, dict) else None
    return found if isinstance(found, str) else None


def _rewritten(kind: str, value: Any, *, exact: bool) -> Any:
    kind = kind.lstrip("*")
    if isinstance(value, list) and kind.startswith("[]"):
        return [_rewritten(kind[2:], item, exact=exact) for item in value]
    if isinstance(value, dict):
        if kind.startswith("{}"):
            return {name: _rewritten(kind[2:], item, exact=exact) for name, item in value.items()}
        return _rewritten_struct(_types().get(kind), value, exact=exact)
    if kind == "quantity":
        return canonical(value) if exact else _amount(value)
    return _time(value) if kind == "time" else value


def _rewritten_struct(fields: Mapping[str, _Field] | None, value: Body, *, exact: bool) -> Body:
    if fields is None:
        return value
    result: Body = {}
    for name, item in value.items():
        field = fields.get(name)
        if field is None:
            result[name] = item
            continue
        written = _rewritten(field.type, item, exact=exact)
        dropped = _leaves_out(field, written) if exact else _without_meaning(field, written)
        if not dropped or (field.kept and item is not None):
            result[name] = written
    return result


def _leaves_out(field: _Field, value: Any) -> bool:
    """Return whether a Go client leaves a value out; a struct is always written."""
    if value is None or value is _ABSENT:
        return True
    plain = not field.type.startswith("*") and field.type not in _types()
    return field.omitted and plain and _is_empty(field.type, value)


def _without_meaning(field: _Field, value: Any) -> bool:
    """Return whether a value means the same to a Go client as its absence."""
    if field.type == "quantity" and field.omitted:
        return value is None or value == ("quantity", 0)
    inner = field.type in _types() and field.omitted and value == {}
    return inner or _leaves_out(field, value)


def _is_empty(kind: str, value: Any) -> bool:
    """Return whether a value is the empty one of its type; that of another type is an error, which the schema finds."""
    empty: Any = [] if kind.startswith("[]") else {} if kind.startswith("{}") else _EMPTY.get(kind)
    return type(value) is type(empty) and bool(value == empty)


def _amount(value: Any) -> Any:
    """Return a quantity as an exact number, so that equal amounts in other notations are equal."""
    try:
        return ("quantity", quantity.parse(value.strip() if isinstance(value, str) else value))
    except ValueError:
        return value


def _time(value: Any) -> Any:
    """Return a time in UTC with seconds, as metav1.Time; what is not an RFC 3339 time is returned unchanged."""
    if not isinstance(value, str) or not is_date_time(value) or value[10] != "T":
        return value
    try:
        time = datetime.datetime.fromisoformat(value)
        utc = time.astimezone(datetime.UTC) if time.tzinfo is not None else None
    except (ValueError, OverflowError):
        return value
    return value if utc is None else f"{utc.replace(microsecond=0, tzinfo=None).isoformat()}Z"


@cache
def _types() -> Mapping[str, Mapping[str, _Field]]:
    text = Path(__file__).with_name("go_types.json").read_text(encoding="utf-8")
    return {
        struct: {name: _field(f"{struct}.{name}", notation) for name, notation in fields.items()}
        for struct, fields in json.loads(text).items()
    }


def _field(path: str, notation: str) -> _Field:
    """Parse an entry: the type, ``?`` (left out when empty), ``!`` (kept when empty), then the releases if not all."""
    kind, _, releases = notation.partition(" ")
    kept = kind.endswith("!") or path in _MEANINGFUL
    kind = kind.removesuffix("!")
    known_by = frozenset(releases.split(",") if releases else RELEASES)
    return _Field(kind.removesuffix("?"), kind.endswith("?"), kept, known_by)
