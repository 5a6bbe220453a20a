"""API server validation beyond types: defaults, CEL rules, list keys, times and immutability.

Compiled from the schemas of the CRDs, without the parts embedded from JobSet's CRD, which
:mod:`trainyard.api.embedded_verdicts` validates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from trainyard.api.date_time import is_date_time
from trainyard.api.kubernetes_model import Body, KubernetesModel
from trainyard.api.schema import structural_schema
from trainyard.api.shape_rule import IMMUTABLE, ShapeRule, rule_of
from trainyard.checks.finding import Finding

_ABSENT: Final = object()
_LARGEST_WHOLE: Final = 2.0**53
"""Whole numbers below are integers for the API server, however they were submitted."""
_ROOT: Final = "metadata.name"
"""Path of rules of the whole object, all of which check the name."""


def decoded(model: type[KubernetesModel], body: Body) -> Body:
    """Return a copy of an object as decoded by the API server: without nulls, with the defaults of its schema.

    Malformed values are returned unchanged.
    """
    result: Body = _decoded(_compiled(model), body)
    return result


def violations(model: type[KubernetesModel], body: Body, old: Body | None = None) -> Iterator[Finding]:
    """Yield the violations that the API server would reject, apart from types and bounds.

    Parameters
    ----------
    model
        The model of the object.
    body
        An object that :func:`trainyard.api.parse` accepts.
    old
        The stored object, on an update. As in the API server, immutable fields may still be added and removed.
    """
    before = _ABSENT if old is None else decoded(model, old)
    yield from _violations(_compiled(model), decoded(model, body), before, "")


@dataclass(frozen=True)
class _Node:
    rules: tuple[ShapeRule, ...] = ()
    immutable: bool = False
    least: int = 0
    default: Any = _ABSENT
    fields: Mapping[str, _Node] = field(default_factory=dict)
    item: _Node | None = None
    key: str | None = None
    distinct: bool = False
    time: bool = False


class _EmptyParts:
    """Placeholder of JobSet's CRD, whose parts are validated elsewhere."""

    def part(self, name: str) -> Body:
        return {}


@cache
def _compiled(model: type[KubernetesModel]) -> _Node:
    return _node(structural_schema(model, _EmptyParts()))


def _node(schema: Mapping[str, Any]) -> _Node:
    found = [rule_of(entry) for entry in schema.get("x-kubernetes-validations", ())]
    items = schema.get("items")
    kind = schema.get("x-kubernetes-list-type")
    return _Node(
        rules=tuple(rule for rule in found if rule.holds),
        immutable=IMMUTABLE in found,
        least=schema.get("minProperties", 0),
        default=schema.get("default", _ABSENT),
        fields={name: _node(inner) for name, inner in schema.get("properties", {}).items()},
        item=_node(items) if isinstance(items, dict) else None,
        key=schema["x-kubernetes-list-map-keys"][0] if kind == "map" else None,
        distinct=kind == "set",
        time=schema.get("format") == "date-time",
    )


def _decoded(node: _Node, value: Any) -> Any:
    if isinstance(value, dict):
        kept = {
            name: _decoded(node.fields.get(name, _PLAIN), inner) for name, inner in value.items() if inner is not None
        }
        missing = {
            name: inner.default
            for name, inner in node.fields.items()
            if name not in kept and inner.default is not _ABSENT
        }
        return {**kept, **missing}
    if isinstance(value, list):
        return [_decoded(node.item or _PLAIN, item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_WHOLE:
        return int(value)
    return value


_PLAIN: Final = _Node()


def _violations(node: _Node, value: Any, old: Any, path: str) -> Iterator[Finding]:
    for rule in node.rules:
        if rule.holds and not rule.holds(value):
            yield Finding(path or _ROOT, rule.text, rule.fix, rule.id)
    if node.immutable and old is not _ABSENT and old != value:
        yield Finding(path, IMMUTABLE.text, IMMUTABLE.fix)
        return
    if isinstance(value, dict):
        if len(value.keys() & node.fields.keys()) < node.least:
            yield Finding(path, f"should have at least {node.least} properties", "fill it in or leave it out")
        before = old if isinstance(old, dict) else {}
        for name, inner in node.fields.items():
            if name in value:
                label = f"{path}.{name}" if path else name
                yield from _violations(inner, value[name], before.get(name, _ABSENT), label)
    elif isinstance(value, list):
        yield from _list_violations(node, value, old, path)
    elif node.time and isinstance(value, str) and old != value and not is_date_time(value):
        yield Finding(path, f"{value!r} is not a time", "write it like 2026-01-31T12:00:00Z")


def _list_violations(node: _Node, value: list[Any], old: Any, path: str) -> Iterator[Finding]:
    before = {_key(node, item): item for item in old} if isinstance(old, list) else {}
    seen: set[str] = set()
    for index, item in enumerate(value):
        key = _key(node, item)
        if key is not None:
            if key in seen:
                yield Finding(f"{path}[{index}]", f"Duplicate value: {key!r}", "keep one of them")
            seen.add(key)
        if node.item:
            counterpart = before.get(key, _ABSENT) if key is not None else _ABSENT
            yield from _violations(node.item, item, counterpart, f"{path}[{index}]")


def _key(node: _Node, item: Any) -> str | None:
    """Return the key of an item, or None if its list allows duplicates."""
    if node.key and isinstance(item, dict):
        item = item.get(node.key)
    return item if (node.key or node.distinct) and isinstance(item, str) else None
