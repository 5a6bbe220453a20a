"""Text tree of a fabric, with repeated parts shown once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainyard.scheduling.topology.domain_groups import DomainGroup, DomainGrouping
from trainyard.scheduling.topology.fabric_compiler import Fabric, FabricDomain

_OWN_SHAPE = "nodeShape"


def draw(fabric: Fabric) -> str:
    """Return the fabric as text, one line per domain; adjacent domains that differ only in name share one line."""
    if not fabric.domains:
        return "no fabric declared"
    grouping = DomainGrouping(fabric)
    tops = [domain for domain in fabric.domains if domain.parent is None]
    total = f"{len(fabric.nodes)} nodes, tiers {', '.join(f'{number} {name}' for name, number in fabric.tiers)}"
    mixed = len(fabric.shapes) > 1
    return "\n".join([total, *_lines(tops, grouping, "", mixed)])


def _lines(domains: Sequence[FabricDomain], grouping: DomainGrouping, indent: str, mixed: bool) -> Iterator[str]:
    groups = grouping.adjacent(domains)
    for position, group in enumerate(groups):
        last = position == len(groups) - 1
        yield f"{indent}{'└─' if last else '├─'} {_title(group, grouping, mixed)}"
        yield from _lines(grouping.below(group.first), grouping, indent + ("   " if last else "│  "), mixed)


def _title(group: DomainGroup, grouping: DomainGrouping, mixed: bool) -> str:
    first = group.first
    nodes = f"{first.node_count} node{'s' if first.node_count != 1 else ''}"
    if mixed:
        shapes = sorted(grouping.shapes[first.name].items())
        nodes += f" ({', '.join(f'{count} {shape or _OWN_SHAPE}' for shape, count in shapes)})"
    if group.count == 1:
        return f"{first.tier_name} {first.name}: {nodes}"
    return f"{first.tier_name} {first.name} … {group.domains[-1].name}: {group.count} × {nodes}"
