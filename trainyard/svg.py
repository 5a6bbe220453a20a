"""SVG writer, the only place where texts of drawings are escaped; and the layout of boxes in boxes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil, sqrt
from typing import Protocol, TypeVar

from trainyard.checks.printable_text import printable


class Sized(Protocol):
    """A box with a size in pixels."""

    @property
    def width(self) -> int: ...  # noqa: D102
    @property
    def height(self) -> int: ...  # noqa: D102


_Sized = TypeVar("_Sized", bound=Sized)


class Svg:
    """SVG elements in the order in which they are drawn.

    An attribute is written with hyphens (`class_` as ``class``), without those whose value is empty.

    Attributes
    ----------
    elements
        Number of elements, including tooltips.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.elements = 0

    def element(self, name: str, text: str = "", title: str = "", /, **attributes: float | str) -> None:
        """Draw an element with a text or a tooltip."""
        start, inside = self._start(name, attributes), self._tooltip(title) + escaped(text)
        self._parts.append(f"{start}>{inside}</{name}>" if inside else f"{start}/>")

    def open(self, name: str, title: str = "", /, **attributes: float | str) -> None:
        """Begin an element that contains the next ones."""
        self._parts.append(f"{self._start(name, attributes)}>{self._tooltip(title)}")

    def close(self, name: str) -> None:
        """End such an element."""
        self._parts.append(f"</{name}>")

    def squares(
        self, corners: Sequence[tuple[int, int]], size: int, title: str = "", /, **attributes: float | str
    ) -> None:
        """Draw equal squares as one element."""
        path = "".join(f"M{x} {y}h{size}v{size}h-{size}z" for x, y in corners)
        self.element("path", "", title, **attributes, d=path)

    def prepend(self, other: Svg) -> None:
        """Draw other elements behind these."""
        self._parts[:0] = other._parts
        self.elements += other.elements

    def document(self, width: int, height: int, title: str, description: str, style: str) -> str:
        """Return a document on white ground, with texts for screen readers."""
        head = f'role="img" aria-labelledby="title description">\n<title id="title">{escaped(title)}</title>'
        ground = f'<desc id="description">{escaped(description)}</desc>\n<style>{style}</style>\n'
        ground += f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
        return "\n".join([f"{_root(width, height)} {head}", ground, *self._parts, "</svg>\n"])

    def figure(self, width: int, height: int, scale: float, title: str) -> str:
        """Return a part of a page, named for screen readers; styles are the page's, as its security policy demands."""
        head = f'{_root(width, height, scale)} role="group" aria-label="{escaped(title)}">'
        return "".join([head, *self._parts, "</svg>"])

    def _start(self, name: str, attributes: dict[str, float | str]) -> str:
        self.elements += 1
        values = ((key.rstrip("_").replace("_", "-"), _value(value)) for key, value in attributes.items())
        return f"<{name}" + "".join(f' {key}="{value}"' for key, value in values if value)

    def _tooltip(self, title: str) -> str:
        self.elements += bool(title)
        return f"<title>{escaped(title)}</title>" if title else ""


def escaped(text: str) -> str:
    """Return a text as SVG or HTML that shows it on one line."""
    return escape(printable(text))


def arranged(boxes: Sequence[_Sized], gap: int, aspect: float) -> tuple[list[tuple[int, int, _Sized]], int, int]:
    """Return boxes with their places in rows of about this aspect ratio, and the size of all."""
    area = sum((box.width + gap) * (box.height + gap) for box in boxes)
    target = max([int(sqrt(area * aspect)), *(box.width for box in boxes)], default=0)
    places: list[tuple[int, int, _Sized]] = []
    x = y = tallest = widest = 0
    for box in boxes:
        if x and x + box.width > target:
            x, y, tallest = 0, y + tallest + gap, 0
        places.append((x, y, box))
        x += box.width + gap
        tallest, widest = max(tallest, box.height), max(widest, x - gap)
    return places, widest, y + tallest


def grid_columns(count: int) -> int:
    """Return the columns of a grid of squares: one row of up to eight, then two to three times as many as rows."""
    return max(1, count if count <= 8 else max(8, ceil(sqrt(count * 2))))


def shortened(name: str, length: int) -> str:
    """Return a name without the middle if it is longer than this."""
    half = (length - 1) // 2
    return name if len(name) <= length else f"{name[:half]}…{name[-half:]}"


def _root(width: int, height: int, scale: float = 1) -> str:
    size = f'width="{round(width * scale)}" height="{round(height * scale)}" viewBox="0 0 {width} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}'


def _value(value: float | str) -> str:
    if isinstance(value, str):
        return escaped(value)
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
