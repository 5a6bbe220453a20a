"""Operations on abstract values: comparison, lookup and loops.

A result contains each value that is possible for a request that the assumptions admit.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

from trainyard.policy.derivation.abstract_values import (
    ANY,
    BOOLEANS,
    EMPTY,
    FALSE,
    PIECE,
    RAW,
    TEXT,
    TRUE,
    UNDEFINED,
    UNKNOWN,
    Collection,
    Constant,
    Fields,
    Setting,
    Shape,
    Value,
    constant,
    defined,
    joined,
)
from trainyard.policy.derivation.assumptions import Absence

REQUEST: Final = (RAW, TEXT, PIECE)
"""Shapes of a part of the request."""
MADE: Final = (Collection, Fields)
"""Shapes that the program made."""


def equal(first: Value, second: Value, absence: Absence) -> Value:
    """Return whether two defined values are equal: true, false, or both."""
    pairs = product(defined(first), defined(second))
    return joined(_equal(one, other, absence) for one, other in pairs)


def _equal(one: Shape, other: Shape, absence: Absence) -> Value:
    if other in REQUEST:
        one, other = other, one
    if isinstance(one, Constant) and isinstance(other, Constant):
        return (
            constant(type(one.value) is type(other.value) and one.value == other.value)
            if _plain(one, other)
            else BOOLEANS
        )
    if (isinstance(one, Constant) and isinstance(other, MADE)) or (
        isinstance(other, Constant) and isinstance(one, MADE)
    ):
        return FALSE
    if one in REQUEST and is_absent(one, other, absence):
        return FALSE
    return BOOLEANS


def _plain(*constants: Constant) -> bool:
    """Return whether constants are of one numeric type, or no numbers."""
    return len({type(each.value) for each in constants if type(each.value) in (int, float)}) < 2


def is_absent(raw: Shape, other: Shape, absence: Absence) -> bool:
    """Return whether no part of the request can equal a constant or an item of a setting."""
    if isinstance(other, Setting):
        return len(other.path) > 1 and other.path[-1] == "*" and absence.items(other.path[:-1])
    if not isinstance(other, Constant) or not isinstance(other.value, str):
        return False
    if raw == RAW:
        return absence.string(other.value)
    return absence.printed(other.value) if raw == TEXT else absence.part(other.value)


def lookup(source: Value, key: Value, absence: Absence) -> Value:
    """Return the value below a key."""
    pairs = product(defined(source), defined(key))
    return joined(_lookup(one, name, absence) for one, name in pairs)


def _lookup(source: Shape, key: Shape, absence: Absence) -> Value:
    text = key.value if isinstance(key, Constant) else None
    nothing: Value = frozenset({UNDEFINED})
    if source == RAW:
        return nothing if is_absent(RAW, key, absence) else frozenset({RAW, UNDEFINED})
    if isinstance(source, Setting):
        step = text if isinstance(text, str) else "*"
        return frozenset({_setting((*source.path, step)), UNDEFINED})
    if isinstance(source, Constant) or source in (TEXT, PIECE):
        return nothing
    if isinstance(source, Fields):
        known = dict(source.known)
        others = source.others if equal(frozenset({key}), source.keys, absence) >= TRUE else EMPTY
        if isinstance(text, str):
            return known[text] if text in known else others | nothing
        return joined([*known.values(), others, nothing])
    if isinstance(source, Collection):
        # A set has its items as keys, an array their indexes: the item is an upper bound of both.
        if source.items is not None and type(text) is int and text < len(source.items):
            return source.items[text] | nothing
        return source.elements | nothing
    return ANY


def _setting(path: tuple[str, ...]) -> Setting:
    """Return a setting; the default of a rule's parameter is the same setting as its override."""
    if path[:3] == ("data", "trainyard", "catalog") and path[4:5] == ("parameters",):
        path = ("parameters", path[3], *path[5:])
    return Setting(path)


def entries(source: Value) -> Iterator[tuple[Value, Value]]:
    """Yield the keys and values over which a loop may run."""
    for shape in defined(source):
        if shape == RAW:
            yield frozenset({RAW}), frozenset({RAW})
        elif isinstance(shape, Setting):
            yield frozenset({UNKNOWN}), frozenset({Setting((*shape.path, "*"))})
        elif isinstance(shape, Collection):
            for item in (shape.elements,) if shape.items is None else shape.items:
                if defined(item):
                    # Keys of arrays are numbers, those of sets the items.
                    yield frozenset({UNKNOWN}) | defined(item), defined(item)
        elif isinstance(shape, Fields):
            for name, value in sorted(shape.known, key=lambda pair: pair[0]):
                if defined(value):
                    yield constant(name), defined(value)
            if defined(shape.others):
                yield shape.keys, defined(shape.others)
        elif shape == UNKNOWN:
            yield frozenset({UNKNOWN}), frozenset({UNKNOWN})
