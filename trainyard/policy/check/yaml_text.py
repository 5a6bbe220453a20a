"""Read YAML as Kubernetes does: JSON types only, and bounded."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import orjson
import yaml

__all__ = ["loaded"]

_TEXT: Final = "tag:yaml.org,2002:str"
_MAPPING: Final = "tag:yaml.org,2002:map"
_SEQUENCE: Final = "tag:yaml.org,2002:seq"
_VALUES: Final = frozenset(f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null"))

_NODES: Final = 1_000_000
"""More values than any file of manifests has: what aliases of aliases can grow to."""


@lru_cache(maxsize=4096)
def _tag(kind: type[yaml.Node], value: Any, implicit: Any) -> str:
    """Return what a node without a tag is; ``implicit`` of a scalar begins with whether it is without quotes."""
    if kind is not yaml.ScalarNode:
        return _MAPPING if kind is yaml.MappingNode else _SEQUENCE
    if not implicit[0]:
        return _TEXT
    resolvers = _Loader.yaml_implicit_resolvers
    for tag, pattern in (*resolvers.get(value[:1], ()), *resolvers.get(None, ())):
        if pattern.match(value):
            return str(tag)
    return _TEXT


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """A safe loader that leaves timestamps as they are written, like Kubernetes does.

    Manifests are plain mappings, lists and values, which are built here without the library's general constructors:
    they take most of the time of reading. Whatever else a document says is left to them.
    """

    aliases = True
    resolve = staticmethod(_tag)

    def construct_document(self, node: yaml.Node) -> Any:
        try:
            return _built(self, node, {} if self.aliases else None)
        except _UnusualError:
            return super().construct_document(node)


class _UnusualError(Exception):
    """A document has more than plain mappings, lists and values."""


def _built(loader: _Loader, node: yaml.Node, known: dict[int, Any] | None) -> Any:
    """Return what a node says; ``known`` holds what aliases may stand for, by the node."""
    tag = node.tag
    if tag == _TEXT:
        return node.value
    if tag in _VALUES and type(node) is yaml.ScalarNode:
        return _Loader.yaml_constructors[tag](loader, node)
    if known is not None:
        if id(node) in known:
            return _finished(known[id(node)])
        known[id(node)] = _UNFINISHED
    found: Any
    if tag == _MAPPING and type(node) is yaml.MappingNode:
        found = {}
        for key, value in node.value:
            if type(key) is not yaml.ScalarNode:
                raise _UnusualError
            name = key.value if key.tag == _TEXT else _built(loader, key, known)
            found[name] = _built(loader, value, known)
    elif tag == _SEQUENCE and type(node) is yaml.SequenceNode:
        found = [_built(loader, item, known) for item in node.value]
    else:
        raise _UnusualError
    if known is not None:
        known[id(node)] = found
    return found


_UNFINISHED: Final = object()


def _finished(value: Any) -> Any:
    """Return what an alias stands for; one that stands for what it lies in is left to the library."""
    if value is _UNFINISHED:
        raise _UnusualError
    return value


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def _finite(loader: Any, node: yaml.ScalarNode) -> float:
    value: float = loader.construct_yaml_float(node)
    if not math.isfinite(value):
        raise yaml.constructor.ConstructorError(None, None, f"{node.value} is no number in JSON", node.start_mark)
    return value


_Loader.add_constructor("tag:yaml.org,2002:float", _finite)


def loaded(text: str, name: str = "") -> Iterator[tuple[int, Any]]:
    """Yield the documents of a text with their numbers.

    Parameters
    ----------
    text
        YAML or JSON.
    name
        Its file; one that ends in ``.json`` is tried as JSON first, which is much faster.

    Raises
    ------
    yaml.YAMLError
        The text is neither, or says what JSON cannot.
    """
    if name.endswith(".json"):
        try:
            yield 0, orjson.loads(text)
        except orjson.JSONDecodeError:
            pass
        else:
            return
    aliases = "&" in text
    try:
        for number, document in enumerate(_documents(text, aliases=aliases)):
            yield number, _plain(document, aliases=aliases)
    except (RecursionError, ValueError, OverflowError) as error:
        raise yaml.YAMLError(f"it cannot be read: {error}") from error


def _documents(text: str, *, aliases: bool) -> Iterator[Any]:
    loader = _Loader(text)
    loader.aliases = aliases
    try:
        while loader.check_data():
            yield loader.get_data()
    finally:
        loader.dispose()


def _plain(document: Any, *, aliases: bool) -> Any:
    """Return a document with text keys; refuse what is no JSON."""
    if aliases:
        _bounded(document)
    try:
        orjson.dumps(document, option=orjson.OPT_PASSTHROUGH_DATETIME)
    except (orjson.JSONEncodeError, RecursionError):
        _bounded(document)
        return _converted(document)
    return document


def _bounded(document: Any) -> None:
    left, path = _NODES, [document]
    while path:
        value = path.pop()
        left -= 1
        if left < 0:
            raise yaml.YAMLError("it has aliases that never end")
        if isinstance(value, dict):
            path.extend(value.values())
        elif isinstance(value, list):
            path.extend(value)


def _converted(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key(name): _converted(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_converted(item) for item in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise yaml.YAMLError(f"it holds a {type(value).__name__}, which JSON cannot say")


def _key(name: Any) -> str:
    if isinstance(name, bool):
        return "true" if name else "false"
    if name is None or isinstance(name, int | float):
        return "null" if name is None else str(name)
    if not isinstance(name, str):
        raise yaml.YAMLError(f"it has a {type(name).__name__} as a key")
    return name
