"""Conversions as text: manifests to apply, and what a person has to know about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import yaml

from trainyard.api import Body
from trainyard.convert.conversion import Conversion
from trainyard.convert.note import Fidelity

__all__ = ["as_text", "as_yaml"]

_BASE: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_SHOWN: Final = (Fidelity.LOST, Fidelity.CHANGED)
_WIDTH: Final = 120


class _Dumper(_BASE):  # type: ignore[misc]
    """Writes scripts as blocks and lists of numbers in one line, as people would."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write everything out: anchors are hard to read in a manifest."""
        return True


def _text(dumper: Any, value: str) -> Any:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _list(dumper: Any, value: list[Any]) -> Any:
    numbers = bool(value) and all(type(item) is int for item in value)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=numbers)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)


def as_yaml(objects: Iterable[Body]) -> str:
    """Return objects as one stream of YAML documents."""
    return str(
        yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, allow_unicode=True, explicit_start=True, width=_WIDTH)
    )


def as_text(conversions: Sequence[Conversion], *, every: bool = False) -> str:
    """Return what became of the fields, as comments of YAML.

    Parameters
    ----------
    every
        Whether to list also what is there unchanged.
    """
    lines = []
    for conversion in conversions:
        made = " and ".join(f"{body['kind']} {body['metadata']['name']}" for body in conversion.objects)
        lines.append(f"{conversion.source}: {made or 'nothing'}")
        severities = (*_SHOWN, Fidelity.LOSSLESS) if every or not conversion.objects else _SHOWN
        for severity in severities:
            lines += [f"  {' '.join(str(note).split())}" for note in conversion.notes if note.severity is severity]
    counts = Counter(note.severity for conversion in conversions for note in conversion.notes)
    jobs = sum(bool(conversion.objects) for conversion in conversions)
    lines.append(
        f"{jobs} job{'' if jobs == 1 else 's'} converted: {counts[Fidelity.LOST]} lost, "
        f"{counts[Fidelity.CHANGED]} changed, {counts[Fidelity.LOSSLESS]} the same"
    )
    return "".join(f"# {line}\n" for line in lines)
