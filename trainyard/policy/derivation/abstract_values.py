"""Abstract values: sets of the shapes that a value of a Rego program can have.

A value is a frozenset of shapes, with :data:`UNDEFINED` among them if the value may be undefined. A larger set is
always correct, only less precise.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

_MOST_SHAPES: Final = 40
"""Larger sets become :data:`UNKNOWN`."""
_MOST_ITEMS: Final = 64


@dataclass(frozen=True)
class Marker:
    """Shape without further information."""

    name: str


@dataclass(frozen=True)
class Constant:
    """A scalar, as JSON."""

    text: str

    @property
    def value(self) -> Any:
        """The scalar."""
        return json.loads(self.text)


@dataclass(frozen=True)
class Setting:
    """A value of ``data``, or of the input beside the request; ``*`` stands for an unknown key."""

    path: tuple[str, ...]


@dataclass(frozen=True)
class Collection:
    """An array or a set made by the program.

    Parameters
    ----------
    ordered
        Whether it is an array.
    items
        The items, if they are known; None if any number of ``elements`` may be there.
    elements
        Union of all items.
    """

    ordered: bool
    items: tuple[Value, ...] | None
    elements: Value


@dataclass(frozen=True)
class Fields:
    """An object made by the program.

    Parameters
    ----------
    known
        Values by constant key, as pairs.
    keys, others
        Unions of all other keys and of their values; empty if there are none.
    """

    known: frozenset[tuple[str, Value]]
    keys: Value
    others: Value


Shape = Marker | Constant | Setting | Collection | Fields
Value = frozenset[Shape]

UNDEFINED: Final = Marker("undefined")
UNKNOWN: Final = Marker("unknown")
RAW: Final = Marker("raw")
"""A part of the request, or a key of it."""
TEXT: Final = Marker("text")
"""A part of the request, printed."""
PIECE: Final = Marker("piece")
"""A contiguous piece of a string of the request."""
EMPTY: Final[Value] = frozenset()
ANY: Final[Value] = frozenset({UNKNOWN, UNDEFINED})


def constant(value: Any) -> Value:
    """Return the value of a scalar."""
    return frozenset({Constant(json.dumps(value))})


TRUE: Final = constant(True)
FALSE: Final = constant(False)
NULL: Final = constant(None)
BOOLEANS: Final = TRUE | FALSE


def defined(value: Value) -> Value:
    """Return the value where it is defined; empty if it never is."""
    return value - {UNDEFINED}


def joined(values: Iterable[Value], *, exact: bool = True) -> Value:
    """Return the union of values.

    Parameters
    ----------
    values
        The values.
    exact
        Whether collections of known items are kept; without it, a repeated join reaches a fixed point.
    """
    shapes: set[Shape] = set()
    for value in values:
        shapes |= value
    for ordered in (True, False):
        collections = [shape for shape in shapes if isinstance(shape, Collection) and shape.ordered is ordered]
        known = exact and all(each.items is not None and len(each.items) <= _MOST_ITEMS for each in collections)
        if len(collections) > 1 and not known:
            shapes -= set(collections)
            shapes.add(Collection(ordered, None, joined((each.elements for each in collections), exact=exact)))
    objects = [shape for shape in shapes if isinstance(shape, Fields)]
    if len(objects) > 1:
        shapes -= set(objects)
        shapes.add(_merged(objects, exact=exact))
    return frozenset(shapes) if len(shapes) <= _MOST_SHAPES else ANY


def _merged(objects: list[Fields], *, exact: bool) -> Fields:
    tables = [dict(each.known) for each in objects]
    found = {}
    for key in sorted({key for table in tables for key in table}):
        values = [table.get(key, each.others | {UNDEFINED}) for table, each in zip(tables, objects, strict=True)]
        found[key] = joined(values, exact=exact)
    keys, others = (
        joined(values, exact=exact) for values in zip(*((each.keys, each.others) for each in objects), strict=True)
    )
    return Fields(frozenset(found.items()), keys, others)
