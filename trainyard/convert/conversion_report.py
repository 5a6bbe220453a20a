"""Report of conversions: manifests to apply, and notes as comments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from trainyard.api import Body
from trainyard.checks.printable_text import printable
from trainyard.convert.conversion import Conversion
from trainyard.convert.field_finding import Fidelity
from trainyard.manifests.dump import dump_all

__all__ = ["as_text", "as_yaml"]

_SHOWN: Final = (Fidelity.LOST, Fidelity.CHANGED)


def as_yaml(objects: Iterable[Body]) -> str:
    """Return objects as one stream of YAML documents."""
    return dump_all(objects)


def as_text(conversions: Sequence[Conversion], *, every: bool = False) -> str:
    """Return the notes as YAML comments.

    Parameters
    ----------
    every
        Whether to include lossless fields.
    """
    lines = []
    for conversion in conversions:
        made = " and ".join(f"{body['kind']} {body['metadata']['name']}" for body in conversion.objects)
        lines.append(f"{conversion.source}: {made or 'nothing'}")
        fidelities = (*_SHOWN, Fidelity.LOSSLESS) if every or not conversion.objects else _SHOWN
        for fidelity in fidelities:
            lines += [f"  {' '.join(str(note).split())}" for note in conversion.notes if note.fidelity is fidelity]
    counts = Counter(note.fidelity for conversion in conversions for note in conversion.notes)
    jobs = sum(bool(conversion.objects) for conversion in conversions)
    lines.append(
        f"{jobs} job{'' if jobs == 1 else 's'} converted: {counts[Fidelity.LOST]} lost, "
        f"{counts[Fidelity.CHANGED]} changed, {counts[Fidelity.LOSSLESS]} the same"
    )
    return "".join(f"# {printable(line)}\n" for line in lines)
