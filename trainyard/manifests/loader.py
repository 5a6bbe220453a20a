"""Load YAML as Kubernetes does: JSON values, no duplicate keys, bounded size, and errors with their line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import orjson
import yaml

from trainyard.manifests.nodes import FIX, InvalidYamlError, compose_all, error_at
from trainyard.manifests.scalars import key_text, kubernetes_value, plain_value
from trainyard.manifests.values import Dialect, value_of

_JSON: Final = re.compile(r"\s*[{\[]")
_SEPARATOR: Final = re.compile(r"^---([^\n]+)", re.MULTILINE)
_BLANK: Final = re.compile(r"[ \t\r]")
_JSON_KEY: Final = re.compile(r'"\s*:')
_ESCAPED_SIGN: Final = re.compile(r"\\u00(?:22|3[Aa])")
"""Quotation mark or colon, which text has in this form and written JSON as itself."""


def load_all(text: str, source: str = "the text", *, fix: str = FIX) -> Iterator[Any]:
    """Yield the documents of manifests as the API server receives them; an empty document is None.

    Keys are unique strings, merge keys are applied, timestamps are strings, ``y`` is true and ``1.0`` is 1.

    Parameters
    ----------
    text
        YAML or JSON.
    source
        Name of the source in errors.
    fix
        Fix of the errors.

    Raises
    ------
    InvalidYamlError
        The text is neither, or has no equivalent in JSON; documents before the error were already yielded.
    """
    text = text.removeprefix("\ufeff")
    document = _json(text)
    if document is not None:
        yield document
        return
    _require_plain_separators(text, source, fix)
    for node in compose_all(text, source, fix=fix):
        yield _built(node, text, source, fix, _KUBERNETES)


def load(text: str, source: str = "the text", *, fix: str = FIX, last_key_wins: bool = False) -> Any:
    """Return the single document of a text that is not a manifest, such as settings, or None if the text is empty.

    Unlike `load_all`: numeric keys and ``1.0`` stay numbers, and ``y`` is a string.

    Parameters
    ----------
    text, source, fix
        As for `load_all`.
    last_key_wins
        Whether duplicate keys are accepted, for programs that accept them.

    Raises
    ------
    InvalidYamlError
        The text is not YAML, has no equivalent in JSON, or contains several documents.
    """
    text = text.removeprefix("\ufeff")
    document = _json(text)
    if document is not None:
        return document
    nodes = list(compose_all(text, source, fix=fix))
    if len(nodes) > 1:
        raise InvalidYamlError.of(error_at(nodes[1], "more than one document"), source, fix)
    dialect = _LENIENT if last_key_wins else _PLAIN
    return _built(nodes[0], text, source, fix, dialect) if nodes else None


_KUBERNETES: Final = Dialect(kubernetes_value, key_text)
_PLAIN: Final = Dialect(plain_value, plain_value)
_LENIENT: Final = Dialect(plain_value, plain_value, last_key_wins=True)


def _json(text: str) -> Any:
    """Return the value of JSON, parsed much faster than as YAML, or None if it is none or may have duplicate keys."""
    if not _JSON.match(text) or _ESCAPED_SIGN.search(text):
        return None
    try:
        document = orjson.loads(text)
        written = orjson.dumps(document)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None
    return document if written.count(b'":') == sum(1 for _ in _JSON_KEY.finditer(text)) else None


def _require_plain_separators(text: str, source: str, fix: str) -> None:
    """Reject separators that kubectl reads as such, and YAML as text: ``---`` with a no-break space."""
    for separator in _SEPARATOR.finditer(text):
        rest = separator.group(1)
        if (rest.strip() == "" or rest.strip().startswith("#")) and not _BLANK.match(rest):
            line = text.count("\n", 0, separator.start()) + 1
            raise InvalidYamlError(source, f"--- is followed by {rest[0]!a}, which is no YAML blank", line, fix)


def _built(node: yaml.Node, text: str, source: str, fix: str, dialect: Dialect) -> Any:
    try:
        return value_of(node, dialect, aliases="&" in text)
    except yaml.YAMLError as error:
        raise InvalidYamlError.of(error, source, fix) from error
