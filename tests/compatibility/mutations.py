"""Objects with one or two random defects, for comparing the verdicts of files and of the API server."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.compatibility.corpus.case import Body, Case
from tests.compatibility.corpus.generated import generated
from trainyard.api.job_set_schema import recorded_schema

ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    1,
    -1,
    1.5,
    2.0,
    2**31,
    2**63,
    "",
    "x",
    "1",
    "500m",
    "1x",
    [],
    {},
    [None],
    {"a": 1},
)
TIMES = (
    "2026-01-01T00:00:00Z",
    "2026-01-01",
    "2026-02-30T00:00:00Z",
    "2026-01-01T24:00:00Z",
    "2026-01-01t1:00:00z",
    "2026-01-01T00:00:00+01:00",
    "2026-01-01T00:00:00.123Z",
    "yesterday",
    "2026-01-01T00:00:00",
    "0000-02-29T00:00:00Z",
)
KEYS = ("a", "a.io/b", "A_b", "-a", "a/", "/a", "a/b/c", "A.io/b", "x" * 63, "x" * 64, "", "a b", "é")
METADATA: dict[str, tuple[Any, ...]] = {
    "labels": (*({key: "v"} for key in KEYS), *({"a": value} for value in (*KEYS, None, 1)), [], "a"),
    "annotations": (
        *({key: "v"} for key in KEYS),
        {"a": "x" * 262_143},
        {"a": "x" * 262_144},
        {"a": None},
        {"a": 1},
        [],
    ),
    "finalizers": (*([key] for key in KEYS), ["orphan", "foregroundDeletion"], "a", [1], None),
    "name": ("a", "A", "a.b", "-a", "x" * 254, 1),
    "generateName": ("a-", 1),
}
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"}


@dataclass(frozen=True)
class Mutation:
    """A case with defects.

    Parameters
    ----------
    case
        The changed case.
    changes
        What was changed, for messages.
    """

    case: Case
    changes: tuple[str, ...]


def mutations(count: int, seed: int) -> Iterator[Mutation]:
    """Yield changed cases; the same for the same seed."""
    for number, case in enumerate(generated(count, seed)):
        source = random.Random(f"{seed}/{number}/mutation")
        runtime, train_job = copy.deepcopy((case.runtime, case.train_job))
        changes = []
        for _ in range(source.choice((1, 1, 1, 2))):
            body = source.choice([entry for entry in (runtime, runtime, train_job) if entry is not None])
            changes.append(f"{body['kind']} {_Mutator(source, body).change()}")
        yield Mutation(replace(case, runtime=runtime, train_job=train_job), tuple(changes))


@dataclass(frozen=True)
class _Place:
    """A value inside an object: its container, and the key there."""

    path: str
    container: Any
    key: Any

    @property
    def value(self) -> Any:
        return self.container[self.key]


class _Mutator:
    def __init__(self, source: random.Random, body: Body) -> None:
        self._random = source
        self._body = body

    def change(self) -> str:
        """Change one place and return what was done."""
        kinds = (self._replace, self._drop, self._repeat, self._add, self._metadata, self._time)
        return self._random.choices(kinds, (5, 3, 2, 6, 3, 1))[0]()

    def _places(self) -> list[_Place]:
        return list(_places(self._body.get("spec", {}), "spec"))

    def _replace(self) -> str:
        place = self._random.choice(self._places() or [_Place("spec", self._body, "spec")])
        place.container[place.key] = value = copy.deepcopy(self._random.choice(ODD))
        return f"{place.path} = {value!r}"

    def _drop(self) -> str:
        place = self._random.choice(self._places() or [_Place("spec", self._body, "spec")])
        del place.container[place.key]
        return f"{place.path} dropped"

    def _repeat(self) -> str:
        lists = [place for place in self._places() if isinstance(place.value, list) and place.value]
        if not lists:
            return self._replace()
        place = self._random.choice(lists)
        place.value.append(copy.deepcopy(self._random.choice(place.value)))
        return f"{place.path} with a repeated item"

    def _add(self) -> str:
        """Set a random field of JobSet's schema in the template, or in what a patch may change of it."""
        spec = self._body.get("spec")
        if not isinstance(spec, dict):
            return self._replace()
        if self._body["kind"] == "TrainJob":
            return self._add_to_train_job(spec)
        if not isinstance(spec.get("template"), dict):
            return self._replace()
        path, node, place = "spec.template.spec", recorded_schema(), spec["template"].setdefault("spec", {})
        while True:
            if not isinstance(place, dict) or not node.get("properties"):
                return self._replace()
            name = self._random.choice(sorted(node["properties"]))
            if name in place and self._random.random() < 0.8:
                inner, child = node["properties"][name], place[name]
                while isinstance(child, list) and child and "items" in inner:
                    index = self._random.randrange(len(child))
                    path, inner, child = f"{path}.{name}[{index}]", inner["items"], child[index]
                    name = ""
                if isinstance(child, dict) and inner.get("properties"):
                    path, node, place = f"{path}.{name}" if name else path, inner, child
                    continue
                if not name:
                    return self._replace()
            place[name] = value = self._drawn(node["properties"][name], 3)
            return f"{path}.{name} = {value!r}"

    def _add_to_train_job(self, spec: Body) -> str:
        container = recorded_schema()
        for step in ("replicatedJobs", "template", "spec", "template", "spec", "containers"):
            container = container["properties"][step]
            container = container.get("items", container)
        trainer = spec.setdefault("trainer", {})
        if not isinstance(trainer, dict):
            return self._replace()
        field, part = self._random.choice((("resourcesPerNode", "resources"), ("env", "env")))
        trainer[field] = value = self._drawn(container["properties"][part], 3)
        return f"spec.trainer.{field} = {value!r}"

    def _drawn(self, schema: Body, depth: int) -> Any:
        """Draw a value for a schema, sometimes one that does not fit."""
        if self._random.random() < 0.12:
            return copy.deepcopy(self._random.choice(ODD))
        if schema.get("x-kubernetes-int-or-string"):
            return self._random.choice((1, "1", "500m", 1.5, "1.5Gi", "x", "1e3", "1e", "-1", 2.0, "+1", ".5", "1 "))
        match schema["type"]:
            case "string":
                if "enum" in schema:
                    return self._random.choice((*schema["enum"], "Other"))
                return self._random.choice(TIMES if schema.get("format") == "date-time" else ("a", "b", "", "node"))
            case "integer":
                return self._random.choice((0, 1, -1, 3, 2**31 - 1, 2**31, -(2**31), 2.0))
            case "boolean":
                return self._random.choice((True, False, "true"))
            case "array":
                count = self._random.choice((0, 1, 2, 2)) if depth else 0
                return [self._drawn(schema["items"], depth - 1) for _ in range(count)]
        if "additionalProperties" in schema:
            return {name: self._drawn(schema["additionalProperties"], depth - 1) for name in ("cpu", "memory")[:depth]}
        required, chosen = set(schema.get("required", ())), {}
        for name, inner in schema.get("properties", {}).items():
            if self._random.random() < (0.9 if name in required else 0.15 if depth else 0):
                chosen[name] = self._drawn(inner, max(depth - 1, 0))
        return chosen

    def _metadata(self) -> str:
        field = self._random.choice([*METADATA, "ownerReferences"])
        if field == "ownerReferences":
            owner: Body = dict(OWNER)
            missing = self._random.choice((*OWNER, None))
            if missing is not None:
                owner[missing] = self._random.choice((None, "", 1))
            owners = [owner, {**OWNER, "controller": True}, {**OWNER, "uid": "v", "controller": True}]
            value: Any = self._random.sample(owners, self._random.randint(1, 3))
        else:
            value = copy.deepcopy(self._random.choice(METADATA[field]))
        place = self._body["metadata"]
        if field not in ("name", "generateName", "finalizers") and self._body["kind"] != "TrainJob":
            spec = self._body.get("spec")
            template = spec.get("template") if isinstance(spec, dict) else None
            if isinstance(template, dict) and self._random.random() < 0.4 and field != "ownerReferences":
                place = template["metadata"] = {}
        place[field] = value
        return f"metadata.{field} = {str(value)[:200]}"

    def _time(self) -> str:
        spec = self._body.get("spec")
        patches = spec.get("runtimePatches") if isinstance(spec, dict) else None
        if not isinstance(patches, list) or not patches or not isinstance(patches[0], dict):
            return self._add()
        patches[0]["time"] = value = self._random.choice((*TIMES, *ODD))
        return f"spec.runtimePatches[0].time = {value!r}"


def _places(value: Any, path: str) -> Iterator[_Place]:
    if isinstance(value, dict):
        for key in value:
            yield _Place(f"{path}.{key}", value, key)
            yield from _places(value[key], f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield _Place(f"{path}[{index}]", value, index)
            yield from _places(item, f"{path}[{index}]")
