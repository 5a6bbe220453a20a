"""Picture of a fabric: nested boxes, squares for nodes, repeated parts drawn once with their count.

All sizes from 8 to 100,000 nodes have the same form: siblings that differ only in name are one stack of cards. If too
many differ, those that are not drawn are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, sqrt

from trainyard.scheduling.topology.domain_groups import DomainGroup, DomainGrouping
from trainyard.scheduling.topology.fabric_compiler import Fabric, FabricDomain
from trainyard.scheduling.topology.svg import Canvas, Shape, text_width

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
_OWN_SHAPE = "nodeShape"


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
        Size, without the cards behind the box.
    cards
        Number of cards behind it: 0 for a single domain.
    rows
        Boxes inside, by row.
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
    rows: tuple[tuple[_Box, ...], ...]
    cells: tuple[tuple[str, int], ...]
    depth: int

    @property
    def full_width(self) -> int:
        """Width including its cards."""
        return self.width + self.cards * _CARD

    @property
    def full_height(self) -> int:
        """Height including its cards."""
        return self.height + self.cards * _CARD


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
    summary = _summary(fabric)
    if not fabric.domains:
        canvas = Canvas(_MIN_WIDTH, 2 * _MARGIN + 2 * _LINE, title, summary)
        canvas.text(_MARGIN, _MARGIN + _LINE, summary, "heading")
        return canvas.svg()
    grouping = DomainGrouping(fabric)
    tops = [domain for domain in fabric.domains if domain.parent is None]
    grouped = grouping.all if len(fabric.domains) > _FEW else grouping.single
    plans = (_Plan(grouping, grouped, widest) for widest in _WIDEST)
    plan = next((plan for plan in plans if _boxes(tops, plan) <= _MAX_BOXES), _Plan(grouping, grouped, 1))
    rows = _rows(_inside(tops, plan, 0))
    legend = [Shape(name or _OWN_SHAPE, _offer(fabric, name)) for name in fabric.shapes]
    width = max(_MIN_WIDTH, _width(rows), text_width(summary), *(text_width(shape.text) + 20 for shape in legend))
    top = _MARGIN + 44 + len(legend) * 18 + 10
    canvas = Canvas(width + 2 * _MARGIN, top + _height(rows) + _MARGIN, title, summary, tuple(s.name for s in legend))
    canvas.text(_MARGIN, _MARGIN + 12, title, "title")
    canvas.text(_MARGIN, _MARGIN + 32, summary, "note")
    for position, shape in enumerate(legend):
        canvas.legend(_MARGIN, _MARGIN + 44 + position * 18, shape)
    _draw_rows(canvas, rows, _MARGIN, top)
    return canvas.svg()


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
        boxes.append(_sized(lines, names, 1, (), (), depth))
    return boxes


def _box(group: DomainGroup, plan: _Plan, depth: int) -> _Box:
    first, last = group.first, group.domains[-1]
    name = _short(first.name) if group.count == 1 else f"{_short(first.name)} … {_short(last.name)}"
    nodes = f"{first.node_count:,} node{'' if first.node_count == 1 else 's'}"
    if group.count == 1:
        lines: tuple[str, ...] = (name, f"{first.tier_name}, {nodes}")
    else:
        lines = (name, f"{group.count:,} × {first.tier_name}, each {nodes}")
    rows = _rows(_inside(plan.grouping.below(first), plan, depth + 1)) if first.tier > 1 else ()
    shapes = tuple(sorted(plan.grouping.shapes[first.name].items()))
    cells = shapes if first.tier == 1 and first.node_count <= _MAX_CELLS else ()
    return _sized(lines, _names(group.domains), min(group.count - 1, 2), rows, cells, depth)


def _sized(
    lines: tuple[str, ...],
    names: str,
    cards: int,
    rows: tuple[tuple[_Box, ...], ...],
    cells: tuple[tuple[str, int], ...],
    depth: int,
) -> _Box:
    width = max(text_width(line, bold=index == 0) for index, line in enumerate(lines))
    height = _HEADER + (len(lines) - 1) * _LINE
    if rows:
        width, height = max(width, _width(rows)), height + _height(rows) + _BELOW
    elif cells:
        count = sum(number for _, number in cells)
        columns = _columns(count)
        grid = ceil(count / columns)
        width = max(width, columns * (_CELL + _CELL_GAP) - _CELL_GAP)
        height += grid * (_CELL + _CELL_GAP) - _CELL_GAP + _BELOW
    return _Box(lines, names, width + 2 * _PAD, height + 2 * _PAD, cards, rows, cells, depth)


def _columns(count: int) -> int:
    return count if count <= 8 else max(8, ceil(sqrt(count * 2)))


def _rows(boxes: Sequence[_Box]) -> tuple[tuple[_Box, ...], ...]:
    """Arrange boxes in rows, with a total aspect ratio of about 3:1."""
    area = sum((box.full_width + _GAP) * (box.full_height + _GAP) for box in boxes)
    target = max([int(sqrt(area * 3.2)), *(box.full_width for box in boxes)], default=0)
    rows: list[list[_Box]] = []
    used = 0
    for box in boxes:
        if not rows or used + box.full_width > target:
            rows.append([])
            used = 0
        rows[-1].append(box)
        used += box.full_width + _GAP
    return tuple(tuple(row) for row in rows)


def _width(rows: Sequence[Sequence[_Box]]) -> int:
    return max((sum(box.full_width + _GAP for box in row) - _GAP for row in rows), default=0)


def _height(rows: Sequence[Sequence[_Box]]) -> int:
    return sum(max(box.full_height for box in row) + _GAP for row in rows) - _GAP


def _draw_rows(canvas: Canvas, rows: Sequence[Sequence[_Box]], left: int, top: int) -> None:
    for row in rows:
        x = left
        for box in row:
            _draw(canvas, box, x, top)
            x += box.full_width + _GAP
        top += max(box.full_height for box in row) + _GAP


def _draw(canvas: Canvas, box: _Box, x: int, y: int) -> None:
    canvas.open(box.names)
    for card in range(box.cards, 0, -1):
        canvas.box(x + card * _CARD, y + card * _CARD, box.width, box.height, box.depth)
    canvas.box(x, y, box.width, box.height, box.depth)
    for index, line in enumerate(box.lines):
        canvas.text(x + _PAD, y + _PAD + 11 + index * _LINE, line, "heading" if index == 0 else "note")
    inside = y + _PAD + _HEADER + (len(box.lines) - 1) * _LINE + _BELOW
    _draw_rows(canvas, box.rows, x + _PAD, inside)
    _draw_cells(canvas, box.cells, x + _PAD, inside)
    canvas.close()


def _draw_cells(canvas: Canvas, cells: tuple[tuple[str, int], ...], left: int, top: int) -> None:
    columns = _columns(sum(count for _, count in cells))
    position = 0
    for shape, count in cells:
        corners = []
        for number in range(position, position + count):
            row, column = divmod(number, columns)
            corners.append((left + column * (_CELL + _CELL_GAP), top + row * (_CELL + _CELL_GAP)))
        canvas.cells(corners, _CELL, shape or _OWN_SHAPE)
        position += count


def _names(domains: Sequence[FabricDomain]) -> str:
    if len(domains) <= 12:
        return ", ".join(domain.name for domain in domains)
    shown = ", ".join(domain.name for domain in domains[:8])
    return f"{shown}, … {domains[-1].name} ({len(domains):,})"


def _short(name: str) -> str:
    if len(name) <= _NAME_LENGTH:
        return name
    half = (_NAME_LENGTH - 1) // 2
    return f"{name[:half]}…{name[-half:]}"
