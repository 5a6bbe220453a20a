"""Documents of manifests: each object with its text and line, Lists unpacked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from trainyard.manifests.lines import Lines
from trainyard.manifests.loader import load_all
from trainyard.manifests.nodes import FIX

__all__ = ["Document", "Source", "documents", "objects"]

_DEEPEST: Final = 8
"""Lists inside of Lists."""
_LIST: Final = "List"


@dataclass(frozen=True)
class Source:
    """One text.

    Parameters
    ----------
    name
        As it was given, which is how reports name it.
    text
        Its content.
    path
        The file, None for standard input.
    explicit
        Whether it was named itself and not found in a folder.
    """

    name: str
    text: str
    path: Path | None = None
    explicit: bool = True

    @cached_property
    def lines(self) -> Lines:
        """The lines of the text."""
        return Lines(self.text)


@dataclass(frozen=True)
class Document:
    """One object of a text.

    Parameters
    ----------
    source
        Its text.
    number
        Number of its YAML document in the text, from 0.
    items
        Positions in the Lists around it, outermost first.
    body
        The object, or whatever is there in its place.
    """

    source: Source
    number: int
    items: tuple[int, ...]
    body: Any

    def line(self, path: str = "") -> int:
        """Return the line of the object, or of one of its fields."""
        return self.source.lines.line(self.number, self.items, path)


def documents(source: Source) -> Iterator[Document]:
    """Yield the objects of a text; empty documents are skipped.

    Raises
    ------
    InvalidYamlError
        The text is neither YAML nor JSON; what comes before was yielded.
    """
    for number, body in enumerate(load_all(source.text, source.name)):
        if body is not None:
            for items, inner in _unpacked(body, ()):
                yield Document(source, number, items, inner)


def objects(text: str, source: str = "the text", *, fix: str = FIX) -> Iterator[Any]:
    """Yield the objects of a text without their places; empty documents are skipped.

    Raises
    ------
    InvalidYamlError
        The text is neither YAML nor JSON; what comes before was yielded.
    """
    for body in load_all(text, source, fix=fix):
        if body is not None:
            yield from (inner for _, inner in _unpacked(body, ()))


def _unpacked(body: Any, items: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Any]]:
    kind = body.get("kind") if isinstance(body, dict) else None
    inner = body.get("items") if isinstance(kind, str) and kind.endswith(_LIST) else None
    if not isinstance(kind, str) or not isinstance(inner, list) or len(items) == _DEEPEST:
        yield items, body
        return
    # A typed list says what its items are; they may leave it out.
    about = {} if kind == _LIST else {"apiVersion": body.get("apiVersion"), "kind": kind.removesuffix(_LIST)}
    for position, item in enumerate(inner):
        yield from _unpacked({**about, **item} if isinstance(item, dict) else item, (*items, position))
