"""Field patches: set, remove or add fields of an object by path."""

from __future__ import annotations

import copy
import re
from typing import Any, Final

from pydantic import Field

from trainyard.checks.finding import Finding
from trainyard.settings.settings_model import SettingsModel

_STEP: Final = re.compile(r"(?:^|(?<=.)\.)([^.\[\]]+)|\[([^\]]*)\]")


class Patch(SettingsModel):
    """Changes of an object by field path, in the syntax of findings (``spec.tasks[0].template``, ``labels[a.b/c]``).

    Applied in the order of these fields, and within a field in file order. Paths under ``set`` and ``remove`` must
    exist, and paths under ``add`` must not, so that a misspelled path is an error.
    """

    set: dict[str, Any] = Field(default={}, description="New values of existing fields")
    remove: tuple[str, ...] = Field(default=(), description="Fields and list items to remove")
    add: dict[str, Any] = Field(
        default={}, description="New fields of existing parents; a list item is inserted at its index"
    )

    @property
    def empty(self) -> bool:
        """Whether the patch changes nothing."""
        return not (self.set or self.remove or self.add)


class _PatchError(Exception):
    """A change that cannot be applied; its arguments are the message and the fix."""


def patched(body: dict[str, Any], patch: Patch) -> tuple[dict[str, Any], list[Finding]]:
    """Return a copy with the patch applied, and one finding per change that cannot be applied.

    Paths of findings are those of the patch, such as ``add[spec.nodeName]``.
    """
    result = copy.deepcopy(body)
    findings: list[Finding] = []
    changes = [
        *(("set", path, value) for path, value in patch.set.items()),
        *(("remove", path, None) for path in patch.remove),
        *(("add", path, value) for path, value in patch.add.items()),
    ]
    for kind, path, value in changes:
        try:
            _change(result, kind, path, copy.deepcopy(value))
        except _PatchError as fault:
            message, fix = fault.args
            findings.append(Finding(f"{kind}[{path}]", message, fix))
    return result, findings


def _change(body: dict[str, Any], kind: str, path: str, value: Any) -> None:
    """Apply one change in place."""
    holder, key, where = _place(body, path)
    exists = key in holder if isinstance(holder, dict) else key < len(holder)
    if not exists and kind != "add":
        other = ", or move it to add" if kind == "set" else ""
        raise _PatchError(f"{where} has no {_shown(key)}; it has {_keys(holder)}", f"correct the path{other}")
    if kind == "remove":
        del holder[key]
    elif kind == "set":
        if type(holder[key]) is type(value) and holder[key] == value:
            raise _PatchError(f"the value is already {value!r}", "remove the change, or correct the path")
        holder[key] = value
    elif isinstance(holder, list):
        if key > len(holder):
            raise _PatchError(f"{where} has {len(holder)} items", f"use an index up to {len(holder)}")
        holder.insert(key, value)
    elif exists:
        raise _PatchError(f"the field exists and is {holder[key]!r}", "move it to set, or correct the path")
    else:
        holder[key] = value


def _place(body: dict[str, Any], path: str) -> tuple[Any, Any, str]:
    """Return the parent mapping or list of a path, the field's key in it, and the parent's path."""
    steps = _steps(path)
    holder: Any = body
    where = ""
    for number, step in enumerate(steps):
        key: Any = int(step) if isinstance(holder, list) and step.isdecimal() else step
        shown = where or "the object"
        if not isinstance(holder, dict) and not isinstance(key, int):
            raise _PatchError(
                f"{shown} is {'a list' if isinstance(holder, list) else repr(holder)} and has no field {step!r}",
                "correct the path",
            )
        if number == len(steps) - 1:
            return holder, key, shown
        if key not in holder if isinstance(holder, dict) else key >= len(holder):
            raise _PatchError(
                f"{shown} has no {_shown(key)}; it has {_keys(holder)}", "correct the path, or add its parent"
            )
        holder = holder[key]
        where = _joined(where, step)
    raise AssertionError("a path has steps")


def _steps(path: str) -> list[str]:
    """Split a path into keys and indices."""
    steps, position = [], 0
    while position < len(path) and (match := _STEP.match(path, position)):
        steps.append(match[2] if match[1] is None else match[1])
        position = match.end()
    if not steps or position < len(path):
        raise _PatchError(
            "is not a valid field path", "use the format spec.tasks[0].template.metadata.labels[example.com/team]"
        )
    return steps


def _joined(path: str, step: str) -> str:
    if step.isdecimal() or not re.fullmatch(r"[^.\[\]]+", step):
        return f"{path}[{step}]"
    return f"{path}.{step}" if path else step


def _shown(key: str | int) -> str:
    return f"item {key}" if isinstance(key, int) else f"field {key!r}"


def _keys(holder: Any) -> str:
    if isinstance(holder, list):
        return f"{len(holder)} items"
    return ", ".join(map(str, holder)) or "no fields"
