"""Validator of structural schemas, with the messages that people read.

Three kinds of schemas share it: the schemas of this project's kinds, whose types and bounds the models check first;
JobSet's schema, embedded in them; and the schemas of fields that are checked before an object is rendered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from trainyard import quantity
from trainyard.api.date_time import is_date_time
from trainyard.api.kubernetes_model import Body
from trainyard.api.shape_rule import ShapeRule, rule_of
from trainyard.checks.finding import Finding

ABSENT: Final = object()
"""Stands for a value that does not exist."""
PART: Final = "x-trainyard-part"
"""Key of schemas whose objects are validated on their own."""

_ROOT: Final = "metadata.name"
"""Path of rules of the whole object, all of which check the name."""
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
"""Whole numbers below are integers for the API server, however they were submitted."""
_BESIDE_MODELS: Final = frozenset(
    {
        "default",
        "format",
        "items",
        "minProperties",
        "properties",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-validations",
    }
)
"""Keys of schemas that the models do not check."""


@dataclass(frozen=True)
class SchemaNode:
    """One node of a compiled schema.

    Parameters
    ----------
    kind
        Type of the value. It is empty if the models have checked types and bounds; unknown fields are then kept.
    part
        Whether the node is marked with `PART`.
    any_amount
        Whether numbers and text are both accepted.
    amount
        Whether the value is a quantity that schedulers can count.
    """

    kind: str = ""
    part: bool = False
    format: str = ""
    any_amount: bool = False
    amount: bool = False
    pattern: re.Pattern[str] | None = None
    enum: tuple[str, ...] = ()
    least: int | None = None
    min_properties: int = 0
    most_items: int | None = None
    required: tuple[str, ...] = ()
    rules: tuple[ShapeRule, ...] = ()
    default: Any = ABSENT
    fields: Mapping[str, SchemaNode] = field(default_factory=dict)
    values: SchemaNode | None = None
    item: SchemaNode | None = None
    keys: tuple[str, ...] = ()
    distinct: bool = False

    @property
    def typed(self) -> bool:
        """Whether types and bounds are checked."""
        return self.any_amount or bool(self.kind)


_PLAIN: Final = SchemaNode()


def node_of(schema: Mapping[str, Any], *, typed: bool = True) -> SchemaNode:
    """Return a compiled schema, with its types and bounds unless the models check them."""
    if not typed:
        schema = {key: value for key, value in schema.items() if key in _BESIDE_MODELS}
    items, values, pattern = schema.get("items"), schema.get("additionalProperties"), schema.get("pattern")
    return SchemaNode(
        kind=schema.get("type", ""),
        part=bool(schema.get(PART)),
        format=schema.get("format", ""),
        any_amount=bool(schema.get("x-kubernetes-int-or-string")),
        pattern=re.compile(f"{pattern.removesuffix('$')}\\Z") if pattern else None,
        enum=tuple(schema.get("enum", ())),
        least=schema.get("minimum"),
        min_properties=schema.get("minProperties", 0),
        most_items=schema.get("maxItems"),
        required=tuple(schema.get("required", ())),
        rules=tuple(rule_of(entry) for entry in schema.get("x-kubernetes-validations", ())),
        default=schema.get("default", ABSENT),
        fields={name: node_of(inner, typed=typed) for name, inner in schema.get("properties", {}).items()},
        values=node_of(values) if isinstance(values, dict) else None,
        item=node_of(items, typed=typed) if isinstance(items, dict) else None,
        keys=tuple(schema.get("x-kubernetes-list-map-keys", ())),
        distinct=schema.get("x-kubernetes-list-type") == "set",
    )


def decoded_value(node: SchemaNode, value: Any) -> Any:
    """Return a value as decoded by the API server: without nulls, with the defaults of its schema."""
    if isinstance(value, dict):
        inner = {name: node.fields.get(name) or node.values or (None if node.typed else _PLAIN) for name in value}
        kept = {
            name: decoded_value(below, value[name])
            for name, below in inner.items()
            if below is not None and value[name] is not None
        }
        missing = {
            name: below.default
            for name, below in node.fields.items()
            if name not in kept and below.default is not ABSENT
        }
        return {**kept, **missing}
    if isinstance(value, list):
        return [decoded_value(node.item or _PLAIN, item) for item in value]
    if not node.typed and isinstance(value, float) and _is_whole(value):
        return int(value)
    return value


def parts_of(node: SchemaNode, value: Any, old: Any, path: str) -> Iterator[tuple[SchemaNode, Any, Any, str]]:
    """Yield the parts of a value that are marked with `PART`: schema, value, stored value and path."""
    if node.part:
        yield node, value, old, path
    elif isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for name, inner in node.fields.items():
            if value.get(name) is not None:
                yield from parts_of(inner, value[name], before.get(name, ABSENT), _below(path, name))
    elif isinstance(value, list) and node.item is not None:
        stored = _stored(node, old)
        for index, item in enumerate(value):
            yield from parts_of(node.item, item, stored.get(_key(node, item), ABSENT), f"{path}[{index}]")


def schema_violations(value: Any, node: SchemaNode, path: str, old: Any = ABSENT) -> Iterator[Finding]:
    """Yield the violations of a schema.

    Parameters
    ----------
    value
        A decoded value.
    node
        The compiled schema.
    path
        Path of the value in findings.
    old
        The stored value, on an update: as in the API server, unchanged parts are not validated again.
    """
    if old is not ABSENT and old == value:
        return
    if node.amount:
        yield from _amount_violations(value, path)
        return
    if node.typed and not _has_type(node, value):
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
        if old is not ABSENT if rule.holds is None else not _holds(rule, value):
            yield Finding(path or _ROOT, rule.text, rule.fix, rule.id)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _holds(rule: ShapeRule, value: Any) -> bool:
    """Return whether a rule of one object holds; parts of the wrong type have findings of their own."""
    try:
        return rule.holds is None or rule.holds(value)
    except (AttributeError, TypeError):
        return True


def _has_type(node: SchemaNode, value: Any) -> bool:
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


def _expected(node: SchemaNode) -> str:
    return "a whole number or text" if node.any_amount else _NAMES[node.kind]


def _object_violations(node: SchemaNode, value: Body, old: Any, path: str) -> Iterator[Finding]:
    if len(value.keys() & node.fields.keys()) < node.min_properties:
        yield Finding(path, f"should have at least {node.min_properties} properties", "fill it in or leave it out")
    for name in node.required:
        if name not in value:
            yield Finding(_below(path, name), "Field required", "add it")
    before = old if isinstance(old, dict) else {}
    for name, entry in value.items():
        inner = node.fields.get(name)
        if inner is not None:
            yield from schema_violations(entry, inner, _below(path, name), before.get(name, ABSENT))
        elif node.values is not None:
            if node.values.kind == "string" and not (isinstance(name, str) and isinstance(entry, str)):
                yield Finding(f"{path}[{name}]", f"must be text, but is {_shown(entry)}", "put it in quotes")
            else:
                yield from schema_violations(entry, node.values, f"{path}[{name}]", before.get(name, ABSENT))


def _list_violations(node: SchemaNode, value: list[Any], old: Any, path: str) -> Iterator[Finding]:
    if node.most_items is not None and len(value) > node.most_items:
        yield Finding(path, f"has {len(value)} items; at most {node.most_items} are supported", "remove some")
    stored = _stored(node, old)
    seen: set[tuple[Any, ...]] = set()
    for index, item in enumerate(value):
        key = _key(node, item)
        if key is not None:
            if key in seen:
                shown = ", ".join(map(repr, key))
                message = f"{shown} is a duplicate" if node.typed else f"Duplicate value: {shown}"
                yield Finding(f"{path}[{index}]", message, "keep one of them")
            seen.add(key)
        if node.item is not None:
            yield from schema_violations(item, node.item, f"{path}[{index}]", stored.get(key, ABSENT))


def _stored(node: SchemaNode, old: Any) -> dict[tuple[Any, ...] | None, Any]:
    """Return the stored items of a list by key."""
    if not isinstance(old, list):
        return {}
    return {key: item for item in old if (key := _key(node, item)) is not None}


def _key(node: SchemaNode, item: Any) -> tuple[Any, ...] | None:
    """Return the key of a list item, or None if its list allows duplicates."""
    if node.keys and isinstance(item, dict):
        found = tuple(item.get(name) for name in node.keys)
        return found if all(isinstance(part, str | int) for part in found) else None
    return (item,) if node.distinct and isinstance(item, str) else None


def _scalar_violations(node: SchemaNode, value: Any, path: str) -> Iterator[Finding]:
    if isinstance(value, str):
        if node.enum and value not in node.enum:
            yield Finding(path, f"{value!r} is not supported", f"use one of {', '.join(node.enum)}")
        if node.format == "date-time" and not is_date_time(value):
            yield Finding(path, f"{value!r} is not a time", "write it like 2026-01-31T12:00:00Z")
        if node.pattern is not None and not node.pattern.match(value):
            yield Finding(path, f"{value!r} is not a quantity (such as 500m, 2, 1.5Gi)", "use a Kubernetes quantity")
    elif node.typed and not isinstance(value, bool):
        bits = _BITS.get(node.format)
        if bits is not None and not -(2**bits) <= value < 2**bits:
            yield Finding(path, f"{value} is not a {bits + 1}-bit integer", "use a smaller number")
        if node.least is not None and value < node.least:
            yield Finding(path, f"{value} is less than {node.least}", f"use {node.least} or more")


def _amount_violations(value: Any, path: str) -> Iterator[Finding]:
    try:
        parsed = quantity.parse(value)
    except ValueError as error:
        yield Finding(path, str(error), "use a Kubernetes quantity")
        return
    if parsed.numerator < 0:
        yield Finding(path, f"{value!r} is negative", "use zero or more")
    elif parsed > quantity.LARGEST:
        yield Finding(path, f"{value!r} is more than 8P", "use a smaller amount")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."
