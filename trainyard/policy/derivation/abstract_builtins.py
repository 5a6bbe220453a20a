"""Built-in functions of Rego on abstract values, as far as the rules use them.

A result contains each value that is possible for a request that the assumptions admit; that of any other function is
unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, Final

from trainyard.policy.derivation.abstract_operations import MADE, REQUEST, entries, equal, is_absent, lookup
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

_ZERO: Final = constant(0)
_NO_TEXT: Final = Constant('""')


def call(name: str, arguments: Sequence[Value], absence: Absence) -> Value:
    """Return the result of a built-in function; it may be undefined where a type may be wrong."""
    operation = _OPERATIONS.get(name)
    return operation(arguments, absence) if operation else ANY


def _member(arguments: Sequence[Value], absence: Absence) -> Value:
    item, source = arguments
    results = []
    for shape in defined(source):
        if isinstance(shape, Collection) and shape.items is not None:
            found = [equal(item, each, absence) for each in shape.items if defined(each)]
            if any(each == TRUE for each in found):
                results.append(TRUE)
            else:
                results.append(joined([FALSE, *found]))
        else:
            values = [value for _, value in entries(frozenset({shape}))]
            results.append(joined([FALSE, *(equal(item, value, absence) for value in values)]))
    return joined(results)


def _get(arguments: Sequence[Value], absence: Absence) -> Value:
    source, keys, otherwise = arguments
    found = []
    for key in defined(keys):
        steps = key.items if isinstance(key, Collection) else (frozenset({key}),)
        if steps is None:
            return ANY
        value = source
        for step in steps:
            value = lookup(value, step, absence) | ({UNDEFINED} & value)
        found.append(value)
    value = joined(found)
    wrong = any(not isinstance(shape, Fields) for shape in source)
    result = defined(value) | (otherwise if UNDEFINED in value else EMPTY)
    return result | frozenset({UNDEFINED}) if wrong else result


def _concat(arguments: Sequence[Value], _: Absence) -> Value:
    first, second = (tuple(defined(each)) for each in arguments)
    if len(first) == len(second) == 1:
        one, other = first[0], second[0]
        if isinstance(one, Collection) and isinstance(other, Collection) and None not in (one.items, other.items):
            items = (*(one.items or ()), *(other.items or ()))
            return frozenset({Collection(True, items, joined(items))})
    return frozenset({Collection(True, None, _elements(*arguments))}) | _unless_arrays(arguments)


def _unless_arrays(arguments: Sequence[Value]) -> Value:
    """Return that a result is undefined, unless all arguments are arrays."""
    arrays = (isinstance(shape, Collection) and shape.ordered for each in arguments for shape in each)
    return EMPTY if all(arrays) else frozenset({UNDEFINED})


def _flatten(arguments: Sequence[Value], _: Absence) -> Value:
    (outer,) = arguments
    inner = _elements(outer)
    plain = frozenset(shape for shape in inner if not isinstance(shape, Collection))
    return frozenset({Collection(True, None, plain | _elements(inner))}) | _unless_arrays(arguments)


def _elements(*values: Value) -> Value:
    return joined(value for each in values for _, value in entries(each))


def _union(arguments: Sequence[Value], _: Absence) -> Value:
    """Return a union of sets."""
    return frozenset({Collection(False, None, _elements(*arguments)), UNDEFINED})


def _keys(arguments: Sequence[Value], _: Absence) -> Value:
    (source,) = arguments
    keys = joined(key for key, _ in entries(source))
    return frozenset({Collection(False, None, keys), UNDEFINED})


def _merge(arguments: Sequence[Value], _: Absence) -> Value:
    """Return a union of objects: a part of the request if both are."""
    shapes = [shape for each in arguments for shape in defined(each)]
    if any(isinstance(shape, Setting | Constant | Collection) or shape == UNKNOWN for shape in shapes):
        return ANY
    known: dict[str, Value] = {}
    keys = others = EMPTY
    for shape in shapes:
        if isinstance(shape, Fields):
            for key, value in shape.known:
                known[key] = joined([known.get(key, EMPTY), value])
            keys, others = joined([keys, shape.keys]), joined([others, shape.others])
        else:
            # The values of such an object are parts of the request too.
            keys, others = (joined([each, frozenset({shape})]) for each in (keys, others))
    fields = frozenset((key, value | others | {UNDEFINED}) for key, value in known.items())
    return frozenset({Fields(fields, keys, others), UNDEFINED})


def _is(kinds: tuple[type, ...], admits: Callable[[Shape], bool]) -> Callable[[Sequence[Value], Absence], Value]:
    def check(arguments: Sequence[Value], _: Absence) -> Value:
        results = []
        for shape in defined(arguments[0]):
            if isinstance(shape, Constant):
                results.append(constant(type(shape.value) in kinds))
            elif isinstance(shape, MADE):
                results.append(constant(admits(shape)))
            else:
                results.append(BOOLEANS)
        return joined(results)

    return check


def _count(arguments: Sequence[Value], _: Absence) -> Value:
    results = []
    for shape in defined(arguments[0]):
        empty = not list(entries(frozenset({shape}))) and isinstance(shape, MADE)
        results.append(constant(0) if empty else ANY)
    return joined(results)


def _sprintf(arguments: Sequence[Value], _: Absence) -> Value:
    """Return a printed value as it is, and other texts as unknown."""
    template, printed = arguments
    if template != constant("%v"):
        return ANY
    results = []
    for shape in defined(printed):
        items = shape.items if isinstance(shape, Collection) else None
        if items is None or len(items) != 1:
            return ANY
        for item in items[0]:
            text = item in (TEXT, PIECE) or (isinstance(item, Constant) and isinstance(item.value, str))
            results.append(frozenset({item if text else TEXT if item == RAW else UNKNOWN}))
    return joined(results)


def _piece(arguments: Sequence[Value], _: Absence) -> Value:
    """Return a contiguous piece of a string."""
    whole = all(shape in (RAW, PIECE, UNDEFINED) for shape in arguments[0])
    return frozenset({PIECE, UNDEFINED}) if whole else ANY


def _trimmed(arguments: Sequence[Value], absence: Absence) -> Value:
    """Return a string without a suffix; items of settings are assumed to be absent without a final ``*``."""
    items = all(isinstance(shape, Setting) and shape.path[-1] == "*" for shape in arguments[0])
    return arguments[0] | {UNDEFINED} if items and arguments[1] == constant("*") else _piece(arguments, absence)


def _pieces(arguments: Sequence[Value], absence: Absence) -> Value:
    """Return the pieces of a string; those of an item ``KEY=VALUE`` of a setting are settings too."""
    if arguments[1] == constant("=") and len(arguments[0]) == 1:
        (shape,) = arguments[0]
        if isinstance(shape, Setting) and shape.path[-1] == "*":
            key, value = (frozenset({Setting((*shape.path[:-1], *end))}) for end in (("key",), ("=", "*")))
            return frozenset({Collection(True, (key, value | {UNDEFINED}), key | value), UNDEFINED})
    return frozenset({Collection(True, None, defined(_piece(arguments, absence))), UNDEFINED})


def _affix(arguments: Sequence[Value], absence: Absence) -> Value:
    """Return whether a string starts or ends with another, or contains it."""
    whole, parts = arguments
    result: Value = frozenset({UNDEFINED})
    for shape, part in product(defined(whole), defined(parts)):
        result |= FALSE
        if shape == _NO_TEXT and isinstance(part, Setting):
            # An empty item would be in every request.
            result |= EMPTY if is_absent(RAW, part, absence) else TRUE
        elif shape not in REQUEST:
            result |= TRUE
        elif isinstance(part, Constant) and isinstance(part.value, str):
            result |= EMPTY if absence.part(part.value) else TRUE
        else:
            result |= EMPTY if is_absent(shape, part, absence) else TRUE
    return result


_PATTERN: Final = re.compile(r"([A-Za-z0-9/_-]*)\(([A-Za-z0-9/_-]+(?:\|[A-Za-z0-9/_-]+(?:\.\*)?)*)\)\$")
"""Patterns of which each match contains one of a few texts: a start and alternatives."""


def _matches(arguments: Sequence[Value], absence: Absence) -> Value:
    pattern, texts = arguments
    known = [each.value for each in pattern if isinstance(each, Constant) and isinstance(each.value, str)]
    found = _PATTERN.fullmatch(known[0]) if len(known) == len(pattern) == 1 else None
    if found is None or not all(shape in (RAW, TEXT, PIECE, UNDEFINED) for shape in texts):
        return BOOLEANS | {UNDEFINED}
    wanted = [found[1] + each.removesuffix(".*") for each in found[2].split("|")]
    impossible = [absence.part(each) for each in wanted]
    return FALSE | {UNDEFINED} | (EMPTY if all(impossible) else TRUE)


def _compared(of: Callable[[Any, Any], bool]) -> Callable[[Sequence[Value], Absence], Value]:
    def compare(arguments: Sequence[Value], _: Absence) -> Value:
        results = []
        for one, other in product(*(defined(each) for each in arguments)):
            numbers = [each.value for each in (one, other) if isinstance(each, Constant) and type(each.value) is int]
            results.append(constant(of(*numbers)) if len(numbers) == 2 else BOOLEANS)
        return joined(results)

    return compare


def _same(arguments: Sequence[Value], absence: Absence) -> Value:
    first, second = arguments
    return equal(first, second, absence)


def _differs(arguments: Sequence[Value], absence: Absence) -> Value:
    opposite: Mapping[Shape, Value] = {next(iter(TRUE)): FALSE, next(iter(FALSE)): TRUE}
    return joined(opposite[shape] for shape in _same(arguments, absence))


def _zero_if_all(arguments: Sequence[Value], _: Absence) -> Value:
    """Return zero for a sum or a maximum of zeros only."""
    zeros = all(_elements(frozenset({shape})) <= _ZERO for shape in defined(arguments[0]))
    return _ZERO | {UNDEFINED} if zeros else ANY


def _product(arguments: Sequence[Value], _: Absence) -> Value:
    return _ZERO | {UNDEFINED} if any(defined(each) == _ZERO for each in arguments) else ANY


def _sum(arguments: Sequence[Value], absence: Absence) -> Value:
    made = all(isinstance(each, Collection) for each in arguments[0])
    return _zero_if_all(arguments, absence) - ({UNDEFINED} if made else EMPTY)


_OPERATIONS: Final[Mapping[str, Callable[[Sequence[Value], Absence], Value]]] = {
    "array.concat": _concat,
    "array.flatten": _flatten,
    "contains": _affix,
    "count": _count,
    "endswith": _affix,
    "equal": _same,
    "gt": _compared(lambda one, other: bool(one > other)),
    "gte": _compared(lambda one, other: bool(one >= other)),
    "internal.member_2": _member,
    "is_array": _is((), lambda shape: isinstance(shape, Collection) and shape.ordered),
    "is_number": _is((int, float), lambda _: False),
    "is_object": _is((), lambda shape: isinstance(shape, Fields)),
    "is_string": _is((str,), lambda _: False),
    "lt": _compared(lambda one, other: bool(one < other)),
    "lte": _compared(lambda one, other: bool(one <= other)),
    "max": _zero_if_all,
    "mul": _product,
    "neq": _differs,
    "object.get": _get,
    "object.keys": _keys,
    "object.union": _merge,
    "or": _union,
    "regex.match": _matches,
    "split": _pieces,
    "sprintf": _sprintf,
    "startswith": _affix,
    "sum": _sum,
    "trim_prefix": _piece,
    "trim_space": _piece,
    "trim_suffix": _trimmed,
}
