"""Report of a runtime diff: text, Markdown for a pull request, or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from trainyard.checks.printable_text import markdown, printable
from trainyard.jobs.runtimes.changes.diff import RuntimeChange

_NOTHING: Final = "Nothing changes for a job."


def as_text(old: str, new: str, changes: Sequence[RuntimeChange]) -> str:
    """Return a comparison as text."""
    lines = [f"{old} → {new}"]
    for aspect, group in groupby(changes, key=lambda change: change.aspect):
        lines.append(aspect.value)
        lines += [f"  {change.where}: {change.what}: {_step(change)}" for change in group]
    return "\n".join(map(printable, lines if changes else [*lines, _NOTHING]))


def as_markdown(old: str, new: str, changes: Sequence[RuntimeChange]) -> str:
    """Return a comparison as Markdown for a pull request."""
    lines = [f"### {markdown(old)} → {markdown(new)}", ""]
    if not changes:
        return "\n".join([*lines, _NOTHING])
    lines += ["| What | Where | Field | Before | After |", "| --- | --- | --- | --- | --- |"]
    for change in changes:
        cells = (change.where, change.what, _value(change.before), _value(change.after))
        lines.append(f"| {change.aspect.value} | {' | '.join(_cell(cell) for cell in cells)} |")
    return "\n".join(lines)


def as_json(old: str, new: str, changes: Sequence[RuntimeChange]) -> dict[str, Any]:
    """Return a comparison as JSON data."""
    return {"old": old, "new": new, "changes": [change.as_json() for change in changes]}


def _step(change: RuntimeChange) -> str:
    if change.before is None:
        return f"+ {_value(change.after)}"
    if change.after is None:
        return f"- {_value(change.before)}"
    return f"{_value(change.before)} → {_value(change.after)}"


def _value(value: Any) -> str:
    if value is None:
        return ""
    plain = isinstance(value, str) and value and "\n" not in value
    return value if plain else json.dumps(value, ensure_ascii=False)


def _cell(text: str) -> str:
    escaped = printable(text).replace("\\", "\\\\").replace("|", "\\|").replace("`", "'")
    return f"`{escaped}`" if escaped else ""
