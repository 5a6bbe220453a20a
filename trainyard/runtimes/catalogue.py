"""Runtimes and their versions as values, and the objects a cluster gets from them."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

__all__ = [
    "ALIAS_ANNOTATION",
    "RELEASED_ANNOTATION",
    "Catalogue",
    "Deprecation",
    "Runtime",
    "RuntimeVersion",
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
    """A runtime with its versions, oldest first."""

    name: str
    owner: str
    summary: str
    alias: str | None
    versions: tuple[RuntimeVersion, ...]

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

    def objects(self) -> list[dict[str, Any]]:
        """Return the object of each version, then the alias."""
        manifests = [version.manifest() for version in self.versions]
        if self.alias is not None:
            manifests.append(self._alias(self.version(self.alias)))
        return manifests

    def _alias(self, target: RuntimeVersion) -> dict[str, Any]:
        body = target.manifest()
        annotations = body["metadata"].get("annotations", {})
        kept = {key: value for key, value in annotations.items() if key != RELEASED_ANNOTATION}
        body["metadata"] |= {"name": self.name, "annotations": {**kept, ALIAS_ANNOTATION: target.object_name}}
        return body


@dataclass(frozen=True)
class Catalogue:
    """Every runtime that a cluster gets, by name."""

    runtimes: tuple[Runtime, ...]

    def objects(self) -> list[dict[str, Any]]:
        """Return every object of every runtime, aliases included."""
        return [manifest for runtime in self.runtimes for manifest in runtime.objects()]
