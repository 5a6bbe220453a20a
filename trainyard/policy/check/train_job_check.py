"""Check of a TrainJob: schema, admission, and rendered objects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trainyard.api import Body
from trainyard.checks.finding import Finding
from trainyard.jobs.render.submission import Submission, named_runtime, submitted
from trainyard.policy.check.sources import Manifest
from trainyard.policy.check.world import DEFAULT_NAMESPACE, CheckContext, FoundRuntime

Resolved = Submission[FoundRuntime]
"""Result of a TrainJob's admission."""


def resolved(manifest: Manifest, world: CheckContext) -> Resolved:
    """Return the result of a TrainJob's admission in its context."""
    namespace, file = manifest.namespace or DEFAULT_NAMESPACE, manifest.source.path

    def find(kind: str, name: str) -> FoundRuntime | None:
        return world.runtime(kind, namespace, name, file)

    return submitted(manifest.body, find, _broken, world.context(namespace, file))


def runtime_of(body: Body, namespace: str, file: Path | None, world: CheckContext) -> FoundRuntime | None:
    """Return the runtime that a TrainJob references; None if it does not exist."""
    named = named_runtime(body)
    return world.runtime(named[0], namespace, named[1], file) if named else None


def _broken(found: FoundRuntime) -> Iterator[Finding]:
    first = found.errors[0]
    more = f" (and {len(found.errors) - 1} more)" if len(found.errors) > 1 else ""
    message = f'{found.body["kind"]} "{found.name}" is invalid: {first.path}: {first.message}{more}'
    yield Finding("spec.runtimeRef", message, "correct the runtime or reference another one")
