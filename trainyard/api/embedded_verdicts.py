"""API server validation of the parts of an object whose schema is JobSet's: types, bounds, list keys and rules.

The API server validates them with the CRDs, which embed the schema of the pinned JobSet. Manifests in files are
validated with the recorded schema (:mod:`trainyard.api.job_set_schema`), so that files and cluster have one verdict.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from trainyard.api.date_time import is_date_time
from trainyard.api.job_set_schema import RecordedParts
from trainyard.api.kubernetes_model import Body, KubernetesModel
from trainyard.api.schema import structural_schema
from trainyard.api.shape_rule import ShapeRule, rule_of
from trainyard.checks.finding import Finding

_ABSENT: Final = object()
_PART: Final = "x-trainyard-part"
_NAMES: Final = {
    "string": "text",
    "integer": "a whole number",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
}
_BITS: Final = {"int32": 31, "int64": 63}
_LONGEST_SHOWN: Final = 60
_LARGEST_EXACT: Final = 2.0**53


def embedded_violations(model: type[KubernetesModel], body: Body, old: Body | None = None) -> Iterator[Finding]:
    """Yield the violations of JobSet's schema in an object.

    Parameters
    ----------
    model
        The model of the object.
    body
        An object that :func:`trainyard.api.parse` accepts.
    old
        The stored object, on an update: as in the API server, unchanged parts are not validated again.
    """
    yield from _parts(_compiled(model), body, _ABSENT if old is None else old, "")


@dataclass(frozen=True)
class _Node:
    """One schema node.

    Parameters
    ----------
    part
        Whether the node is the root of an embedded part.
    has_parts
        Whether the node or a node below it is.
    """

    part: bool = False
    has_parts: bool = False
    kind: str = ""
    format: str = ""
    any_amount: bool = False
    pattern: re.Pattern[str] | None = None
    enum: tuple[str, ...] = ()
    least: int | None = None
    most_items: int | None = None
    required: tuple[str, ...] = ()
    rules: tuple[ShapeRule, ...] = ()
    default: Any = _ABSENT
    fields: Mapping[str, _Node] = field(default_factory=dict)
    values: _Node | None = None
    item: _Node | None = None
    keys: tuple[str, ...] = ()
    distinct: bool = False


class _MarkedParts(RecordedParts):
    def part(self, name: str) -> Body:
        return {**super().part(name), _PART: True}


@cache
def _compiled(model: type[KubernetesModel]) -> _Node:
    return _node(structural_schema(model, _MarkedParts()))


def _node(schema: Mapping[str, Any]) -> _Node:
    items, values = schema.get("items"), schema.get("additionalProperties")
    fields = {name: _node(inner) for name, inner in schema.get("properties", {}).items()}
    item = _node(items) if isinstance(items, dict) else None
    pattern = schema.get("pattern")
    part = bool(schema.get(_PART))
    return _Node(
        part=part,
        has_parts=part or any(inner.has_parts for inner in fields.values()) or bool(item and item.has_parts),
        kind=schema.get("type", ""),
        format=schema.get("format", ""),
        any_amount=bool(schema.get("x-kubernetes-int-or-string")),
        pattern=re.compile(f"{pattern.removesuffix('$')}\\Z") if pattern else None,
        enum=tuple(schema.get("enum", ())),
        least=schema.get("minimum"),
        most_items=schema.get("maxItems"),
        required=tuple(schema.get("required", ())),
        rules=tuple(rule_of(entry) for entry in schema.get("x-kubernetes-validations", ())),
        default=schema.get("default", _ABSENT),
        fields=fields,
        values=_node(values) if isinstance(values, dict) else None,
        item=item,
        keys=tuple(schema.get("x-kubernetes-list-map-keys", ())),
        distinct=schema.get("x-kubernetes-list-type") == "set",
    )


def _parts(node: _Node, value: Any, old: Any, path: str) -> Iterator[Finding]:
    """Yield the violations in the embedded parts of a value."""
    if node.part:
        yield from _violations(node, _decoded(node, value), old if old is _ABSENT else _decoded(node, old), path)
    elif isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for name, inner in node.fields.items():
            if inner.has_parts and value.get(name) is not None:
                label = f"{path}.{name}" if path else name
                yield from _parts(inner, value[name], before.get(name, _ABSENT), label)
    elif isinstance(value, list) and node.item is not None:
        stored = {_key(node, item): item for item in old} if isinstance(old, list) and node.keys else {}
        for index, item in enumerate(value):
            yield from _parts(node.item, item, stored.get(_key(node, item), _ABSENT), f"{path}[{index}]")


def _decoded(node: _Node, value: Any) -> Any:
    """Return a value without the nulls that the API server drops, and with the defaults of its schema."""
    if isinstance(value, dict):
        inner = {name: node.fields.get(name) or node.values for name in value}
        kept = {
            name: _decoded(inner[name] or _UNKNOWN, entry)
            for name, entry in value.items()
            if entry is not None and inner[name] is not None
        }
        missing = {
            name: below.default
            for name, below in node.fields.items()
            if name not in kept and below.default is not _ABSENT
        }
        return {**kept, **missing}
    if isinstance(value, list):
        return [_decoded(node.item or _UNKNOWN, item) for item in value]
    return value


_UNKNOWN: Final = _Node()


def _violations(node: _Node, value: Any, old: Any, path: str) -> Iterator[Finding]:
    if old is not _ABSENT and old == value:
        return
    if not _typed(node, value):
        fix = f'quote it: "{value}"' if node.any_amount and isinstance(value, float) else "correct the type"
        yield Finding(path, f"must be {_expected(node)}, but is {_shown(value)}", fix)
        return
    match value:
        case dict():
            yield from _object_violations(node, value, old, path)
        case list():
            yield from _list_violations(node, value, old, path)
        case _:
            yield from _scalar_violations(node, value, path)
    for rule in node.rules:
        if rule.holds is None:
            if old is not _ABSENT:
                yield Finding(path, rule.text, rule.fix)
        elif not _holds(rule, value):
            yield Finding(path, rule.text, rule.fix)


def _holds(rule: ShapeRule, value: Any) -> bool:
    """Return whether a rule of one object holds; parts of the wrong type have findings of their own."""
    try:
        return rule.holds is None or rule.holds(value)
    except (AttributeError, TypeError):
        return True


def _typed(node: _Node, value: Any) -> bool:
    if isinstance(value, bool):
        return node.kind == "boolean"
    if isinstance(value, int | float):
        return (node.any_amount or node.kind == "integer") and _is_whole(value)
    if isinstance(value, str):
        return node.any_amount or node.kind == "string"
    if isinstance(value, dict):
        return node.kind == "object"
    return isinstance(value, list) and node.kind == "array"


def _is_whole(value: float) -> bool:
    """Return whether the API server takes a number for an integer: int64, or a float that JSON represents exactly."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return value.is_integer() and abs(value) < _LARGEST_EXACT


