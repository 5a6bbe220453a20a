"""Picture of a fabric: nested boxes, squares for nodes, repeated parts drawn once with their count.

All sizes from 8 to 100,000 nodes have the same form: siblings that differ only in name are one stack of cards. If too
many differ, those that are not drawn are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from trainyard.scheduling.topology.domain_groups import DomainGroup, DomainGrouping
from trainyard.scheduling.topology.fabric_compiler import Fabric, FabricDomain
from trainyard.svg import Svg, arranged, grid_columns, shortened

_FEW = 24
"""Maximum number of domains of a fabric that is drawn without grouping."""
_MAX_BOXES = 240
"""Maximum number of boxes, for readability and file size."""
_WIDEST = (24, 12, 8, 6, 4, 3, 2, 1)
"""Kinds of siblings drawn in one box; the first of these numbers with few enough boxes is used."""
_MAX_CELLS = 96
_CELL, _CELL_GAP = 13, 3
_PAD, _GAP, _CARD = 12, 12, 5
_HEADER, _LINE, _BELOW = 20, 15, 4
_MARGIN = 24
_MIN_WIDTH = 520
_NAME_LENGTH = 34
_ASPECT = 3.2
_OWN_SHAPE = "nodeShape"
_COLORS = ("#3b6fb6", "#d1495b", "#2e8b57", "#c79a12", "#6a4c93", "#2a9d8f", "#8c564b", "#7f7f7f")
"""Colors of node shapes, distinguishable with color blindness; the last one is for all further shapes."""
_LEVELS = ("#eef2f7", "#ffffff", "#f4f6f9", "#ffffff", "#f4f6f9")
_STYLE = """\
text{font-family:system-ui,"Segoe UI",Roboto,"DejaVu Sans",Arial,sans-serif;fill:#1f2933}
.title{font-size:18px;font-weight:600}.heading{font-size:12px;font-weight:600}.note{font-size:11px;fill:#52606d}
.box{stroke:#9aa5b1;stroke-width:1}
"""
_LETTER, _BOLD = 6.6, 7.6


@dataclass(frozen=True)
class _Box:
    """A group of domains with its size and content.

    Parameters
    ----------
    lines
        Heading and further lines.
    names
        Names of the domains, in full.
    width, height
        Size, including the cards behind the box.
    cards
        Number of cards behind it: 0 for a single domain.
    inside
        Boxes inside, with their places.
    cells
        Nodes by shape, if the domain has few enough.
    depth
        Number of levels above it.
    """

    lines: tuple[str, ...]
    names: str
    width: int
    height: int
    cards: int
    inside: tuple[tuple[int, int, _Box], ...]
    cells: tuple[tuple[str, int], ...]
    depth: int


@dataclass(frozen=True)
class _Plan:
    """What is drawn of each domain.

    Parameters
    ----------
    grouping
        The fabric, compared.
    grouped
        Siblings that share a box.
    widest
        Maximum number of kinds of siblings in a box.
    """

    grouping: DomainGrouping
    grouped: Callable[[Sequence[FabricDomain]], list[DomainGroup]]
    widest: int


def picture(fabric: Fabric, title: str = "Network fabric") -> str:
    """Return the fabric as SVG.

    Parameters
    ----------
    fabric
        A compiled fabric.
    title
        Title of the picture, also for screen readers.
    """
    summary, drawing = _summary(fabric), Svg()
    if not fabric.domains:
        _write(drawing, _MARGIN, _MARGIN + _LINE, summary, "heading")
        return drawing.document(_MIN_WIDTH, 2 * _MARGIN + 2 * _LINE, title, summary, _STYLE)
    grouping = DomainGrouping(fabric)
    tops = [domain for domain in fabric.domains if domain.parent is None]
    grouped = grouping.all if len(fabric.domains) > _FEW else grouping.single
    plans = (_Plan(grouping, grouped, widest) for widest in _WIDEST)
    plan = next((plan for plan in plans if _boxes(tops, plan) <= _MAX_BOXES), _Plan(grouping, grouped, 1))
    places, width, height = arranged(_inside(tops, plan, 0), _GAP, _ASPECT)
    colors = {shape: _COLORS[min(position, len(_COLORS) - 1)] for position, shape in enumerate(fabric.shapes)}
    legend = {shape: f"{shape or _OWN_SHAPE}: {_offer(fabric, shape)}" for shape in fabric.shapes}
    width = max(_MIN_WIDTH, width, _text_width(summary), *(_text_width(line) + 20 for line in legend.values()))
    top = _MARGIN + 44
    _write(drawing, _MARGIN, _MARGIN + 12, title, "title")
    _write(drawing, _MARGIN, _MARGIN + 32, summary, "note")
    for shape, line in legend.items():
        drawing.squares([(_MARGIN, top)], 12, fill=colors[shape])
        _write(drawing, _MARGIN + 20, top + 10, line, "note")
        top += 18
    top += 10
    for x, y, box in places:
        _draw(drawing, box, _MARGIN + x, top + y, colors)
    return drawing.document(width + 2 * _MARGIN, top + height + _MARGIN, title, summary, _STYLE)


def _summary(fabric: Fabric) -> str:
    if not fabric.domains:
        return "no fabric declared"
    tiers = []
    for name, number in reversed(fabric.tiers):
        tiers.append(f"{sum(domain.tier == number for domain in fabric.domains):,} × {name} (tier {number})")
    return f"{len(fabric.nodes):,} nodes in {', '.join(tiers)}"


def _offer(fabric: Fabric, shape: str) -> str:
    count = sum(node.shape == shape for node in fabric.nodes)
    capacity = fabric.shapes[shape]
    ordered = sorted(capacity, key=lambda name: ("/" not in name, name))
    return f"{count:,} nodes, each " + ", ".join(f"{capacity[name]} {name}" for name in ordered)


def _boxes(domains: Sequence[FabricDomain], plan: _Plan) -> int:
    groups = plan.grouped(domains)[: plan.widest]
    return len(groups) + sum(_boxes(plan.grouping.below(group.first), plan) for group in groups)


def _inside(domains: Sequence[FabricDomain], plan: _Plan, depth: int) -> list[_Box]:
    groups = plan.grouped(domains)
    boxes = [_box(group, plan, depth) for group in groups[: plan.widest]]
    rest = groups[plan.widest :]
    if rest:
        count = sum(group.count for group in rest)
        nodes = sum(domain.node_count for group in rest for domain in group.domains)
        lines = (f"{count:,} more", f"of {len(rest):,} other kinds", f"{nodes:,} nodes")
        names = _names([domain for group in rest for domain in group.domains])
        boxes.append(_sized(lines, names, 1, [], (), depth))
    return boxes


def _box(group: DomainGroup, plan: _Plan, depth: int) -> _Box:
    first, last = group.first, group.domains[-1]
    ends = (first,) if group.count == 1 else (first, last)
    name = " … ".join(shortened(domain.name, _NAME_LENGTH) for domain in ends)
    nodes = f"{first.node_count:,} node{'' if first.node_count == 1 else 's'}"
    if group.count == 1:
        lines: tuple[str, ...] = (name, f"{first.tier_name}, {nodes}")
    else:
        lines = (name, f"{group.count:,} × {first.tier_name}, each {nodes}")
    boxes = _inside(plan.grouping.below(first), plan, depth + 1) if first.tier > 1 else []
    shapes = tuple(sorted(plan.grouping.shapes[first.name].items()))
    cells = shapes if first.tier == 1 and first.node_count <= _MAX_CELLS else ()
    return _sized(lines, _names(group.domains), min(group.count - 1, 2), boxes, cells, depth)


def _sized(
    lines: tuple[str, ...],
    names: str,
    cards: int,
    boxes: Sequence[_Box],
    cells: tuple[tuple[str, int], ...],
    depth: int,
) -> _Box:
    width = max(_text_width(line, _BOLD if index == 0 else _LETTER) for index, line in enumerate(lines))
    height = _HEADER + (len(lines) - 1) * _LINE
    places, inner_width, inner_height = arranged(boxes, _GAP, _ASPECT)
    if cells:
        count = sum(number for _, number in cells)
        columns = grid_columns(count)
        inner_width = columns * (_CELL + _CELL_GAP) - _CELL_GAP
        inner_height = ceil(count / columns) * (_CELL + _CELL_GAP) - _CELL_GAP
    if boxes or cells:
        width, height = max(width, inner_width), height + inner_height + _BELOW
    behind = cards * _CARD + 2 * _PAD
    return _Box(lines, names, width + behind, height + behind, cards, tuple(places), cells, depth)


def _text_width(text: str, letter: float = _LETTER) -> int:
    """Return an upper estimate of the width of a text in pixels."""
    return int(len(text) * letter) + 2


def _write(drawing: Svg, x: int, y: int, text: str, style: str) -> None:
    drawing.element("text", text, class_=style, x=x, y=y)


def _draw(drawing: Svg, box: _Box, x: int, y: int, colors: Mapping[str, str]) -> None:
    drawing.open("g", box.names)
    size = {"width": box.width - box.cards * _CARD, "height": box.height - box.cards * _CARD, "rx": 6}
    for card in range(box.cards, -1, -1):
        place = {"x": x + card * _CARD, "y": y + card * _CARD}
        drawing.element("rect", class_="box", **place, **size, fill=_LEVELS[box.depth % len(_LEVELS)])
    for index, line in enumerate(box.lines):
        _write(drawing, x + _PAD, y + _PAD + 11 + index * _LINE, line, "heading" if index == 0 else "note")
    top = y + _PAD + _HEADER + (len(box.lines) - 1) * _LINE + _BELOW
    for left, below, inner in box.inside:
        _draw(drawing, inner, x + _PAD + left, top + below, colors)
    columns = grid_columns(sum(count for _, count in box.cells))
    position = 0
    for shape, count in box.cells:
        corners = []
        for number in range(position, position + count):
            row, column = divmod(number, columns)
            corners.append((x + _PAD + column * (_CELL + _CELL_GAP), top + row * (_CELL + _CELL_GAP)))
        drawing.squares(corners, _CELL, fill=colors[shape])
        position += count
    drawing.close("g")


def _names(domains: Sequence[FabricDomain]) -> str:
    if len(domains) <= 12:
        return ", ".join(domain.name for domain in domains)
    shown = ", ".join(domain.name for domain in domains[:8])
    return f"{shown}, … {domains[-1].name} ({len(domains):,})"
