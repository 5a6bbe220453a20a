"""Build JSON values from composed nodes: unique keys, aliases and merge keys applied, bounded size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import yaml

from trainyard.manifests.nodes import MAPPING, PLAIN, PREFIX, SEQUENCE, TEXT, InvalidKeyError, error_at

_MAX_VALUES: Final = 1_000_000
"""Limit of expanded aliases: more values than any manifest has."""
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    f"{PREFIX}null": (type(None),),
    f"{PREFIX}bool": (bool,),
    f"{PREFIX}int": (int,),
    f"{PREFIX}float": (int, float),
}
_TIMESTAMP: Final = f"{PREFIX}timestamp"


@dataclass(frozen=True)
class Dialect:
    """Differences between manifests and other YAML files.

    Parameters
    ----------
    value, key
        Return the value of an unquoted scalar or key; raise ValueError if it has no equivalent in JSON.
    last_key_wins
        Whether duplicate keys are accepted.
    """

    value: Callable[[str], Any]
    key: Callable[[str], Any]
    last_key_wins: bool = False


def value_of(node: yaml.Node, dialect: Dialect, *, aliases: bool) -> Any:
    """Return the value of a document.

    Replaces the constructors of PyYAML, which take most of the time of loading.

    Parameters
    ----------
    node
        Root node of the document.
    dialect
        Conversion of scalars and keys.
    aliases
        Whether the text may contain anchors.

    Raises
    ------
    yaml.YAMLError
        The document has no equivalent in JSON, or its aliases expand beyond the limit.
    """
    document = _Builder(dialect, {} if aliases else None).built(node)
    if aliases:
        _limit_expansion(document, node)
    return document


def _limit_expansion(document: Any, node: yaml.Node) -> None:
    left, waiting = _MAX_VALUES, [document]
    while waiting:
        value = waiting.pop()
        left -= 1
        if left < 0:
            raise error_at(node, f"aliases expand to more than {_MAX_VALUES:,} values")
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


_UNFINISHED: Final = object()


@dataclass
class _Builder:
    """Builds the values of one document.

    Parameters
    ----------
    dialect
        Conversion of scalars and keys.
    known
        Value by node id, for aliases; None: the text has no anchors.
    """

    dialect: Dialect
    known: dict[int, Any] | None

    def built(self, node: yaml.Node) -> Any:
        """Return the value of a node."""
        if isinstance(node, yaml.ScalarNode):
            return node.value if node.tag == TEXT else self._scalar(node)
        known = self.known
        if known is None:
            return self._collection(node)
        if id(node) not in known:
            known[id(node)] = _UNFINISHED
            known[id(node)] = self._collection(node)
        elif known[id(node)] is _UNFINISHED:
            raise error_at(node, "an alias refers to a collection that contains it")
        return known[id(node)]

    def _collection(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.MappingNode) and node.tag == MAPPING:
            return self._mapping(node)
        if isinstance(node, yaml.SequenceNode) and node.tag == SEQUENCE:
            return [self.built(item) for item in node.value]
        raise error_at(node, f"tag {_shown(node.tag)} is not supported")

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        try:
            value = self.dialect.value(node.value)
        except ValueError as error:
            raise error_at(node, str(error)) from error
        if node.tag == PLAIN:
            return value
        if node.tag == _TIMESTAMP:
            return node.value
        if node.tag not in _TYPES:
            raise error_at(node, f"tag {_shown(node.tag)} is not supported")
        if not isinstance(value, _TYPES[node.tag]) or (isinstance(value, bool) and node.tag != f"{PREFIX}bool"):
            raise error_at(node, f"{node.value!r} is not of the type {_shown(node.tag)}")
        return value

    def _mapping(self, node: yaml.MappingNode) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        merged: set[Any] = set()
        for key, value in node.value:
            if type(key) is not yaml.ScalarNode:
                raise InvalidKeyError(None, None, "a key must be a scalar, not a mapping or a list", key.start_mark)
            if key.value == "<<" and key.tag == PLAIN:
                extra = self._merge(value)
                found.update(extra)
                merged.update(extra)
                continue
            name = key.value if key.tag == TEXT else self._key(key)
            if name in found and name not in merged and not self.dialect.last_key_wins:
                raise error_at(key, f"duplicate key {key.value!r}")
            merged.discard(name)
            found[name] = self.built(value)
        return found

    def _key(self, node: yaml.ScalarNode) -> Any:
        if node.tag != PLAIN:
            raise error_at(node, f"tag {_shown(node.tag)} of a key is not supported")
        try:
            return self.dialect.key(node.value)
        except ValueError as error:
            raise error_at(node, str(error)) from error

    def _merge(self, node: yaml.Node) -> dict[Any, Any]:
        """Return the mapping of a merge key; for a key in several mappings, the first takes precedence."""
        value = self.built(node)
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(each, dict) for each in values):
            raise error_at(node, "a merge key needs a mapping, or a list of mappings")
        return {key: inner for each in reversed(values) for key, inner in each.items()}


def _shown(tag: str) -> str:
    return tag.replace(PREFIX, "!!")
