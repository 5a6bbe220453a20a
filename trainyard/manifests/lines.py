"""Line numbers of objects and fields; only documents with findings are parsed for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import yaml

from trainyard.manifests.nodes import InvalidYamlError, compose_all

_STEP: Final = re.compile(r"\[(?P<index>\d+)\]|\[(?P<key>[^\[\]]*)\]|\.?(?P<name>[^.\[\]]+)")


_MARK: Final = re.compile(r"^---(?=[ \t\n]|\Z)", re.MULTILINE)
_DIRECTIVES: Final = ("\n...", "\n%", "\r", "\x85", "\u2028", "\u2029")
"""Text with which document starts cannot be found reliably by ``---`` alone."""
_CONTENT: Final = re.compile(r"^[ \t]*[^ \t\n#]", re.MULTILINE)


class Lines:
    """Line lookup in one YAML or JSON text.

    A document is parsed on its first lookup.

    Parameters
    ----------
    text
        Valid YAML or JSON.
    """

    def __init__(self, text: str) -> None:
        self._parts = list(_parts(text))
        self._nodes: dict[int, list[yaml.Node]] = {}

    def line(self, document: int, items: Sequence[int], path: str) -> int:
        """Return the line of a field, or of the deepest existing part of its path.

        Parameters
        ----------
        document
            Index of the document in the text, 0-based.
        items
            Indexes in the enclosing Lists, outermost first.
        path
            Field path in the object.
        """
        first, node = self._document(document)
        if node is None:
            return 1
        mark = node.start_mark
        for position in items:
            _, node = _child(node, "items")
            inner = _item(node, position)
            if inner is None:
                return first + int(mark.line) + 1
            node, mark = inner, inner.start_mark
        for match in _STEP.finditer(path):
            if match["index"] is not None and isinstance(node, yaml.SequenceNode):
                node = _item(node, int(match["index"]))
                found = node.start_mark if node else None
            else:
                found, node = _child(node, next(text for text in match.groups() if text is not None))
            if node is None or found is None:
                break
            mark = found
        return first + int(mark.line) + 1

    def _document(self, number: int) -> tuple[int, yaml.Node | None]:
        """Return the number of lines before a document's part of the text, and its node."""
        part = min(number, len(self._parts) - 1)
        first, text = self._parts[part]
        if part not in self._nodes:
            try:
                self._nodes[part] = list(compose_all(text))
            except InvalidYamlError:
                self._nodes[part] = []
        nodes = self._nodes[part]
        return first, nodes[number - part] if number - part < len(nodes) else None


def _parts(text: str) -> Iterator[tuple[int, str]]:
    """Yield the documents of a text with the number of lines before each, or the whole text if they cannot be split."""
    ambiguous = text.startswith(("...", "%")) or any(sign in text for sign in _DIRECTIVES)
    starts = [] if ambiguous else [found.start() for found in _MARK.finditer(text)]
    if not starts or _CONTENT.search(text, 0, starts[0]):
        starts.insert(0, 0)
    line = text.count("\n", 0, starts[0])
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        yield line, text[start:end]
        line += text.count("\n", start, end)


def _child(node: yaml.Node | None, name: str) -> tuple[yaml.Mark | None, yaml.Node | None]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == name:
                return key.start_mark, value
    return None, None


def _item(node: yaml.Node | None, position: int) -> yaml.Node | None:
    if isinstance(node, yaml.SequenceNode) and position < len(node.value):
        item: yaml.Node = node.value[position]
        return item
    return None
