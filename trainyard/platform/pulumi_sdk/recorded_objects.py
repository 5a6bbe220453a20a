"""Objects that the state has, for the program of a run that knows its state.

The engine imports a resource that declares an id and that the state lacks. It rejects the replacement of one that
declares an id and that the state has, so a program may declare an id only if it knows the state. `trainyard up` and
`trainyard preview` read the state and run the program in their own process; under plain `pulumi` the program reads it
if `IMPORT_VARIABLE` is set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from trainyard.platform.pulumi_sdk.exported_state import exported_objects

_OBJECTS = "kubernetes:"

_recorded: Collection[tuple[str, str]] | None = None


@contextmanager
def recorded_objects(names: Collection[tuple[str, str]] | None) -> Iterator[None]:
    """Give type and name of each resource in the state to the program that runs inside, or None if unknown."""
    global _recorded  # The program runs in a thread of the SDK, which context variables do not reach.
    former, _recorded = _recorded, names
    try:
        yield
    finally:
        _recorded = former


def is_unrecorded(type_: str, name: str) -> bool:
    """Return whether the state is known and lacks a resource."""
    recorded = _known()
    return recorded is not None and (type_, name) not in recorded


def lacks_objects() -> bool:
    """Return whether the state is known and has no object of a cluster."""
    recorded = _known()
    return recorded is not None and not any(type_.startswith(_OBJECTS) for type_, _ in recorded)


def _known() -> Collection[tuple[str, str]] | None:
    return _recorded if _recorded is not None else exported_objects()
