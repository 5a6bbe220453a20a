"""The ledger of what tenants can write: for each field, key, variable and request, the rule that evaluates it.

The files of ``policies/surface`` contain the entries by type; ``types.yaml`` says where the schemas of the types are.
An entry covers the paths in ``fields``; a path that ends in ``.**`` covers everything below it and states with
``count`` how many fields these are, so that a new field is noticed. Exactly one of ``rules``, ``harmless``, ``rbac``,
``node``, ``accepted`` and ``open`` is the verdict; the last three may stand beside ``rules`` where a rule evaluates a
part. ``node`` is what no request shows, and names the section of the documentation with the configuration of the nodes
that prevents it; ``accepted`` is what no admission can decide, and names what limits it. ``attack`` is a value that a
rule denies at every level where the type occurs, or only in ``kinds``, and ``legitimate`` one that the rules allow.
``length`` repeats the only item of the attack, with ``{index}`` in texts as its number, and ``{number}`` alone as this
number plus one, an integer. ``depth`` limits a key of metadata to that of the object itself or to that of its pods.
``shown`` names requests of tests/cluster/bypass_attempts.yaml that attack or use what no value alone can show, and
``legitimate: absent`` is for what tenants never write.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tools.reference.surface_schemas import TYPE_NAMES, Fields, SchemaSource, fields_of, inside
from trainyard.data import data_folder
from trainyard.policy.rules.rule_catalog import read_yaml, validated

ABSENT: Final = "absent"
"""In place of a legitimate value: a tenant has no legitimate use."""

BELOW: Final = ".**"
"""End of a path that covers everything below it."""

NAMED: Final = ("Annotations", "Labels", "Variables", "Requests")
"""Sections without a schema: keys of metadata, environment variables, and requests beside the objects themselves."""


class Entry(BaseModel):
    """What a tenant can write, who acts on it, and the rule that evaluates it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fields: tuple[str, ...] = Field(min_length=1)
    count: int = 0
    by: str
    effect: str = ""
    rules: tuple[str, ...] = ()
    harmless: str = ""
    code: tuple[str, ...] = ()
    rbac: str = ""
    node: str = ""
    accepted: str = ""
    open: str = ""
    attack: Any = None
    length: int = 0
    legitimate: Any = None
    kinds: tuple[str, ...] = ()
    depth: Literal["", "object", "pods"] = ""
    shown: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _has_one_verdict(self) -> Entry:
        rest = [bool(self.node), bool(self.accepted), bool(self.open)]
        verdicts = [bool(self.rules) or any(rest), bool(self.harmless), bool(self.rbac)]
        if sum(verdicts) != 1 or sum(rest) > 1:
            raise ValueError(
                "exactly one of rules, harmless, rbac, node, accepted and open is required; "
                "one of the last three may stand beside rules"
            )
        if self.rules and not self.effect:
            raise ValueError("rules require effect: what the field can do to others")
        if bool(self.harmless) != bool(self.code):
            raise ValueError(
                "harmless requires code, the function that reads or drops the field, and only harmless has it"
            )
        if self.length and not (isinstance(self.attack, list | dict) and len(self.attack) == 1):
            raise ValueError("length repeats the item of an attack, which is a list or a map of one")
        if not self.rules and (self.attack is not None or self.legitimate is not None or self.shown):
            raise ValueError("attack, legitimate and shown require rules")
        if any(path.endswith(BELOW) for path in self.fields) != bool(self.count):
            raise ValueError("a path that ends in .** requires count, the number of fields below it")
        return self

    @property
    def attacks(self) -> Any:
        """The attack, with all of its items."""
        if not self.length:
            return self.attack
        repeated = [_numbered(self.attack, index) for index in range(self.length)]
        return dict(ChainMap(*repeated)) if isinstance(self.attack, dict) else [item for (item,) in repeated]

    @property
    def reason(self) -> str:
        """Reason for which no rule evaluates it."""
        return self.harmless or self.rbac or self.node or self.accepted or self.open


@dataclass(frozen=True)
class SurfaceLedger:
    """All entries by type, and the schemas of the types."""

    sources: Mapping[str, SchemaSource]
    entries: Mapping[str, tuple[Entry, ...]]
    _fields: dict[str, Fields] = field(default_factory=dict)

    def fields(self, name: str) -> Fields:
        """Return the fields of a type."""
        if name not in self._fields:
            self._fields[name] = fields_of(name, self.sources)
        return self._fields[name]

    def covers(self, name: str, path: str) -> bool:
        """Return whether an entry covers a field of a type, in the type or in one that it embeds."""
        if not path or path in TYPE_NAMES:
            return True
        if any(_covered(path, pattern) for entry in self._entries(name) for pattern in entry.fields):
            return True
        return any(
            inside(path, place) and self.covers(target, path[len(place) :].lstrip("."))
            for place, target in self.fields(name).embedded.items()
        )

    def missing(self) -> Iterator[str]:
        """Yield each field without an entry."""
        for name in self.sources:
            for path in self.fields(name).leaves:
                if not self.covers(name, path):
                    yield f"{name}.{path}"

    def stray(self) -> Iterator[str]:
        """Yield each path of an entry that no schema has, and each wrong count."""
        for name, entries in self.entries.items():
            if name in NAMED:
                continue
            fields = self.fields(name)
            for entry in entries:
                yield from (f"{name}.{path}" for path in entry.fields if path.removesuffix(BELOW) not in fields.nodes)
                below = [each for each in entry.fields if each.endswith(BELOW)]
                found = sum(_covered(leaf, each) for leaf in fields.leaves for each in below)
                if found != entry.count:
                    yield f"{name}.{', '.join(below)}: count is {entry.count}, and there are {found} fields"

    def all(self) -> Iterator[tuple[str, Entry]]:
        """Yield every entry with its type."""
        for name, entries in self.entries.items():
            yield from ((name, entry) for entry in entries)

    def _entries(self, name: str) -> Sequence[Entry]:
        like = self.sources[name].like
        return (*self.entries.get(name, ()), *(self.entries.get(like, ()) if like else ()))


def _numbered(item: Any, index: int) -> Any:
    if isinstance(item, dict):
        return {_numbered(name, index): _numbered(value, index) for name, value in item.items()}
    if isinstance(item, list):
        return [_numbered(each, index) for each in item]
    if item == "{number}":
        return index + 1
    return item.replace("{index}", str(index)) if isinstance(item, str) else item


def _covered(path: str, pattern: str) -> bool:
    if pattern.endswith(BELOW):
        return inside(path, pattern.removesuffix(BELOW))
    return path == pattern


@cache
def load_ledger(folder: Path | None = None) -> SurfaceLedger:
    """Return the ledger of a folder; unset: the shipped one.

    Raises
    ------
    TrainyardError
        A file is invalid, or an entry is.
    """
    folder = folder or data_folder("policies") / "surface"
    entries: dict[str, tuple[Entry, ...]] = {}
    for path in sorted(folder.glob("*.yaml")):
        if path.name != "types.yaml":
            for name, found in read_yaml(path).items():
                made = tuple(validated(Entry, each, path) for each in found)
                entries[name] = (*entries.get(name, ()), *made)
    sources = {name: _source(body) for name, body in read_yaml(folder / "types.yaml").items()}
    return SurfaceLedger(sources=sources, entries=entries)


def _source(body: Mapping[str, Any]) -> SchemaSource:
    crd = body.get("crd")
    return SchemaSource(**{**body, "crd": (crd[0], crd[1]) if crd else None})
