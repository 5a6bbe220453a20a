"""Report of conversions: manifests to apply, and notes as comments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from trainyard.api import Body
from trainyard.checks.printable_text import printable
from trainyard.checks.report.text import counted
from trainyard.jobs.convert.conversion import Conversion
from trainyard.jobs.convert.field_finding import Fidelity, FieldFinding
from trainyard.manifests.dump import dump_all

_SHOWN: Final = 3
"""Number of paths in a line about several fields."""


def as_yaml(objects: Iterable[Body]) -> str:
    """Return objects as one stream of YAML documents."""
    return dump_all(objects)


def as_text(conversions: Sequence[Conversion], *, every: bool = False) -> str:
    """Return the notes as YAML comments: the losses of all jobs, then changes, those of one kind in one line.

    Parameters
    ----------
    every
        Whether to list each field by itself, lossless ones too.
    """
    lines = []
    for conversion in conversions:
        made = " and ".join(f"{body['kind']} {body['metadata']['name']}" for body in conversion.objects)
        lines.append(f"{conversion.source}: {made or 'nothing'}")
        lines += [_line(note) for note in conversion.lost]
        if not conversion.objects:
            lines += [_line(note) for note in conversion.notes if note.fidelity is not Fidelity.LOST]
    for conversion in conversions:
        changes = list(_changes(conversion, every=every)) if conversion.objects else []
        if changes and len(conversions) > 1:
            lines.append(f"{conversion.source}, changed:")
        lines += changes
    counts = Counter(note.fidelity for conversion in conversions for note in conversion.notes)
    jobs = sum(bool(conversion.objects) for conversion in conversions)
    lines.append(
        f"{counted(jobs, 'job')} converted: {counts[Fidelity.LOST]} lost, "
        f"{counts[Fidelity.CHANGED]} changed, {counts[Fidelity.LOSSLESS]} the same"
    )
    return "".join(f"# {printable(line)}\n" for line in lines)


def _changes(conversion: Conversion, *, every: bool) -> Iterator[str]:
    """Yield lines about changes: first those with a fix, which ask for something."""
    changed = [note for note in conversion.notes if note.fidelity is Fidelity.CHANGED]
    if every:
        same = [note for note in conversion.notes if note.fidelity is Fidelity.LOSSLESS]
        yield from (_line(note) for note in [*changed, *same])
        return
    kinds: dict[tuple[str, str], list[FieldFinding]] = {}
    for note in changed:
        kinds.setdefault((note.message, note.fix), []).append(note)
    for notes in sorted(kinds.values(), key=lambda notes: not notes[0].fix):
        first, paths = notes[0], [note.path for note in notes if note.path]
        left = len(paths) - _SHOWN
        others = f" and {counted(left, 'other')}" if left > 0 else ""
        yield _line(replace(first, path=", ".join(paths[:_SHOWN]) + others))


def _line(note: FieldFinding) -> str:
    return f"  {' '.join(str(note).split())}"
