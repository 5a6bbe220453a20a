"""A fabric as a tree of text, with what repeats said once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from trainyard.topology.fabric import Fabric, FabricDomain

__all__ = ["draw"]


def draw(fabric: Fabric) -> str:
    """Return the fabric as text: a line for each domain; domains that differ in name alone share one line."""
    if not fabric.domains:
        return "no fabric declared"
    by_name = {domain.name: domain for domain in fabric.domains}
    tops = [domain for domain in fabric.domains if domain.parent is None]
    known: dict[tuple[int, ...], int] = {}
    shapes: dict[str, int] = {}
    for domain in fabric.domains:
        below = [len(domain.members)] if domain.tier == 1 else [shapes[member] for member in domain.members]
        shapes[domain.name] = known.setdefault((domain.tier, *below), len(known))
    total = f"{len(fabric.nodes)} nodes, tiers {', '.join(f'{number} {name}' for name, number in fabric.tiers)}"
    return "\n".join([total, *_lines(tops, by_name, shapes, "")])


def _lines(
    domains: Sequence[FabricDomain], by_name: dict[str, FabricDomain], shapes: dict[str, int], indent: str
) -> Iterator[str]:
    groups = [list(group) for _, group in groupby(domains, key=lambda domain: shapes[domain.name])]
    for position, group in enumerate(groups):
        last = position == len(groups) - 1
        yield f"{indent}{'└─' if last else '├─'} {_title(group)}"
        if group[0].tier > 1:
            below = [by_name[member] for member in group[0].members]
            yield from _lines(below, by_name, shapes, indent + ("   " if last else "│  "))


def _title(group: Sequence[FabricDomain]) -> str:
    first = group[0]
    nodes = f"{first.node_count} node{'s' if first.node_count != 1 else ''}"
    if len(group) == 1:
        return f"{first.tier_name} {first.name}: {nodes}"
    return f"{first.tier_name} {first.name} … {group[-1].name}: {len(group)} × {nodes}"
