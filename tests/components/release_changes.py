"""Changes of what the program declares since a recorded release, and the review of them.

A resource of the release that the present program does not declare, by its URN or an alias, is deleted by an upgrade.
Each such resource, each new one, and each change of a field that leads to a replacement or to rejected requests is
listed in ``releases/since-RELEASE.yaml`` with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import yaml

from tests.components.recording import Recording
from tests.components.release_record import FOLDER, Record, declared, recorded_stack, urn_tail

KEPT_KINDS: Final = frozenset(
    {
        "ClusterTrainingRuntime",
        "CustomResourceDefinition",
        "HyperNode",
        "Namespace",
        "PersistentVolumeClaim",
        "PriorityClass",
        "Queue",
    }
)
"""Kinds whose objects jobs use: no upgrade deletes or replaces one, whatever the reason."""


@dataclass(frozen=True, order=True)
class Change:
    """One change of a stack: a resource that is removed, added, or changed in a deciding field, by its logical name."""

    change: str
    name: str
    details: str = ""

    @property
    def kind(self) -> str:
        return self.name.partition("/")[0]

    def __str__(self) -> str:
        return f"{self.change}: {self.name}" + (f" ({self.details})" if self.details else "")


@dataclass(frozen=True)
class Review:
    """One reviewed entry: patterns of logical names, and why the change is safe."""

    change: str
    patterns: tuple[str, ...]
    reason: str

    def covers(self, change: Change) -> bool:
        """Return whether the entry is about a change."""
        return change.change == self.change and any(fnmatchcase(change.name, pattern) for pattern in self.patterns)


def releases() -> list[str]:
    """Return the recorded releases, oldest first; every one of them can be upgraded."""
    found = [file.stem for file in FOLDER.glob("*.yaml") if not file.stem.startswith("since-")]
    return sorted(found, key=lambda name: [int(part) for part in name.split(".") if part.isdecimal()])


def review_of(release: str, folder: Path = FOLDER) -> list[Review]:
    """Return the reviewed changes since a release."""
    document = yaml.safe_load((folder / f"since-{release}.yaml").read_text())
    assert set(document) == {"removed", "added", "changed"}, sorted(document)
    return [
        Review(change, tuple(entry["resources"]), entry["reason"])
        for change, entries in document.items()
        for entry in entries
    ]


def changes_since(release: str, folder: Path = FOLDER) -> dict[str, list[Change]]:
    """Return the changes since a release, by stack: the present program with the settings of then."""
    recorded = yaml.safe_load((folder / f"{release}.yaml").read_text())["stacks"]
    return {
        stack: compare(each["declares"], recorded_stack(stack, each["settings"])) for stack, each in recorded.items()
    }


def compare(former: Record, recording: Recording) -> list[Change]:
    """Return the changes from a record to what a program declared."""
    present = dict(_flat(declared(recording)))
    successors = {tail: own for own, tails in _former_tails(recording).items() for tail in tails}
    recorded = dict(_flat(former))
    kept = {successors[tail]: tail for tail in recorded if tail in successors}
    found = [Change("removed", _name(tail)) for tail in recorded if tail not in successors]
    found += [Change("added", _name(tail)) for tail in present if tail not in kept]
    for own, tail in kept.items():
        before, after = (_identified(each, fields) for each, fields in ((tail, recorded[tail]), (own, present[own])))
        fields = sorted(key for key in before.keys() | after.keys() if _matters(key, before.get(key), after.get(key)))
        if fields:
            found.append(Change("changed", _name(own), ", ".join(fields)))
    return sorted(found)


def _former_tails(recording: Recording) -> dict[str, set[str]]:
    """Return the URNs under which the engine finds each resource in the state, by its own.

    An alias changes the type or the name. The URN of a resource contains the types of its parents, so that an alias of
    a parent applies to its children.
    """
    types: dict[str, set[str]] = {}

    def former_types(urn: str) -> set[str]:
        if urn not in types:
            resource = recording.resources.get(urn)
            if resource is None:
                return {""}
            own = {resource.type, *(kind for kind, _ in resource.aliases if kind)}
            parents = former_types(resource.parent)
            types[urn] = {f"{parent}${kind}" if parent else kind for parent in parents for kind in own}
        return types[urn]

    return {
        urn_tail(urn): {
            f"{kind}::{name}"
            for kind in former_types(urn)
            for name in {resource.name, *(name for _, name in resource.aliases if name)}
        }
        for urn, resource in recording.resources.items()
    }


def _matters(field: str, before: Any, after: Any) -> bool:
    """Return whether a change is one: a further served version or a new protection is not."""
    if field == "served":
        return not set(before) <= set(after)
    return bool(before != after and (field != "protect" or before))


def _identified(tail: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with namespace and name, which the record leaves out where the logical name has them."""
    return {"identity": _name(tail).partition("/")[2], **fields}


def _flat(record: Mapping[str, Mapping[str, dict[str, Any]]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for kind, names in record.items():
        for name, fields in names.items():
            yield f"{kind}::{name}", fields


def _name(tail: str) -> str:
    return tail.partition("::")[2]


def unused(reviews: Iterable[Review], changes: Iterable[Change]) -> list[str]:
    """Return the patterns that no change matches."""
    found = list(changes)
    return [
        f"{each.change}: {pattern}"
        for each in reviews
        for pattern in each.patterns
        if not any(Review(each.change, (pattern,), "").covers(change) for change in found)
    ]
