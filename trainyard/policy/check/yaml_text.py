"""Reading YAML as Kubernetes does: into what JSON can say, and nothing that grows beyond reason."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import orjson
import yaml

__all__ = ["loaded"]

_NODES: Final = 1_000_000
"""More values than any file of manifests has: what aliases of aliases can grow to."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """A safe loader that leaves timestamps as they are written, like Kubernetes does."""


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
        for number, document in enumerate(yaml.load_all(text, Loader=_Loader)):
            yield number, _plain(document, aliases=aliases)
    except (RecursionError, ValueError, OverflowError) as error:
        raise yaml.YAMLError(f"it cannot be read: {error}") from error


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
