"""Catalog model: runtimes, their versions, and the objects installed from them."""

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

from trainyard.api.constants import RELEASED_ANNOTATION

ALIAS_ANNOTATION = "trainyard.dev/alias-of"
DEPRECATED_SINCE_ANNOTATION = "trainyard.dev/deprecated-since"
REMOVE_AFTER_ANNOTATION = "trainyard.dev/remove-after"
SUPPORT_LABEL = "trainer.kubeflow.org/support"


def spec_hash(spec: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a runtime's spec, in hexadecimal, independent of the order of its keys."""
    canonical = json.dumps(spec, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


class VersionState(StrEnum):
    """Life cycle state of a version; retired versions are not part of the catalog."""

    DRAFT = "draft"
    RELEASED = "released"
    DEPRECATED = "deprecated"


@dataclass(frozen=True)
class Deprecation:
    """Day of a deprecation, and the day until which the version is guaranteed to stay."""

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
        The object in the file.
    path
        Path of the file.
    released
        Day of the release; None for a draft.
    changes
        Changelog entry.
    deprecated
        The deprecation; None if not deprecated.
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
    def state(self) -> VersionState:
        """Life cycle state of the version."""
        if self.deprecated is not None:
            return VersionState.DEPRECATED
        return VersionState.DRAFT if self.released is None else VersionState.RELEASED

    def manifest(self) -> dict[str, Any]:
        """Return the object with labels and annotations of its state."""
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
        Name without a version.
    owner
        Responsible team or person.
    summary
        Short description.
    alias
        Version to which its plain name refers; None without an alias.
    versions
        Existing versions.
    also_named
        Further aliases of the same version.
    retired
        Retired versions, with the day of retirement.
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
        """The aliases: the plain name and its synonyms."""
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
        """Return the object names of a version: its own name, and the aliases that refer to it."""
        return (f"{self.name}-{version}", *(self.plain_names if self.alias == version else ()))

    def objects(self) -> list[dict[str, Any]]:
        """Return the object of each version, then the aliases."""
        return [manifest for _, manifest in self.sources()]

    def sources(self) -> Iterator[tuple[RuntimeVersion, dict[str, Any]]]:
        """Yield each object with its version."""
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
    """All runtimes to install, by name."""

    runtimes: tuple[Runtime, ...]

    def objects(self) -> list[dict[str, Any]]:
        """Return the objects of all runtimes, including aliases."""
        return [manifest for runtime in self.runtimes for manifest in runtime.objects()]

    def sources(self) -> Iterator[tuple[RuntimeVersion, dict[str, Any]]]:
        """Yield every object with its version."""
        for runtime in self.runtimes:
            yield from runtime.sources()

    def changed(self, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Catalog:
        """Return the catalog with a function applied to the object of every version."""
        return Catalog(
            tuple(
                replace(
                    runtime,
                    versions=tuple(replace(version, body=change(version.body)) for version in runtime.versions),
                )
                for runtime in self.runtimes
            )
        )
