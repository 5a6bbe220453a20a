"""Inventory of real nodes, independent of its source."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.settings.fabric import NodeShape

MAX_FINDINGS = 50
"""Number of findings listed in one message; the others are counted."""

_LABEL_LIMIT = 63
_DIGITS = re.compile(r"(\d+)")
_OTHER = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class InventoryNode:
    """One node as described by a source.

    Parameters
    ----------
    name
        Name of the node.
    path
        Names of its domains as spelled by the source, lowest tier first.
    where
        Position in the source, for messages: ``line 12``, ``Node gpu-1``.
    shape
        Name of its shape; empty if the source does not contain it.
    rails
        Leaf switch of each rail; empty if the source does not contain them.
    """

    name: str
    path: tuple[str, ...]
    where: str
    shape: str = ""
    rails: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inventory:
    """The nodes of a fabric and their domains.

    Parameters
    ----------
    tiers
        Names of the tiers, lowest first.
    nodes
        The nodes.
    shapes
        Node shapes by name; missing ones must be added to the settings.
    notes
        Notes for the user: what was left out, merged or renamed.
    """

    tiers: tuple[str, ...]
    nodes: tuple[InventoryNode, ...]
    shapes: Mapping[str, NodeShape] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def dns_label(text: str) -> str:
    """Return a name as a DNS label: lower case, digits and single hyphens; a long one is shortened and gets a checksum.

    The result depends only on the name, so it is stable when other names are added; it is empty for a name without
    letters and digits.
    """
    label = _OTHER.sub("-", text.lower()).strip("-")
    if len(label) <= _LABEL_LIMIT:
        return label
    checksum = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{label[: _LABEL_LIMIT - len(checksum) - 1].rstrip('-')}-{checksum}"


def natural(text: str) -> tuple[tuple[int, int | str], ...]:
    """Return a sort key that orders ``rack-2`` before ``rack-10``."""
    parts = _DIGITS.split(text)
    return tuple((0, int(part)) if part.isdigit() and part.isascii() else (1, part) for part in parts if part)


def raise_findings(what: str, findings: Sequence[Finding]) -> None:
    """Raise if a source has errors; a limited number of them is listed.

    Raises
    ------
    TrainyardError
        There is an error.
    """
    if findings:
        shown = list(findings[:MAX_FINDINGS])
        if len(findings) > len(shown):
            shown.append(Finding("", f"and {len(findings) - len(shown):,} more"))
        raise TrainyardError(what, findings=shown)
