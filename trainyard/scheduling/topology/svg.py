"""SVG writer: boxes, squares and text, with inline styles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

_COLORS = ("#3b6fb6", "#d1495b", "#2e8b57", "#c79a12", "#6a4c93", "#2a9d8f", "#8c564b", "#7f7f7f")
"""Colors of node shapes, distinguishable with color blindness; the last one is for all further shapes."""
_LEVELS = ("#eef2f7", "#ffffff", "#f4f6f9", "#ffffff", "#f4f6f9")
_STYLE = """\
text{font-family:system-ui,"Segoe UI",Roboto,"DejaVu Sans",Arial,sans-serif;fill:#1f2933}
.title{font-size:18px;font-weight:600}.heading{font-size:12px;font-weight:600}.note{font-size:11px;fill:#52606d}
.box{stroke:#9aa5b1;stroke-width:1}
"""
_WIDE, _BOLD = 6.6, 7.6


@dataclass(frozen=True)
class Shape:
    """Legend entry of a node shape.

    Parameters
    ----------
    name
        Its name.
    offer
        Number of nodes of the shape, and the capacity of each.
    """

    name: str
    offer: str

    @property
    def text(self) -> str:
        """Line of the legend."""
        return f"{self.name}: {self.offer}"


def text_width(text: str, *, bold: bool = False) -> int:
    """Return an upper estimate of the width of a text in pixels."""
    return int(len(text) * (_BOLD if bold else _WIDE)) + 2


class Canvas:
    """SVG drawing of a fixed size.

    Parameters
    ----------
    width, height
        Size in pixels.
    title, description
        Texts for screen readers.
    shapes
        Names of node shapes, in the order of their colors.
    """

    def __init__(self, width: int, height: int, title: str, description: str, shapes: Sequence[str] = ()) -> None:
        self._colors = {name: _COLORS[min(position, len(_COLORS) - 1)] for position, name in enumerate(shapes)}
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img" aria-labelledby="title description">\n'
            f'<title id="title">{escape(title)}</title>\n<desc id="description">{escape(description)}</desc>\n'
            f"<style>{_STYLE}</style>\n"
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n'
        ]

    def open(self, title: str) -> None:
        """Begin a group with a tooltip."""
        self._parts.append(f"<g><title>{escape(title)}</title>\n")

    def close(self) -> None:
        """End a group."""
        self._parts.append("</g>\n")

    def box(self, x: int, y: int, width: int, height: int, level: int) -> None:
        """Draw a box; nested boxes differ in color."""
        color = _LEVELS[level % len(_LEVELS)]
        self._parts.append(
            f'<rect class="box" x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{color}"/>\n'
        )

    def cells(self, corners: Sequence[tuple[int, int]], size: int, shape: str) -> None:
        """Draw a square per node of a shape."""
        path = "".join(f"M{x} {y}h{size}v{size}h-{size}z" for x, y in corners)
        self._parts.append(f'<path fill="{self._colors.get(shape, _COLORS[0])}" d="{path}"/>\n')

    def text(self, x: int, y: int, text: str, style: str) -> None:
        """Write a line of text."""
        self._parts.append(f'<text class={quoteattr(style)} x="{x}" y="{y}">{escape(text)}</text>\n')

    def legend(self, x: int, y: int, shape: Shape) -> None:
        """Write a line of the legend."""
        self.cells([(x, y)], 12, shape.name)
        self.text(x + 20, y + 10, shape.text, "note")

    def svg(self) -> str:
        """Return the SVG document."""
        return "".join([*self._parts, "</svg>\n"])
