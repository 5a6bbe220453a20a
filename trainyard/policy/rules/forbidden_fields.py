"""Forbidden fields: a table in rule.yaml from which the CEL and the Rego of a rule are generated.

A rule of the kind "this field must not have this value" has ``forbidden`` instead of ``cel`` and of a file
``rule.rego``. Both languages then have the same paths and messages by construction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field, StringConstraints, model_validator

from trainyard.settings.settings_model import SettingsModel

_WORD: Final = r"[A-Za-z][A-Za-z0-9]*"
_STEP: Final = rf"(?:{_WORD}|\({_WORD}(?:\|{_WORD})*\))(?:\[\]|\[[A-Za-z0-9./_-]+\])?"
_STEPS: Final = rf"{_STEP}(?:\.{_STEP})*"
_PATH: Final = re.compile(rf"(?:\{{(?P<root>[a-z]+)\}}\.)?(?P<steps>{_STEPS})")
_SHOWN: Final = re.compile(r"(\"?)\{values\}\1")
FieldPath = Annotated[str, StringConstraints(pattern=rf"^(\{{[a-z]+\}}\.)?{_STEPS}$")]
Scalar = bool | int | str


@dataclass(frozen=True)
class _Root:
    """Objects in which a path starts: the fragments and the variable of CEL, the list of Rego, and its field."""

    use: tuple[str, ...]
    variable: str
    listed: str
    path: str
    field: str


_ROOTS: Final = {
    "pod": _Root(("pod-specs",), "everyPod", "pods", "specPath", "spec"),
    "container": _Root(("pod-specs",), "everyContainer", "containers", "path", "container"),
    "metadata": _Root(("pod-specs", "metadata"), "everyMetadata", "metadatas", "path", "metadata"),
}


class ForbiddenFields(SettingsModel):
    """Fields that must not have a value."""

    fields: tuple[FieldPath, ...] = Field(
        min_length=1,
        description="Paths in the object, or in each {pod}, {container} or {metadata} of it and of its templates; "
        "(a|b) stands for one of several fields, items[] for each item of a list, labels[KEY] for the value of a key",
    )
    values: tuple[Scalar, ...] = Field(default=(), description="Values that are not allowed; by default all")
    other_than: tuple[Scalar, ...] = Field(
        default=(), alias="except", description="Values that are allowed; all others are not"
    )
    shown: str = Field(
        default="", pattern=rf"^({_WORD})?$", description="Field of the value that {values} shows; by default itself"
    )
    message: str = Field(description='Text; {values} is replaced by the value, and "{values}" by the value in quotes')

    @property
    def shows(self) -> bool:
        """Whether the message shows the value."""
        return _SHOWN.search(self.message) is not None

    @property
    def quotes(self) -> bool:
        """Whether it shows it in quotes."""
        return '"{values}"' in self.message

    @model_validator(mode="after")
    def _complete(self) -> ForbiddenFields:
        if self.values and self.other_than:
            raise ValueError("use either values or except")
        for path in self.fields:
            if (root := _divided(path)[0]) is not None and root not in _ROOTS:
                raise ValueError(f"{path}: {{{root}}} does not exist; use one of {', '.join(_ROOTS)}")
        return self


@dataclass(frozen=True)
class _Step:
    """One step of a path: one of several fields, and then each item of the list, or the value of a key."""

    names: tuple[str, ...]
    items: bool
    key: str


def _divided(path: str) -> tuple[str | None, list[_Step]]:
    """Return the root of a path, None for the object itself, and its steps."""
    found = _PATH.fullmatch(path)
    assert found is not None  # noqa: S101
    steps = []
    for text in re.findall(_STEP, found["steps"]):
        names, bracket, key = text.partition("[")
        steps.append(_Step(tuple(names.strip("()").split("|")), key == "]", key.removesuffix("]") if bracket else ""))
    return found["root"], steps


def cel_of(entries: Sequence[ForbiddenFields]) -> dict[str, Any]:
    """Return the content of ``cel``."""
    use: list[str] = []
    variables, validations = [], []
    for number, entry in enumerate(entries):
        name = f"forbidden{chr(ord('A') + number)}"
        found = []
        for path in entry.fields:
            root, steps = _divided(path)
            if root is None:
                found.append(_cel_paths("dyn(object)", "", steps, entry, 0))
            else:
                of = _ROOTS[root]
                use += [each for each in of.use if each not in use]
                paths = _cel_paths(f"each.{of.field}", "each.path", steps, entry, 0)
                found.append(f"variables.{of.variable}.map(each, {paths}).flatten()")
        # Adjacent parts of paths become one text.
        variables.append({"name": name, "expression": " + ".join(found).replace('" + "', "")})
        if entry.shows:
            message = _SHOWN.sub("{values}", entry.message)
            validations.append({"each": name, "message": message, "values": {"values": "entry.value"}})
            continue
        paths = f'variables.{name}.join(", ")'
        validations.append({"expression": f"variables.{name}.size() == 0", "paths": paths, "message": entry.message})
    return {"use": use, "variables": variables, "validations": validations}


def _cel_paths(subject: str, path: str, steps: Sequence[_Step], entry: ForbiddenFields, depth: int) -> str:
    """Return an expression for the paths at which a field has a forbidden value.

    Parameters
    ----------
    subject, path
        Expressions of the value and of the path up to the first step; the path of the object is empty.
    depth
        Number of enclosing loops, which names their variables.
    """
    if not steps:
        found = f"[{subject}.orValue(dyn(null))].filter(value, {_cel_condition(entry)})"
        return f"{found}.map(value, {_cel_entry(path, entry)})"
    step, rest = steps[0], steps[1:]
    # Below a step, the subject is an optional value.
    several = len(step.names) > 1
    name = f"name{depth}"
    below = f"{subject}[?{name}]" if several else f"{subject}.?{step.names[0]}"
    dot = f'{path} + "."' if path else ""
    place = f"{dot} + {name}" if several and dot else f"dyn({name})" if several else ""
    if not several:
        place = f'{path} + ".{step.names[0]}"' if path else f'dyn("{step.names[0]}")'
    if step.items:
        index, item = f"i{depth}", f"item{depth}"
        inner = _cel_paths(item, f'{place} + "[" + string({index}) + "]"', rest, entry, depth + 1)
        inner = f"{below}.orValue([]).transformList({index}, {item}, {inner}).flatten()"
    else:
        if step.key:
            below, place = f'{below}[?"{step.key}"]', f'{place} + "[{step.key}]"'
        inner = _cel_paths(below, place, rest, entry, depth + several)
    return f"{json.dumps(list(step.names))}.map({name}, {inner}).flatten()" if several else inner


def _cel_entry(path: str, entry: ForbiddenFields) -> str:
    if not entry.shows:
        return path
    value = f'string(value.?{entry.shown}.orValue(dyn("")))' if entry.shown else "string(value)"
    # The quotes are one text each: adjacent texts of the expression become one.
    shown = f"['\"', {value}, '\"'].join()" if entry.quotes else value
    return f'{{"path": dyn({path}), "value": dyn({shown})}}'


def _cel_condition(entry: ForbiddenFields) -> str:
    listed = json.dumps(list(entry.values or entry.other_than))
    if entry.values:
        return f"value in {listed}"
    return f"value != null && !(value in {listed})" if entry.other_than else "value != null"


def rego_of(package: str, entries: Sequence[ForbiddenFields]) -> str:
    """Return the Rego."""
    text = "\n\n".join(_rego_rule(entry, path) for entry in entries for path in entry.fields)
    used = [name for name in ("pod_templates", "request") if f"{name}." in text]
    imports = [f"import data.trainyard.lib.{name}" for name in used]
    return "\n".join([f"package {package}", "", *imports, "import rego.v1", "", text, ""])


def _rego_rule(entry: ForbiddenFields, path: str) -> str:
    """Return the violations of one path."""
    root, steps = _divided(path)
    of = _ROOTS[root] if root else None
    lines = [f"some each in pod_templates.{of.listed}"] if of else []
    subject = f"each.{of.field}" if of else "request.object"
    texts, values = (["%s"], [f"each.{of.path}"]) if of else ([], [])
    for depth, step in enumerate(steps):
        text = step.names[0]
        if len(step.names) > 1:
            lines.append(f"some name{depth} in {json.dumps(list(step.names))}")
            text, values = "%s", [*values, f"name{depth}"]
        field = f"name{depth}" if text == "%s" else json.dumps(text)
        if step.items:
            lines.append(f"some i{depth}, item{depth} in request.list({subject}, {field})")
            subject, text, values = f"item{depth}", f"{text}[%d]", [*values, f"i{depth}"]
        else:
            subject += f"[{field}]" if field.startswith("name") else f".{text}"
            subject += f"[{json.dumps(step.key)}]" if step.key else ""
            text += f"[{step.key}]" if step.key else ""
            if len(step.names) > 1 and depth + 1 < len(steps):
                lines.append(f"item{depth} := {subject}")
                subject = f"item{depth}"
        texts.append(text)
    template = json.dumps(".".join(texts))
    lines += [f"value := {subject}", *_rego_condition(entry)]
    lines.append(f"path := sprintf({template}, [{', '.join(values)}])" if values else f"path := {template}")
    message = json.dumps(entry.message)
    if entry.shows:
        shown = f'request.text(value, "{entry.shown}")' if entry.shown else "value"
        lines.append(f"message := sprintf({message.replace('{values}', '%v')}, [{shown}])")
        message = "message"
    body = "\n".join(f"\t{line}" for line in lines)
    return f'violation contains {{"path": path, "message": {message}}} if {{\n{body}\n}}'


def _rego_condition(entry: ForbiddenFields) -> list[str]:
    listed = json.dumps(list(entry.values or entry.other_than))
    if entry.values:
        return [f"value in {listed}"]
    return ["value != null", *([f"not value in {listed}"] if entry.other_than else [])]
