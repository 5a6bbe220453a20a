"""Generate docs/reference/settings.md from the models: ``make generate``."""

from __future__ import annotations

import datetime
import inspect
import json
import types
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from trainyard.settings.messages import CONFIG_NAMESPACE
from trainyard.settings.settings_model import Choices, Described
from trainyard.settings.stack import StackSettings

_INTRODUCTION = f"""\
# Settings

All settings of a stack, in `stacks/Pulumi.<stack>.yaml` under `config:`. Each section below is one key,
`{CONFIG_NAMESPACE}:<section>`. A key that is not listed here is an error.

Generated from the models by `python -m tools.reference.settings`.
"""


def reference() -> str:
    """Return the settings reference as Markdown."""
    sections = [_INTRODUCTION]
    for name, field in StackSettings.model_fields.items():
        sections.append("\n".join(_section(field.alias or name, field)))
    return "\n".join(sections)


def _section(name: str, field: FieldInfo) -> Iterator[str]:
    model = _model(field.annotation)
    yield f"## {CONFIG_NAMESPACE}:{name}"
    yield ""
    yield f"{field.description}."
    yield ""
    yield "| key | type | default | meaning |"
    yield "|---|---|---|---|"
    if model is None:
        yield _row(name, field)
    else:
        start = f"{name}.<name>" if get_origin(field.annotation) is dict else name
        yield from _rows(start, model, {})
    yield ""


def _rows(path: str, model: type[BaseModel], described: dict[type[BaseModel], str]) -> Iterator[str]:
    """Yield a row for each key; the keys of a model that occurs again are those of its first path."""
    described[model] = path
    for name, field in model.model_fields.items():
        key = f"{path}.{field.alias or name}"
        inner = _model(field.annotation)
        first = described.get(inner) if inner is not None else None
        yield _row(key, field, f"; keys as for `{first}`" if first is not None else "")
        if inner is not None and first is None:
            yield from _rows(key + _member(field.annotation), inner, described)


def _member(annotation: Any) -> str:
    """Return the notation for a member of a list or mapping; empty for a section."""
    origins = {get_origin(each) for each in _flat(annotation) if _model(each) is not None}
    return "[]" if tuple in origins else ".<name>" if dict in origins else ""


def _row(key: str, field: FieldInfo, more: str = "") -> str:
    return f"| `{key}` | {_type(field.annotation, field)} | {_default(field)} | {_description(field)}{more} |"


def _description(field: FieldInfo) -> str | None:
    return next((each.text() for each in field.metadata if isinstance(each, Described)), field.description)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        return ""
    if value is None:
        return "none"
    return f"`{json.dumps(value, default=lambda model: model.model_dump(by_alias=True, exclude_defaults=True))}`"


def _flat(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) is Annotated:
        yield from _flat(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, types.UnionType):
        for argument in get_args(annotation):
            yield from _flat(argument)
    else:
        yield annotation


def _model(annotation: Any) -> type[BaseModel] | None:
    for each in _flat(annotation):
        if isinstance(each, type) and issubclass(each, BaseModel):
            return each
        for argument in get_args(each):
            inner = _model(argument)
            if inner is not None:
                return inner
    return None


def _type(annotation: Any, field: FieldInfo | None = None) -> str:
    chosen = [each.names() for each in field.metadata if isinstance(each, Choices)] if field is not None else []
    if chosen:
        return " or ".join(f"`{name}`" for names in chosen for name in names)
    names = [name for each in _flat(annotation) if (name := _name(each))]
    bounds = [_bound(constraint) for constraint in field.metadata] if field is not None else []
    return ", ".join([" or ".join(dict.fromkeys(names)), *(bound for bound in bounds if bound)])


def _name(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is type(None):
        return ""
    if origin is dict:
        return f"mapping of {_type(arguments[1])}"
    if origin is tuple:
        return f"list of {_type(arguments[0])}"
    if origin is Literal:
        return " or ".join(f"`{json.dumps(value) if not isinstance(value, str) else value}`" for value in arguments)
    if inspect.isclass(annotation) and issubclass(annotation, StrEnum):
        return " or ".join(f"`{member.value}`" for member in annotation)
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return "section"
    return {str: "text", int: "number", bool: "true or false", datetime.date: "date"}.get(annotation, "any value")


def _bound(constraint: Any) -> str:
    for attribute, word in (
        ("ge", "at least"),
        ("le", "at most"),
        ("min_length", "at least"),
        ("max_length", "at most"),
    ):
        value = getattr(constraint, attribute, None)
        if value is not None:
            return f"{word} {value}"
    return ""


if __name__ == "__main__":
    print(reference(), end="")
