"""Drawing of a live fabric with a bounded number of elements: the more nodes, the more of them in one element.

Every node stays visible as a square. Of few nodes each square is an element with a tooltip; of more, the squares of one
color in a rack are one element, then in the domain above, then in the whole drawing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from markupsafe import Markup

from trainyard.svg import Svg, arranged, grid_columns, shortened

MAX_ELEMENTS: Final = 5000
"""Elements of one drawing."""
_CELL, _STEP, _PAD, _GAP, _HEADER = 12, 15, 10, 10, 20
_ASPECT: Final = 2.4
_LETTER: Final = 7
_NAME: Final = 30
_DETAILS: Final = (
    "a node",
    "a color in a rack",
    "a color in a rack, without its name",
    "a color in a domain",
    "a color",
)


@dataclass(frozen=True)
class MapNode:
    """A node: its name, the style of its square and its tooltip."""

    name: str
    style: str
    title: str


@dataclass(frozen=True)
class MapDomain:
    """A domain with those below it, and the nodes that are in none of these."""

    name: str
    tier: str
    children: tuple[MapDomain, ...]
    nodes: tuple[MapNode, ...]

    @property
    def count(self) -> int:
        """Number of its nodes."""
        return len(self.nodes) + sum(child.count for child in self.children)


@dataclass(frozen=True)
class DrawnMap:
    """A drawing with its size, and what one of its elements stands for."""

    drawing: Svg
    width: int
    height: int
    detail: str

    @property
    def elements(self) -> int:
        """Number of elements."""
        return self.drawing.elements + 1

    def svg(self, title: str, scale: float = 1.0) -> Markup:
        """Return the drawing, named for screen readers."""
        return Markup(self.drawing.figure(self.width, self.height, scale, title))  # noqa: S704 - `Svg` escapes


@dataclass(frozen=True)
class _Box:
    """A domain with its size, the places of the boxes inside and of its own nodes."""

    domain: MapDomain
    width: int
    height: int
    inside: tuple[tuple[int, int, _Box], ...]
    cells: tuple[tuple[int, int, MapNode], ...]


def draw_map(
    top: MapDomain, gangs: Sequence[tuple[str, Sequence[str]]] = (), address: Callable[[str], str] | None = None
) -> DrawnMap:
    """Return a drawing of at most `MAX_ELEMENTS` elements.

    Parameters
    ----------
    top
        The domain that is drawn.
    gangs
        Name and nodes of each gang that is outlined.
    address
        Returns the address of the drawing of a domain, to which its name leads.
    """
    last = len(_DETAILS) - 1
    level = 0 if 2 * top.count < MAX_ELEMENTS else 1
    while True:
        box = _sized(top, level)
        painter = _Painter(level, top, address)
        painter.draw(box, 0, 0, 0)
        painter.finish(gangs)
        if painter.drawing.elements < MAX_ELEMENTS or level == last:
            return DrawnMap(painter.drawing, max(1, box.width), max(1, box.height), _DETAILS[level])
        level += 1


def _sized(domain: MapDomain, level: int) -> _Box:
    children = [_sized(child, level) for child in domain.children]
    header = _header(domain, level)
    inside, width, height = arranged(children, _GAP, _ASPECT)
    cells: list[tuple[int, int, MapNode]] = []
    top = height + (_GAP if children and domain.nodes else 0)
    columns = grid_columns(len(domain.nodes))
    for position, node in enumerate(domain.nodes):
        row, column = divmod(position, columns)
        cells.append((column * _STEP, top + row * _STEP, node))
    if domain.nodes:
        width = max(width, columns * _STEP)
        height = top + ceil(len(domain.nodes) / columns) * _STEP
    if header:
        width = max(width, _LETTER * len(_heading(domain)))
    pad = _PAD if header or not domain.name else _STEP - _CELL
    moved = tuple((x + pad, y + pad + header, box) for x, y, box in inside)
    placed = tuple((x + pad, y + pad + header, node) for x, y, node in cells)
    return _Box(domain, width + 2 * pad, height + 2 * pad + header, moved, placed)


def _header(domain: MapDomain, level: int) -> int:
    """Return the height of the heading; racks have none from the third level on."""
    return _HEADER if domain.name and (level < 2 or domain.children) else 0


def _heading(domain: MapDomain) -> str:
    return shortened(domain.name, _NAME)


class _Painter:
    def __init__(self, level: int, top: MapDomain, address: Callable[[str], str] | None) -> None:
        self._level, self._top, self._address = level, top, address
        self._corners: dict[str, tuple[int, int]] = {}
        self._pending: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        self.drawing = Svg()

    def draw(self, box: _Box, x: int, y: int, depth: int) -> None:
        """Draw a domain with all below it."""
        domain, level = box.domain, self._level
        leaf = not domain.children
        # The square of a rack without its name belongs to the domain above from the fourth level on.
        grouped = bool(domain.name) and level < 4 and (not leaf or level < 3)
        if grouped:
            self.drawing.open("g", f"{domain.name}: {domain.tier}, {domain.count} nodes")
            if not leaf or level < 2:
                look = f"box depth-{depth % 2}"
                self.drawing.element("rect", class_=look, x=x, y=y, width=box.width, height=box.height, rx=6)
            if _header(domain, level):
                self._write(domain, x + _PAD, y + _PAD + 9)
        for left, top, inner in box.inside:
            self.draw(inner, x + left, y + top, depth + 1)
        for left, top, node in box.cells:
            corner = (x + left, y + top)
            self._corners[node.name] = corner
            if level == 0:
                place = {"x": x + left, "y": y + top, "width": _CELL, "height": _CELL}
                self.drawing.element("rect", "", node.title, class_=node.style, **place)
            else:
                self._pending[node.style].append(corner)
        if level < 4 and (grouped or not domain.name):
            self._flush()
        if grouped:
            self.drawing.close("g")

    def finish(self, gangs: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Draw what is left, and the outlines of gangs."""
        self._flush()
        for position, (name, nodes) in enumerate(gangs):
            corners = [self._corners[node] for node in nodes if node in self._corners]
            if corners:
                title = f"{name}: {len(corners)} nodes in several racks"
                self.drawing.squares(corners, _CELL, title, class_=f"gang gang-{position % 4}")

    def _write(self, domain: MapDomain, x: int, y: int) -> None:
        address = "" if self._address is None or domain is self._top else self._address(domain.name)
        if address:
            self.drawing.open("a", href=address)
        self.drawing.element("text", _heading(domain), class_="heading", x=x, y=y)
        if address:
            self.drawing.close("a")

    def _flush(self) -> None:
        for style, corners in self._pending.items():
            self.drawing.squares(corners, _CELL, class_=style)
        self._pending.clear()
