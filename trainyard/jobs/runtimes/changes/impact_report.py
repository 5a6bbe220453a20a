"""Report of a runtime change's impact: text, Markdown for a pull request, or JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from trainyard.checks.printable_text import markdown, printable
from trainyard.checks.report.text import counted
from trainyard.jobs.runtimes.changes.impact import Reached, RuntimeEffect

_MEANS: Final = {
    RuntimeEffect.CHANGES: "not started yet: uses the runtime at its start",
    RuntimeEffect.SNAPSHOT: "started: keeps its runtime",
    RuntimeEffect.OVER: "over",
}
_SHOWN: Final = 200
"""Jobs listed in text and Markdown; the others are counted."""


def as_text(names: Sequence[str], found: Sequence[Reached]) -> str:
    """Return the list as text."""
    lines = [_counted(names, found)]
    lines += [f"  {each.job} (runtime {each.runtime}): {_MEANS[each.effect]}" for each in found[:_SHOWN]]
    lines += [f"  and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    return "\n".join(map(printable, lines))


def as_markdown(names: Sequence[str], found: Sequence[Reached]) -> str:
    """Return the list as Markdown for a pull request."""
    lines = [f"### {markdown(_counted(names, found))}"]
    if found:
        lines += ["", "| TrainJob | Runtime | Effect |", "| --- | --- | --- |"]
        lines += [
            f"| {markdown(each.job)} | {markdown(each.runtime)} | {_MEANS[each.effect]} |" for each in found[:_SHOWN]
        ]
    if len(found) > _SHOWN:
        lines.append(f"| {len(found) - _SHOWN} more | | |")
    return "\n".join(lines)


def as_json(names: Sequence[str], found: Sequence[Reached]) -> dict[str, Any]:
    """Return the list as JSON data."""
    return {"runtimes": list(names), "jobs": [each.as_json() for each in found]}


def _counted(names: Sequence[str], found: Sequence[Reached]) -> str:
    counts = Counter(each.effect for each in found)
    parts = [
        f"{counts[effect]} {words}"
        for effect, words in (
            (RuntimeEffect.CHANGES, "not started"),
            (RuntimeEffect.SNAPSHOT, "started"),
            (RuntimeEffect.OVER, "over"),
        )
        if counts[effect]
    ]
    verb = "names" if len(found) == 1 else "name"
    listed = f": {', '.join(parts)}" if parts else ""
    return f"{counted(len(found), 'TrainJob')} {verb} {' or '.join(names)}{listed}"