def _expected(node: _Node) -> str:
    return "a whole number or text" if node.any_amount else _NAMES[node.kind]


def _object_violations(node: _Node, value: Body, old: Any, path: str) -> Iterator[Finding]:
    for name in node.required:
        if name not in value:
            yield Finding(f"{path}.{name}", "Field required", "add it")
    before = old if isinstance(old, dict) else {}
    for name, entry in value.items():
        inner = node.fields.get(name)
        if inner is not None:
            yield from _violations(inner, entry, before.get(name, _ABSENT), f"{path}.{name}")
        elif node.values is not None:
            yield from _violations(node.values, entry, before.get(name, _ABSENT), f"{path}[{name}]")


def _list_violations(node: _Node, value: list[Any], old: Any, path: str) -> Iterator[Finding]:
    if node.most_items is not None and len(value) > node.most_items:
        yield Finding(path, f"has {len(value)} items; at most {node.most_items} are supported", "remove some")
    stored = {_key(node, item): item for item in old} if isinstance(old, list) and node.keys else {}
    seen: set[tuple[Any, ...]] = set()
    for index, item in enumerate(value):
        key = _key(node, item)
        if key is not None and key in seen:
            shown = ", ".join(map(repr, key))
            yield Finding(f"{path}[{index}]", f"{shown} is a duplicate", "keep one of them")
        if key is not None:
            seen.add(key)
        if node.item is not None:
            before = stored.get(key, _ABSENT) if key is not None else _ABSENT
            yield from _violations(node.item, item, before, f"{path}[{index}]")


def _key(node: _Node, item: Any) -> tuple[Any, ...] | None:
    """Return the key of a list item; None: its list allows duplicates."""
    if node.keys and isinstance(item, dict):
        found = tuple(item.get(name) for name in node.keys)
        return found if all(isinstance(part, str | int) for part in found) else None
    return (item,) if node.distinct and isinstance(item, str) else None


def _scalar_violations(node: _Node, value: Any, path: str) -> Iterator[Finding]:
    if isinstance(value, str):
        if node.enum and value not in node.enum:
            yield Finding(path, f"{value!r} is not supported", f"use one of {', '.join(node.enum)}")
        if node.format == "date-time" and not is_date_time(value):
            yield Finding(path, f"{value!r} is not a time", "write it like 2026-01-31T12:00:00Z")
        if node.pattern is not None and not node.pattern.match(value):
            yield Finding(path, f"{value!r} is not a quantity (such as 500m, 2, 1.5Gi)", "use a Kubernetes quantity")
    elif not isinstance(value, bool):
        bits = _BITS.get(node.format)
        if bits is not None and not -(2**bits) <= value < 2**bits:
            yield Finding(path, f"{value} is not a {bits + 1}-bit integer", "use a smaller number")
        if node.least is not None and value < node.least:
            yield Finding(path, f"{value} is less than {node.least}", f"use {node.least} or more")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."
