"""Edits of single values of a YAML text that preserve all other lines and comments.

Lines are edited at the positions that the parser reports. A round trip (ruamel.yaml) keeps the lines of nearly every
file, but attaches a comment to the entry above it: an entry that is inserted takes the comment of the next one, and a
removed entry leaves its own comment and takes that of the next (`tests/manifests/test_text_edits.py` has the cases).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import yaml

from trainyard.manifests.scalars import is_ambiguous

Rank = Callable[[tuple[str | int, ...], str], Any]
"""Sort key of a mapping key, by the mapping's path; determines the position of new keys."""

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WIDTH: Final = 118


def dumped(value: Any, indent: int = 0) -> str:
    """Return a value as indented block-style YAML, with a trailing newline."""
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH - indent)
    return "".join(f"{' ' * indent}{line}" if line.strip() else line for line in text.splitlines(keepends=True))


def with_value(text: str, path: Sequence[str | int], value: Any, rank: Rank = lambda _, key: 0) -> str:
    """Return a text with the value at a path replaced.

    Parameters
    ----------
    text
        One YAML document with a mapping as its root.
    path
        Keys and indices. Missing trailing keys are added.
    value
        The new value.
    rank
        Position of a new key: before the first key with a higher rank, else at the end.

    Raises
    ------
    KeyError
        An index of the path does not exist.
    """
    node = yaml.compose(text, Loader=_LOADER)
    for depth, part in enumerate(path):
        if not isinstance(node, yaml.MappingNode | yaml.SequenceNode) or _inline(node):
            return (
                with_value(text, path[:depth], _merged(_data(node), path[depth:], value), rank)
                if depth
                else dumped(_merged(_data(node), path, value))
            )
        if isinstance(node, yaml.SequenceNode):
            if not isinstance(part, int) or part >= len(node.value):
                raise KeyError(part)
            node = node.value[part]
            continue
        found = next(((key, inner) for key, inner in node.value if key.value == str(part)), None)
        if found is None:
            return _inserted(text, node, tuple(path[:depth]), _nested(path[depth:], value), rank)
        if depth == len(path) - 1:
            return _replaced(text, *found, value)
        node = found[1]
    raise KeyError("an empty path")


def removed(text: str, path: Sequence[str]) -> str:
    """Return a text without the key at a path and the comment lines directly above it.

    Raises
    ------
    KeyError
        The key does not exist.
    """
    node = yaml.compose(text, Loader=_LOADER)
    for part in path[:-1]:
        node = _value(node, part)
    if not isinstance(node, yaml.MappingNode):
        raise KeyError(path[-1])
    if len(node.value) == 1 or _inline(node):
        left = {key: inner for key, inner in _data(node).items() if key != path[-1]}
        return with_value(text, path[:-1], left)
    key, inner = next((key, inner) for key, inner in node.value if key.value == path[-1])
    lines = text.splitlines(keepends=True)
    first = _with_comments(lines, key.start_mark.line, key.start_mark.column)
    return "".join([*lines[:first], *lines[_last_line(inner) + 1 :]])


def _value(node: yaml.Node | None, part: str) -> yaml.Node:
    if isinstance(node, yaml.MappingNode):
        for key, inner in node.value:
            if key.value == part:
                found: yaml.Node = inner
                return found
    raise KeyError(part)


def _inline(node: yaml.Node) -> bool:
    return not node.value or (isinstance(node, yaml.CollectionNode) and bool(node.flow_style))


def _data(node: yaml.Node | None) -> Any:
    """Return the data of a list or mapping; empty for a scalar, which is replaced."""
    if not isinstance(node, yaml.CollectionNode):
        return {}
    return yaml.load(yaml.serialize(node), Loader=_LOADER)  # noqa: S506 - a safe loader


def _nested(path: Sequence[str | int], value: Any) -> dict[str, Any]:
    for part in reversed(path):
        value = {part: value}
    nested: dict[str, Any] = value
    return nested


def _merged(data: Any, path: Sequence[str | int], value: Any) -> Any:
    if not path:
        return value
    if isinstance(data, list):
        position = path[0]
        assert isinstance(position, int)  # noqa: S101
        return [*data[:position], _merged(data[position], path[1:], value), *data[position + 1 :]]
    known = data if isinstance(data, dict) else {}
    return {**known, path[0]: _merged(known.get(path[0], {}), path[1:], value)}


def _inserted(
    text: str, parent: yaml.MappingNode, path: tuple[str | int, ...], entry: dict[str, Any], rank: Rank
) -> str:
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    column = parent.value[0][0].start_mark.column
    (name,) = entry
    later = next((key for key, _ in parent.value if rank(path, key.value) > rank(path, name)), None)
    line = _last_line(parent) + 1 if later is None else _with_comments(lines, later.start_mark.line, column)
    block = dumped(entry, column)
    if later is not None and later is parent.value[0][0] and _opens_item(lines[later.start_mark.line], column):
        line = _last_line(parent.value[0][1]) + 1
    return "".join([*lines[:line], block, *lines[line:]])


def _opens_item(line: str, column: int) -> bool:
    """Return whether a list dash precedes the key on its line, so that nothing can be inserted between them."""
    return bool(line[:column].strip())


def _replaced(text: str, key: yaml.Node, node: yaml.Node, value: Any) -> str:
    lines = text.splitlines(keepends=True)
    first, last = key.start_mark.line, _last_line(node)
    if isinstance(node, yaml.ScalarNode) and not isinstance(value, dict | list) and node.start_mark.line == last:
        line = lines[first]
        new = dumped([value])[2:].rstrip("\n")
        if "\n" not in new:
            begin, end = node.start_mark.column, node.end_mark.column
            gap = "" if line[:begin].endswith(" ") else " "
            lines[first] = f"{line[:begin]}{gap}{new}{line[end:]}"
            return "".join(lines)
    column = key.start_mark.column
    block = dumped({key.value: value}, column)
    before = lines[first][:column]
    return "".join([*lines[:first], before + block[column:], *lines[last + 1 :]])


def _last_line(node: yaml.Node) -> int:
    if isinstance(node, yaml.ScalarNode) or _inline(node):
        ends_before = node.end_mark.column == 0 and node.end_mark.line > node.start_mark.line
        return int(node.end_mark.line) - ends_before
    last = node.value[-1]
    return _last_line(last[1] if isinstance(node, yaml.MappingNode) else last)


def _with_comments(lines: list[str], line: int, column: int) -> int:
    while line and lines[line - 1].startswith(f"{' ' * column}#"):
        line -= 1
    return line


class _Dumper(yaml.SafeDumper):
    """Dumper that quotes ambiguous strings and indents lists below their key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    resolved: object = dumper.resolve(yaml.ScalarNode, value, (True, False))  # type: ignore[no-untyped-call]
    plain = resolved == "tag:yaml.org,2002:str" and not is_ambiguous(value)
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain else '"')


_Dumper.add_representer(str, _text)
