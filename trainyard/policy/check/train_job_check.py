"""Check of a TrainJob: its schema, its admission, and the objects rendered from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trainyard.api import Body
from trainyard.checks.finding import Finding
from trainyard.policy.check.sources import Manifest
from trainyard.policy.check.world import DEFAULT_NAMESPACE, FoundRuntime, World
from trainyard.render.submission import Submission, named_runtime, submitted

__all__ = ["Resolved", "resolved", "runtime_of"]

Resolved = Submission[FoundRuntime]
"""What became of a TrainJob."""


def resolved(manifest: Manifest, world: World) -> Resolved:
    """Return what becomes of a TrainJob in its surroundings."""
    namespace, file = manifest.namespace or DEFAULT_NAMESPACE, manifest.source.path

    def find(kind: str, name: str) -> FoundRuntime | None:
        return world.runtime(kind, namespace, name, file)

    return submitted(manifest.body, find, _broken, world.context(namespace, file))


def runtime_of(body: Body, namespace: str, file: Path | None, world: World) -> FoundRuntime | None:
    """Return the runtime that a TrainJob names, None where there is none."""
    named = named_runtime(body)
    return world.runtime(named[0], namespace, named[1], file) if named else None


def _broken(found: FoundRuntime) -> Iterator[Finding]:
    first = found.errors[0]
    more = f" (and {len(found.errors) - 1} more)" if len(found.errors) > 1 else ""
    message = f'{found.body["kind"]} "{found.name}" is wrong: {first.path}: {first.message}{more}'
    yield Finding("spec.runtimeRef", message, "correct the runtime or name another one")
