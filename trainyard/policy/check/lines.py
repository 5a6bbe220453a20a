"""Where in its file an object or one of its fields is; looked up only for what has a finding."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import yaml

__all__ = ["Lines"]

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STEP: Final = re.compile(r"\[(?P<index>\d+)\]|\[(?P<key>[^\]]*)\]|\.?(?P<name>[^.\[\]]+)")


class Lines:
    """The lines of one YAML or JSON text.

    Parameters
    ----------
    text
        The text, which was read without fault before.
    """

    def __init__(self, text: str) -> None:
        try:
            self._documents = list(yaml.compose_all(text, Loader=_LOADER))
        except (yaml.YAMLError, RecursionError):
            self._documents = []

    def line(self, document: int, items: Sequence[int], path: str) -> int:
        """Return the line of a field, or of the deepest part of its path that is there.

        Parameters
        ----------
        document
            Number of the document in the text, from 0.
        items
            Positions in the Lists around the object, outermost first.
        path
            Field path in the object.
        """
        node = self._documents[document] if document < len(self._documents) else None
        if node is None:
            return 1
        mark = node.start_mark
        for position in items:
            _, node = _child(node, "items")
            inner = _item(node, position)
            if inner is None:
                return int(mark.line) + 1
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
        return int(mark.line) + 1


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
