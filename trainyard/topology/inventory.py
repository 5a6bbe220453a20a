"""Inventory of real nodes, independent of its source."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.settings.fabric import NodeShape

__all__ = ["MAX_PROBLEMS", "Found", "Survey", "dns_label", "natural", "refuse"]

MAX_PROBLEMS = 50
"""Faults that one message lists; the rest is counted."""

_LABEL_LIMIT = 63
_DIGITS = re.compile(r"(\d+)")
_OTHER = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Found:
    """One node as a source describes it.

    Parameters
    ----------
    name
        Name of the node.
    path
        Names of the domains it is in as the source spells them, lowest tier first.
    where
        Where the source says so, for messages: ``line 12``, ``Node gpu-1``.
    shape
        Name of its shape, empty where the source tells none.
    rails
        Leaf switch of each rail, empty where the source tells none.
    """

    name: str
    path: tuple[str, ...]
    where: str
    shape: str = ""
    rails: tuple[str, ...] = ()


@dataclass(frozen=True)
class Survey:
    """The nodes of a fabric and where they are.

    Parameters
    ----------
    tiers
        Names of the tiers, lowest first.
    nodes
        The nodes.
    shapes
        Node shapes by name; what is absent is left to the reader of the settings.
    notes
        What was done that the reader should know: what was left out, merged or renamed.
    """

    tiers: tuple[str, ...]
    nodes: tuple[Found, ...]
    shapes: Mapping[str, NodeShape] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def dns_label(text: str) -> str:
    """Return a name as a DNS label: small letters, digits and single hyphens; a long one is cut and gets a checksum.

    The result depends on the name alone, so that it stays when others appear; it is empty for a name without any
    letter or digit.
    """
    label = _OTHER.sub("-", text.lower()).strip("-")
    if len(label) <= _LABEL_LIMIT:
        return label
    checksum = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{label[: _LABEL_LIMIT - len(checksum) - 1].rstrip('-')}-{checksum}"


def natural(text: str) -> tuple[tuple[int, int | str], ...]:
    """Return a sorting key by which ``rack-2`` comes before ``rack-10``."""
    parts = _DIGITS.split(text)
    return tuple((0, int(part)) if part.isdigit() and part.isascii() else (1, part) for part in parts if part)


def refuse(what: str, findings: Sequence[Finding]) -> None:
    """Raise the faults of a source, if there are any; no more of them than a person reads.

    Raises
    ------
    TrainyardError
        There is a fault.
    """
    if findings:
        shown = list(findings[:MAX_PROBLEMS])
        if len(findings) > len(shown):
            shown.append(Finding("", f"and {len(findings) - len(shown):,} more"))
        raise TrainyardError(what, findings=shown)
