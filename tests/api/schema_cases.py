"""Objects made from our schemas: for every bound one value just inside and one just outside, and so on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from tests.api.schemas import definitions, schema_of
from tools.reference.api import Field, fields
from trainyard.api import MODELS, KubernetesModel

NAMES = {"TenantPolicy": "tenant", "Platform": "platform"}
PREFIXES = {"storageUri": "hf://"}
"""How a text must begin that has a rule beside its bounds."""

RULED = {"spec.managedBy"}
"""Fields whose rule leaves no value that is as long as the bound allows."""

BITS = {"int32": 32, "int64": 64}
Body = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One object and what becomes of it."""

    path: str
    what: str
    body: Body
    accepted: bool

    def __str__(self) -> str:
        return f"{self.body['kind']} {self.path} {self.what}"


class Kind:
    """One of our kinds: its model, its schema as installed, and objects that are as small as they may be."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.definition = next(each for each in definitions() if each["spec"]["names"]["kind"] == kind)
        self.schema = schema_of(self.definition)
        spec = self.definition["spec"]
        self.api_version = f"{spec['group']}/{spec['versions'][0]['name']}"
        self.model: type[KubernetesModel] = MODELS[self.api_version, kind]
        namespace = "/namespaces/default" if spec["scope"] == "Namespaced" else ""
        self.address = f"/apis/{self.api_version}{namespace}/{spec['names']['plural']}"

    def fields(self, root: str = "spec") -> list[Field]:
        """Our own fields, with the schemas that the models give them."""
        return [field for field in fields(self.model) if re.split(r"[.\[]", field.path)[0] == root]

    def body(self, path: str, value: Any, name: str | None = None) -> Body:
        """Return an object with one value at a path and else only what is required."""
        start, _, rest = path.partition(".")
        content = self._placed(self.schema["properties"][start], start, tokens(rest), value)
        metadata = {"name": name or NAMES.get(self.kind, "a"), "namespace": "default"}
        if self.definition["spec"]["scope"] == "Cluster":
            del metadata["namespace"]
        body = {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, start: content}
        return body if start == "spec" else {**body, "spec": self.minimal(self.schema["properties"]["spec"], "spec")}

    def node(self, path: str) -> Body:
        """Return the installed schema of a field."""
        schema: Body = self.schema
        for token in tokens(path):
            schema = schema[token] if token in ("items", "additionalProperties") else schema["properties"][token]
        return schema

    def minimal(self, schema: Mapping[str, Any], path: str) -> Any:
        """Return the smallest value that fits a schema."""
        if "enum" in schema:
            return schema["enum"][0]
        if schema.get("x-kubernetes-int-or-string"):
            return 1
        match schema["type"]:
            case "object":
                return {name: self.minimal(schema["properties"][name], name) for name in schema.get("required", ())}
            case "array":
                return items(self, schema, path, schema.get("minItems", 0))
            case "integer":
                return schema.get("minimum", 1)
            case "boolean":
                return False
        if schema.get("format") == "date-time":
            return "2026-01-01T00:00:00Z"
        return text(path, max(schema.get("minLength", 0), 1))

    def _placed(self, schema: Mapping[str, Any], path: str, rest: list[str], value: Any) -> Any:
        if not rest:
            return value
        token, *further = rest
        if token == "items":
            first = self._placed(schema["items"], path, further, value)
            return [first, *items(self, schema, path, schema.get("minItems", 1))[1:]]
        if token == "additionalProperties":
            return {"a": self._placed(schema["additionalProperties"], path, further, value)}
        return {
            **self.minimal(schema, path),
            token: self._placed(schema["properties"][token], token, further, value),
        }


def tokens(path: str) -> list[str]:
    """Split a path into names, ``items`` and ``additionalProperties``."""
    marked = path.replace("[]", ".items").replace("{}", ".additionalProperties")
    return [token for token in marked.split(".") if token]


def text(path: str, length: int) -> str:
    return PREFIXES.get(path.rpartition(".")[2], "").ljust(length, "x")


def items(kind: Kind, schema: Mapping[str, Any], path: str, count: int) -> list[Any]:
    """Return so many different items of a list."""
    found = []
    keys = schema.get("x-kubernetes-list-map-keys", ())
    for index in range(count):
        item = kind.minimal(schema["items"], path)
        if keys:
            item = {**item, **dict.fromkeys(keys, f"x{index}")}
        elif isinstance(item, str):
            item = f"x{index}"
        found.append(item)
    return found


def bounds(kind: Kind, root: str = "spec") -> Iterator[Case]:
    """Yield a value just inside and one just outside of every bound of our own fields."""
    for field in kind.fields(root):
        for what, value, accepted in edges(kind, field.path, kind.node(field.path)):
            if not (accepted and field.path in RULED):
                yield Case(field.path, what, completed(kind.body(field.path, value)), accepted)


def completed(body: Body) -> Body:
    """Add what a rule of the object wants beside a value."""
    match body:
        case {"kind": "TenantPolicy", "spec": {"defaultQueue": str(queue)}}:
            body["spec"]["queues"] = [queue]
        case {"status": {"trainerStatus": {**reported}}}:
            body["status"]["trainerStatus"] = {"lastUpdatedTime": "2026-01-01T00:00:00Z", **reported}
    return body


def edges(kind: Kind, path: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, Any, bool]]:
    for key, step in (("minimum", -1), ("maximum", 1)):
        if key in schema:
            yield f"{key} reached", schema[key], True
            yield f"{key} crossed", schema[key] + step, False
    for key, step in (("minLength", -1), ("maxLength", 1)):
        if schema.get(key):
            yield f"{key} reached", text(path, schema[key]), True
            yield f"{key} crossed", text(path, schema[key] + step)[: schema[key] + step], False
    for key, step in (("minItems", -1), ("maxItems", 1)):
        if key in schema:
            yield f"{key} reached", items(kind, schema, path, schema[key]), True
            yield f"{key} crossed", items(kind, schema, path, schema[key] + step), False
    for value in schema.get("enum", ()):
        yield f"value {value!r}", value, True
    if schema.get("format") in BITS and "maximum" not in schema:
        yield "longest number", 2 ** (BITS[schema["format"]] - 1) - 1, True
        yield "too long a number", 2 ** (BITS[schema["format"]] - 1), False
    if "enum" in schema:
        yield "another value", "another", False
    if "minProperties" in schema:
        yield "no fields", {}, False
    for name in schema.get("required", ()):
        complete = kind.minimal(schema, path)
        yield f"without {name}", {key: value for key, value in complete.items() if key != name}, False
    if schema.get("x-kubernetes-list-type") in ("map", "set"):
        first = items(kind, schema, path, 1)[0]
        yield "the same twice", [first, deepcopy(first)], False
    yield (
        "wrong type",
        {"string": 1, "integer": "x", "boolean": "x", "array": {}, "object": []}.get(schema.get("type", ""), []),
        False,
    )
