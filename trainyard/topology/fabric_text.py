"""Text tree of a fabric, with repeated parts shown once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainyard.topology.domain_groups import Alike, Alikeness
from trainyard.topology.fabric_compiler import Fabric, FabricDomain

__all__ = ["draw"]

_OWN_SHAPE = "nodeShape"


def draw(fabric: Fabric) -> str:
    """Return the fabric as text: a line for each domain; neighbours that differ in name alone share one line."""
    if not fabric.domains:
        return "no fabric declared"
    alikeness = Alikeness(fabric)
    tops = [domain for domain in fabric.domains if domain.parent is None]
    total = f"{len(fabric.nodes)} nodes, tiers {', '.join(f'{number} {name}' for name, number in fabric.tiers)}"
    mixed = len(fabric.shapes) > 1
    return "\n".join([total, *_lines(tops, alikeness, "", mixed)])


def _lines(domains: Sequence[FabricDomain], alikeness: Alikeness, indent: str, mixed: bool) -> Iterator[str]:
    groups = alikeness.neighbours(domains)
    for position, group in enumerate(groups):
        last = position == len(groups) - 1
        yield f"{indent}{'└─' if last else '├─'} {_title(group, alikeness, mixed)}"
        yield from _lines(alikeness.below(group.first), alikeness, indent + ("   " if last else "│  "), mixed)


def _title(group: Alike, alikeness: Alikeness, mixed: bool) -> str:
    first = group.first
    nodes = f"{first.node_count} node{'s' if first.node_count != 1 else ''}"
    if mixed:
        shapes = sorted(alikeness.shapes[first.name].items())
        nodes += f" ({', '.join(f'{count} {shape or _OWN_SHAPE}' for shape, count in shapes)})"
    if group.count == 1:
        return f"{first.tier_name} {first.name}: {nodes}"
    return f"{first.tier_name} {first.name} … {group.domains[-1].name}: {group.count} × {nodes}"
