"""Catalog model: runtimes and their versions, and the objects a cluster gets from them."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any

__all__ = [
    "ALIAS_ANNOTATION",
    "RELEASED_ANNOTATION",
    "Catalog",
    "Deprecation",
    "Runtime",
    "RuntimeVersion",
    "State",
    "spec_hash",
]

ALIAS_ANNOTATION = "trainyard.dev/alias-of"
RELEASED_ANNOTATION = "trainyard.dev/released"
DEPRECATED_SINCE_ANNOTATION = "trainyard.dev/deprecated-since"
REMOVE_AFTER_ANNOTATION = "trainyard.dev/remove-after"
SUPPORT_LABEL = "trainer.kubeflow.org/support"


def spec_hash(spec: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a runtime's spec, in hexadecimal, independent of the order of its keys."""
    canonical = json.dumps(spec, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


class State(StrEnum):
    """Where a version is in its life; what is retired is not there any more."""

    DRAFT = "draft"
    RELEASED = "released"
    DEPRECATED = "deprecated"


@dataclass(frozen=True)
class Deprecation:
    """When a version was deprecated, and the day after which it may be removed."""

    since: date
    remove_after: date


@dataclass(frozen=True)
class RuntimeVersion:
    """One version of a runtime.

    Parameters
    ----------
    name
        Name of the runtime, without the version.
    version
        MAJOR.MINOR.
    body
        The object as the file has it.
    path
        The file.
    released
        Day of the release; None for a version that may still change.
    changes
        What the version brought.
    deprecated
        Set once the version is deprecated.
    """

    name: str
    version: str
    body: Mapping[str, Any]
    path: Path
    released: date | None
    changes: str
    deprecated: Deprecation | None = None

    @property
    def object_name(self) -> str:
        """Name of the object, ``<name>-<version>``."""
        return f"{self.name}-{self.version}"

    @property
    def state(self) -> State:
        """Where the version is in its life."""
        if self.deprecated is not None:
            return State.DEPRECATED
        return State.DRAFT if self.released is None else State.RELEASED

    def manifest(self) -> dict[str, Any]:
        """Return the object with the marks of its state."""
        body: dict[str, Any] = copy.deepcopy(dict(self.body))
        if self.deprecated is not None:
            metadata = body["metadata"]
            metadata["labels"] = {**metadata.get("labels", {}), SUPPORT_LABEL: "deprecated"}
            metadata["annotations"] = {
                **metadata.get("annotations", {}),
                DEPRECATED_SINCE_ANNOTATION: self.deprecated.since.isoformat(),
                REMOVE_AFTER_ANNOTATION: self.deprecated.remove_after.isoformat(),
            }
        return body


@dataclass(frozen=True)
class Runtime:
    """A runtime with its versions, oldest first.

    Parameters
    ----------
    name
        Its plain name.
    owner
        Who answers for it.
    summary
        What it is for, in a few words.
    alias
        The version that its plain name stands for; None where it stands for none.
    versions
        The versions that are there.
    also_named
        Further names that mean the same as the plain one.
    retired
        Versions that are gone, and since when.
    """

    name: str
    owner: str
    summary: str
    alias: str | None
    versions: tuple[RuntimeVersion, ...]
    also_named: tuple[str, ...] = ()
    retired: Mapping[str, date] = field(default_factory=dict)

    @property
    def plain_names(self) -> tuple[str, ...]:
        """The names that stand for the version of the alias."""
        return () if self.alias is None else (self.name, *self.also_named)

    def version(self, version: str) -> RuntimeVersion:
        """Return one version.

        Raises
        ------
        KeyError
            There is no such version.
        """
        for each in self.versions:
            if each.version == version:
                return each
        raise KeyError(f"{self.name} has no version {version}")

    def names_of(self, version: str) -> tuple[str, ...]:
        """Return the names of the objects that are one version: its own, and the plain ones where they stand for it."""
        return (f"{self.name}-{version}", *(self.plain_names if self.alias == version else ()))

    def objects(self) -> list[dict[str, Any]]:
        """Return the object of each version, then the aliases."""
        return [manifest for _, manifest in self.sources()]

    def sources(self) -> Iterator[tuple[RuntimeVersion, dict[str, Any]]]:
        """Yield each object with the version that it comes from."""
        for version in self.versions:
            yield version, version.manifest()
        for name in reversed(self.plain_names):
            target = self.version(str(self.alias))
            yield target, _alias(name, target)


def _alias(name: str, target: RuntimeVersion) -> dict[str, Any]:
    body = target.manifest()
    annotations = body["metadata"].get("annotations", {})
    kept = {key: value for key, value in annotations.items() if key != RELEASED_ANNOTATION}
    body["metadata"] |= {"name": name, "annotations": {**kept, ALIAS_ANNOTATION: target.object_name}}
    return body


@dataclass(frozen=True)
class Catalog:
    """Every runtime that a cluster gets, by name."""

    runtimes: tuple[Runtime, ...]

    def objects(self) -> list[dict[str, Any]]:
        """Return every object of every runtime, aliases included."""
        return [manifest for runtime in self.runtimes for manifest in runtime.objects()]

    def sources(self) -> Iterator[tuple[RuntimeVersion, dict[str, Any]]]:
        """Yield every object with the version that it comes from."""
        for runtime in self.runtimes:
            yield from runtime.sources()

    def changed(self, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Catalog:
        """Return the catalog with the object of every version changed."""
        return Catalog(
            tuple(
                replace(
                    runtime,
                    versions=tuple(replace(version, body=change(version.body)) for version in runtime.versions),
                )
                for runtime in self.runtimes
            )
        )
