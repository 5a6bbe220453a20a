"""Abstract interpreter of compiled Rego: the values that a rule can have for requests without certain texts.

Reads the plan of ``opa build --target=plan``, in which rules are functions of simple statements. A statement that is
undefined leaves its block. Where the interpreter cannot tell, it follows both ways; states are joined where ways meet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from trainyard.errors import TrainyardError
from trainyard.policy.derivation.abstract_builtins import call
from trainyard.policy.derivation.abstract_operations import entries, equal, lookup
from trainyard.policy.derivation.abstract_values import (
    ANY,
    EMPTY,
    FALSE,
    NULL,
    RAW,
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

State = dict[int, Value]
"""Values by local variable; a missing one is undefined."""
Exits = dict[int, list[State]]
"""States that leave a block, by the number of enclosing blocks that they leave too."""

_NOTHING: Final[Value] = frozenset({UNDEFINED})
_INPUT: Final[Value] = frozenset(
    {
        Fields(
            frozenset(
                {
                    ("request", frozenset({RAW})),
                    ("params", frozenset({Setting(())})),
                    ("parameters", frozenset({Setting(("parameters",))})),
                }
            ),
            frozenset({UNKNOWN}),
            frozenset({UNKNOWN}),
        )
    }
)
_DATA: Final[Value] = frozenset({Setting(("data",))})
_GIVEN: Final[Mapping[str, Value]] = {
    "g0.data.trainyard.lib.request.object": frozenset({RAW}),
    "g0.data.trainyard.lib.listed_controllers.pods": frozenset({Collection(True, (), EMPTY)}),
    "g0.data.trainyard.lib.listed_controllers.kept": _NOTHING,
}
"""What the entry point (`lib/decision.rego`) verifies to be defined, and what holds for kinds that no stack lists: the
prefilter excludes no rules of the others."""
_MOST_ROUNDS: Final = 50


class Program:
    """The compiled rules.

    Parameters
    ----------
    plan
        The content of ``plan.json``.
    """

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self._strings = [each["value"] for each in plan["static"]["strings"] or []]
        self._functions = {each["name"]: each for each in plan["funcs"]["funcs"] or []}

    def has_value(self, rule: str, absence: Absence) -> bool:
        """Return whether a set can have an item for a request that the assumptions admit.

        Parameters
        ----------
        rule
            Path of the set below ``data``, with dots.
        absence
            The assumptions.
        """
        result = _Run(self._functions, self._strings, absence).function(f"g0.data.{rule}", (_INPUT, _DATA))
        return any(not isinstance(each, Collection) or defined(each.elements) for each in defined(result))


class _Run:
    """One interpretation, with the results of the functions that it has called."""

    def __init__(self, functions: Mapping[str, Any], strings: Sequence[str], absence: Absence) -> None:
        self._functions, self._strings, self._absence = functions, strings, absence
        self._results: dict[tuple[str, tuple[Value, ...]], Value] = {}

    def function(self, name: str, arguments: tuple[Value, ...]) -> Value:
        """Return the value of a function."""
        if name in _GIVEN:
            return _GIVEN[name]
        if name not in self._functions:
            return call(name, arguments, self._absence)
        key = name, arguments
        if key not in self._results:
            self._results[key] = ANY
            self._results[key] = self._called(self._functions[name], arguments)
        return self._results[key]

    def _called(self, function: Mapping[str, Any], arguments: tuple[Value, ...]) -> Value:
        state: State = dict(zip(function["params"], arguments, strict=True))
        returned: list[Value] = []
        for block in function["blocks"]:
            end, exits = self._block(block, state, returned)
            following = _joined(
                [*([] if end is None else [end]), *(each for found in exits.values() for each in found)]
            )
            if following is None:
                break
            state = following
        return joined(returned) if returned else _NOTHING

    def _block(self, block: Mapping[str, Any], start: State, returned: list[Value]) -> tuple[State | None, Exits]:
        """Execute a block; return the state at its end, if that can be reached, and those that leave it earlier."""
        state: State | None = dict(start)
        exits: Exits = {}
        for statement in block["stmts"] or []:
            assert state is not None  # noqa: S101
            kind, content = statement["type"], statement["stmt"]
            if kind == "ReturnLocalStmt":
                returned.append(state.get(content["source"], _NOTHING))
            elif kind == "BreakStmt":
                _leave(exits, content.get("index", 0), state)
                state = None
            elif kind == "BlockStmt":
                state = self._nested(content, state, exits, returned)
            elif kind == "ScanStmt":
                state = self._scan(content, state, exits, returned)
            elif kind == "NotStmt":
                end, inner = self._block(content["block"], state, returned)
                for level in filter(None, inner):
                    _leave(exits, level - 1, *inner[level])
                if end is not None:
                    _leave(exits, 0, dict(state))
                if not inner.get(0):
                    state = None
            else:
                state = self._simple(kind, content, state, exits)
            if state is None:
                break
        return state, exits

    def _nested(self, content: Mapping[str, Any], start: State, exits: Exits, returned: list[Value]) -> State | None:
        state: State | None = start
        for block in content["blocks"] or []:
            if state is None:
                break
            end, inner = self._block(block, state, returned)
            for level in filter(None, inner):
                _leave(exits, level - 1, *inner[level])
            state = _joined([*([] if end is None else [end]), *inner.get(0, [])])
        return state

    def _scan(self, content: Mapping[str, Any], start: State, exits: Exits, returned: list[Value]) -> State:
        """Run a loop until its state no longer changes; a break may end the loop, or the blocks around it."""
        before = self._read({"type": "local", "value": content["source"]}, start)
        state, listed = start, list(entries(before))
        for _ in range(_MOST_ROUNDS):
            found = [state]
            for key, value in listed:
                end, inner = self._block(
                    content["block"], {**state, content["key"]: key, content["value"]: value}, returned
                )
                found += [] if end is None else [end]
                for level, states in inner.items():
                    found += states
                    # The number of blocks that a loop counts for is left open.
                    for outer in range(level):
                        _leave(exits, outer, *states)
            following = _joined(found, exact=False) if listed else state
            assert following is not None  # noqa: S101
            if following == state:
                return state
            state = following
        raise TrainyardError(f"The interpretation of a loop does not end after {_MOST_ROUNDS} rounds")

    def _simple(self, kind: str, content: Mapping[str, Any], state: State, exits: Exits) -> State | None:
        """Execute a statement without a block."""
        if kind in ("IsDefinedStmt", "IsUndefinedStmt"):
            return _divided(content["source"], state, exits, defined_follows=kind == "IsDefinedStmt")
        operation = _STATEMENTS.get(kind)
        if operation is None:
            raise TrainyardError(f"The statement {kind} of a policy plan is not supported")
        following = dict(state)
        holds, fails = operation(self, content, following)
        if fails:
            _leave(exits, 0, state)
        return following if holds else None

    def _read(self, operand: Mapping[str, Any], state: State) -> Value:
        kind, value = operand["type"], operand["value"]
        if kind == "local":
            return state.get(value, _NOTHING)
        return constant(self._strings[value] if kind == "string_index" else value)

    def _dot(self, content: Mapping[str, Any], state: State) -> tuple[bool, bool]:
        source, key = (self._read(content[name], state) for name in ("source", "key"))
        return self._set(content["target"], lookup(source, key, self._absence), state)

    def _call(self, content: Mapping[str, Any], state: State) -> tuple[bool, bool]:
        arguments = tuple(self._read(each, state) for each in content["args"] or [])
        return self._set(content["result"], self.function(content["func"], arguments), state)

    def _set(self, target: int, value: Value, state: State) -> tuple[bool, bool]:
        """Assign a result; an undefined one leaves the block."""
        if defined(value):
            state[target] = defined(value)
        return bool(defined(value)), UNDEFINED in value or not value

    def _assign(self, content: Mapping[str, Any], state: State) -> tuple[bool, bool]:
        state[content["target"]] = self._read(content["source"], state)
        return True, False

    def _assign_once(self, content: Mapping[str, Any], state: State) -> tuple[bool, bool]:
        former = defined(state.get(content["target"], EMPTY))
        state[content["target"]] = joined([former, self._read(content["source"], state)])
        return True, False

    def _reset(self, content: Mapping[str, Any], state: State) -> tuple[bool, bool]:
        state[content["target"]] = _NOTHING
        return True, False

    def _made(self, content: Mapping[str, Any], state: State, made: Value) -> tuple[bool, bool]:
        state[content["target"]] = made
        return True, False

    def _number(self, content: Mapping[str, Any], state: State) -> tuple[bool, bool]:
        state[content["target"]] = frozenset({Constant(self._strings[content["Index"]])})
        return True, False

    def _append(self, content: Mapping[str, Any], state: State, place: str) -> tuple[bool, bool]:
        value = self._read(content["value"], state)
        found = []
        for shape in state[content[place]]:
            if isinstance(shape, Collection):
                items = None if shape.items is None else (*shape.items, value)
                shape = Collection(shape.ordered, items, joined([shape.elements, value]))
            found.append(frozenset({shape}))
        state[content[place]] = joined(found)
        return True, False

    def _insert(self, content: Mapping[str, Any], state: State) -> tuple[bool, bool]:
        keys, value = (self._read(content[name], state) for name in ("key", "value"))
        found = []
        for shape in state[content["object"]]:
            if isinstance(shape, Fields):
                names = [key.value for key in keys if isinstance(key, Constant) and isinstance(key.value, str)]
                if len(names) == len(keys) == 1:
                    known = {**dict(shape.known), names[0]: value}
                    shape = Fields(frozenset(known.items()), shape.keys, shape.others)
                else:
                    known = {name: joined([former, value]) for name, former in shape.known}
                    keys, others = joined([shape.keys, keys]), joined([shape.others, value])
                    shape = Fields(frozenset(known.items()), keys, others)
            found.append(frozenset({shape}))
        state[content["object"]] = joined(found)
        return True, False

    def _equality(self, content: Mapping[str, Any], state: State, wanted: bool) -> tuple[bool, bool]:
        first, second = (self._read(content[name], state) for name in ("a", "b"))
        outcome = equal(first, second, self._absence)
        if not wanted and second == FALSE:
            # The truth of a setting.
            settings = [shape for shape in defined(first) if isinstance(shape, Setting)]
            if (
                settings
                and len(settings) == len(defined(first))
                and all(self._absence.flag(each.path) for each in settings)
            ):
                outcome = TRUE
        yes, no = (next(iter(each)) in outcome for each in (TRUE, FALSE))
        return (yes, no) if wanted else (no, yes)

    def _kind(self, content: Mapping[str, Any], state: State, admits: Callable[[Shape], bool]) -> tuple[bool, bool]:
        shapes = defined(self._read(content["source"], state))
        admitted = [admits(shape) for shape in shapes]
        doubtful = any(shape in (RAW, UNKNOWN) or isinstance(shape, Setting) for shape in shapes)
        return doubtful or any(admitted), not all(admitted)


def _divided(local: int, state: State, exits: Exits, *, defined_follows: bool) -> State | None:
    """Divide a state by whether a variable is defined: one part follows, the other leaves the block."""
    value = state.get(local, _NOTHING)
    with_value = {**state, local: defined(value)} if defined(value) else None
    without = {**state, local: _NOTHING} if UNDEFINED in value else None
    following, leaving = (with_value, without) if defined_follows else (without, with_value)
    if leaving is not None:
        _leave(exits, 0, leaving)
    return following


def _leave(exits: Exits, level: int, *states: State) -> None:
    exits.setdefault(level, []).extend(states)


def _joined(states: Sequence[State], *, exact: bool = True) -> State | None:
    if len(states) < 2:
        return dict(states[0]) if states else None
    return {
        local: joined([state.get(local, _NOTHING) for state in states], exact=exact)
        for local in {local for state in states for local in state}
    }


_Statement = Callable[[_Run, Mapping[str, Any], State], tuple[bool, bool]]
_STATEMENTS: Final[Mapping[str, _Statement]] = {
    "ArrayAppendStmt": partial(_Run._append, place="array"),
    "AssignVarOnceStmt": _Run._assign_once,
    "AssignVarStmt": _Run._assign,
    "CallStmt": _Run._call,
    "DotStmt": _Run._dot,
    "EqualStmt": partial(_Run._equality, wanted=True),
    "IsArrayStmt": partial(_Run._kind, admits=lambda shape: isinstance(shape, Collection) and shape.ordered),
    "IsObjectStmt": partial(_Run._kind, admits=lambda shape: isinstance(shape, Fields)),
    "IsSetStmt": partial(_Run._kind, admits=lambda shape: isinstance(shape, Collection) and not shape.ordered),
    "MakeArrayStmt": partial(_Run._made, made=frozenset({Collection(True, (), EMPTY)})),
    "MakeNullStmt": partial(_Run._made, made=NULL),
    "MakeNumberRefStmt": _Run._number,
    "MakeObjectStmt": partial(_Run._made, made=frozenset({Fields(frozenset(), EMPTY, EMPTY)})),
    "MakeSetStmt": partial(_Run._made, made=frozenset({Collection(False, (), EMPTY)})),
    "NotEqualStmt": partial(_Run._equality, wanted=False),
    "ObjectInsertOnceStmt": _Run._insert,
    "ObjectInsertStmt": _Run._insert,
    "ResetLocalStmt": _Run._reset,
    "SetAddStmt": partial(_Run._append, place="set"),
}
