"""Paths of a queue's fields in its source: settings of a stack, or manifests."""

from __future__ import annotations

from typing import Protocol


class Paths(Protocol):
    """Source of paths for findings."""

    def of(self, queue: str = "", field: str = "", resource: str = "") -> str:
        """Return the path of a queue, of one of its fields, or of one resource in that field."""


class SettingsPaths:
    """Paths in the settings of a stack.

    Parameters
    ----------
    start
        Path of the mapping of queues.
    """

    def __init__(self, start: str = "trainyard:queues") -> None:
        self._start = start

    def of(self, queue: str = "", field: str = "", resource: str = "") -> str:
        """Return a path such as ``trainyard:queues.vision.deserved[cpu]``."""
        path = ".".join(part for part in (self._start, queue, field) if part)
        return f"{path}[{resource}]" if resource else path


class ManifestPaths:
    """Paths in Queue manifests; the finding's object is the queue."""

    def of(self, queue: str = "", field: str = "", resource: str = "") -> str:
        """Return a path such as ``spec.guarantee.resource[cpu]``."""
        path = f"spec.{field}" if field else ""
        if resource:
            path = f"{path}{'.resource' if field == 'guarantee' else ''}[{resource}]"
        return path
