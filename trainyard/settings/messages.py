"""Validation errors as findings, with path in the file, message and fix."""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from trainyard.checks.finding import Finding
from trainyard.settings.stack import StackSettings

CONFIG_NAMESPACE = "trainyard"
"""Namespace of the settings in a stack's configuration."""

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_*-]+")
_TYPES = {
    "tuple_type": ("must be a list", "write [a, b], or one - item a line"),
    "dict_type": ("must be a mapping", "write key: value lines"),
    "model_type": ("must be a mapping", "write key: value lines"),
    "string_type": ("must be text", "put it in quotes"),
    "int_type": ("must be a whole number", "write digits only"),
    "int_parsing": ("must be a whole number", "write digits only"),
    "int_from_float": ("must be a whole number", "write digits only"),
    "bool_type": ("must be true or false", "write true or false"),
    "bool_parsing": ("must be true or false", "write true or false"),
}


def findings_of(
    error: ValidationError, *, model: type[BaseModel] = StackSettings, namespace: str = CONFIG_NAMESPACE
) -> list[Finding]:
    """Return a finding for each validation error, in the order of the file's sections.

    Parameters
    ----------
    error
        Pydantic's validation error.
    model
        Validated model.
    namespace
        Prefix of the keys in the file; empty: none.
    """
    entries = error.errors()
    places = {entry["loc"][:length] for entry in entries for length in range(len(entry["loc"]))}
    # Pydantic also reports a list as too short if its only item is invalid.
    listed = (entry for entry in entries if entry["type"] != "too_short" or entry["loc"] not in places)
    return [finding for entry in listed for finding in _findings_of_entry(entry, model, f"{namespace}:".lstrip(":"))]


def member_type(annotation: Any, key: object) -> Any:
    """Return the type of a member of a settings type, or None if it does not exist.

    Parameters
    ----------
    annotation
        A model, a mapping, a list, or an optional or annotated one of these.
    key
        Alias of a field, key of a mapping, or index in a list.
    """
    for candidate in _candidates(annotation):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            for name, field in candidate.model_fields.items():
                if key in (field.alias, name):
                    return field.annotation
        elif get_origin(candidate) is dict:
            return get_args(candidate)[1]
        elif get_origin(candidate) is tuple and isinstance(key, int):
            return get_args(candidate)[0]
    return None


def _candidates(annotation: Any) -> Iterator[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _candidates(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for argument in get_args(annotation):
            yield from _candidates(argument)
    else:
        yield annotation


def _findings_of_entry(entry: Any, model: type[BaseModel], prefix: str) -> Iterator[Finding]:
    kind = entry["type"]
    if kind == "references":
        for finding in entry["ctx"]["findings"]:
            yield Finding(f"{prefix}{finding.path}", finding.message, finding.fix, finding.rule)
        return
    location = _location(entry["loc"], model)
    path = _path(location, prefix)
    value = entry.get("input")
    shown = "" if isinstance(value, dict | list | BaseModel) or value is None else f" (value: {value!r})"
    if kind == "setting":
        yield Finding(path, entry["ctx"]["message"], entry["ctx"]["fix"])
    elif kind == "extra_forbidden":
        yield Finding(path, "unknown setting", _suggestion(location, model))
    elif kind == "missing":
        yield Finding(path, "required setting is missing", "add it")
    elif kind in _TYPES:
        message, fix = _TYPES[kind]
        yield Finding(path, f"{message}{shown}", fix)
    elif kind in ("enum", "literal_error"):
        expected = entry["ctx"]["expected"].replace("'", "").replace("True", "true")
        yield Finding(path, f"must be {expected}{shown}", f"use {expected}")
    else:
        message = entry["msg"].removeprefix("Value error, ").replace("Input should", "should")
        yield Finding(path, f"{message}{shown}", "see docs/reference/settings.md")


def _location(parts: Sequence[str | int], model: type[BaseModel]) -> list[str | int]:
    """Remove the parts that Pydantic adds: union branches and the marker of mapping keys."""
    location: list[str | int] = []
    annotation: Any = model
    for position, part in enumerate(parts):
        last = position == len(parts) - 1
        inner = member_type(annotation, part) if annotation is not None else None
        if part == "[key]" or (inner is None and not last) or (inner is None and _is_leaf(annotation)):
            continue
        location.append(part)
        annotation = inner
    return location


def _is_leaf(annotation: Any) -> bool:
    return not any(isinstance(each, type) and issubclass(each, BaseModel) for each in _candidates(annotation))


def _path(location: Sequence[str | int], prefix: str) -> str:
    text = ""
    for part in location:
        if isinstance(part, int) or not _PLAIN_KEY.fullmatch(part):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return f"{prefix}{text}" if text else ""


def _suggestion(location: Sequence[str | int], within: type[BaseModel]) -> str:
    model: Any = within
    for part in location[:-1]:
        model = member_type(model, part)
    names = [name for each in _candidates(model) for name in _field_names(each)]
    close = difflib.get_close_matches(str(location[-1]), names, n=1)
    return f"did you mean {close[0]}?" if close else f"known settings here: {', '.join(names)}"


def _field_names(model: Any) -> Iterator[str]:
    fields: Mapping[str, Any] = getattr(model, "model_fields", {})
    for name, field in fields.items():
        yield field.alias or name
