"""SVG elements without inline styles, which the pages' content security policy rejects; elements are counted."""

from __future__ import annotations

from collections.abc import Sequence

import markupsafe
from markupsafe import Markup

from trainyard.checks.printable_text import printable


def squares(corners: Sequence[tuple[int, int]], size: int) -> str:
    """Return the path of squares."""
    return "".join(f"M{x} {y}h{size}v{size}h-{size}z" for x, y in corners)


class Drawing:
    """SVG drawing; texts are escaped.

    Attributes
    ----------
    elements
        Number of elements.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.elements = 0

    def open(self, title: str) -> None:
        """Begin a group with a tooltip."""
        self._add(f"<g><title>{escape(title)}</title>", 2)

    def close(self) -> None:
        """End a group."""
        self._parts.append("</g>")

    def box(self, x: int, y: int, width: int, height: int, depth: int) -> None:
        """Draw a box; nested boxes differ in color."""
        self._add(f'<rect class="box depth-{depth % 2}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>', 1)

    def cells(self, corners: Sequence[tuple[int, int]], size: int, style: str) -> None:
        """Draw equal squares as one element."""
        self._add(f'<path class="{escape(style)}" d="{squares(corners, size)}"/>', 1)

    def cell(self, corner: tuple[int, int], size: int, style: str, title: str) -> None:
        """Draw one square with a tooltip."""
        x, y = corner
        rect = f'<rect class="{escape(style)}" x="{x}" y="{y}" width="{size}" height="{size}"'
        self._add(f"{rect}><title>{escape(title)}</title></rect>", 2)

    def outline(self, corners: Sequence[tuple[int, int]], size: int, style: str, title: str) -> None:
        """Draw the outline of squares with a tooltip."""
        path = squares(corners, size)
        self._add(f'<path class="{escape(style)}" d="{path}"><title>{escape(title)}</title></path>', 2)

    def text(self, x: int, y: int, text: str, style: str) -> None:
        """Write a line of text."""
        self._add(f'<text class="{escape(style)}" x="{x}" y="{y}">{escape(text)}</text>', 1)

    def link(self, x: int, y: int, text: str, style: str, address: str) -> None:
        """Write a line of text that leads to another page."""
        self._add(f'<a href="{escape(address)}">', 1)
        self.text(x, y, text, style)
        self._parts.append("</a>")

    def svg(self, width: int, height: int, scale: float, title: str) -> Markup:
        """Return the drawing with a size and a scale, named for screen readers."""
        size = f'width="{round(width * scale)}" height="{round(height * scale)}" viewBox="0 0 {width} {height}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="group" aria-label="{escape(title)}">'
        return Markup(f"{head}{''.join(self._parts)}</svg>")  # noqa: S704 - every part is escaped above

    def _add(self, part: str, elements: int) -> None:
        self._parts.append(part)
        self.elements += elements


def escape(text: str) -> Markup:
    """Return a text as SVG that shows it."""
    return markupsafe.escape(printable(text))
