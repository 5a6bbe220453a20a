"""Objects of manifests with their source and line; Lists are unpacked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from trainyard.manifests.lines import Lines
from trainyard.manifests.loader import load_all
from trainyard.manifests.nodes import FIX

_MAX_DEPTH: Final = 8
"""Nested Lists that are unpacked; a deeper one is yielded as it is."""
_LIST: Final = "List"


@dataclass(frozen=True)
class Source:
    """Manifest text with its origin.

    Parameters
    ----------
    name
        Name in reports, as given by the user.
    text
        YAML or JSON.
    path
        The file; None: standard input.
    explicit
        Whether the file itself was named, as opposed to its folder.
    """

    name: str
    text: str
    path: Path | None = None
    explicit: bool = True

    @cached_property
    def lines(self) -> Lines:
        """Line lookup, built on first use."""
        return Lines(self.text)


@dataclass(frozen=True)
class Document:
    """One object of a manifest text.

    Parameters
    ----------
    source
        The text that contains it.
    number
        Index of its YAML document in the text, 0-based.
    items
        Indexes in the enclosing Lists, outermost first.
    body
        The object; a document that is not an object is returned as is.
    """

    source: Source
    number: int
    items: tuple[int, ...]
    body: Any

    def line(self, path: str = "") -> int:
        """Return the line of the object, or of a field."""
        return self.source.lines.line(self.number, self.items, path)


def documents(source: Source) -> Iterator[Document]:
    """Yield the objects of a text; empty documents are skipped.

    Raises
    ------
    InvalidYamlError
        The text is neither YAML nor JSON; documents before the error were already yielded.
    """
    for number, body in enumerate(load_all(source.text, source.name)):
        if body is not None:
            for items, inner in _unpacked(body, ()):
                yield Document(source, number, items, inner)


def objects(text: str, source: str = "the text", *, fix: str = FIX) -> Iterator[Any]:
    """Yield the objects of a text without positions; empty documents are skipped.

    Raises
    ------
    InvalidYamlError
        The text is neither YAML nor JSON; documents before the error were already yielded.
    """
    for body in load_all(text, source, fix=fix):
        if body is not None:
            yield from (inner for _, inner in _unpacked(body, ()))


def in_namespace(body: Any, namespace: str | None) -> Any:
    """Return an object with a namespace if it names none; no namespace, or anything but an object, changes nothing."""
    metadata = body.get("metadata") if isinstance(body, dict) else None
    if not namespace or not isinstance(metadata, dict) or metadata.get("namespace"):
        return body
    return {**body, "metadata": {**metadata, "namespace": namespace}}


def _unpacked(body: Any, items: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Any]]:
    kind = body.get("kind") if isinstance(body, dict) else None
    inner = body.get("items") if isinstance(kind, str) else None
    if not isinstance(kind, str) or not isinstance(inner, list) or len(items) == _MAX_DEPTH:
        yield items, body
        return
    if not kind.endswith(_LIST):
        yield items, body
        # kubectl also unpacks the objects in any other kind.
        for position, item in enumerate(inner):
            if isinstance(item, dict) and item.get("apiVersion") and item.get("kind"):
                yield from _unpacked(item, (*items, position))
        return
    # Items of a typed list may omit apiVersion and kind.
    inherited = {} if kind == _LIST else {"apiVersion": body.get("apiVersion"), "kind": kind.removesuffix(_LIST)}
    for position, item in enumerate(inner):
        yield from _unpacked({**inherited, **item} if isinstance(item, dict) else item, (*items, position))
