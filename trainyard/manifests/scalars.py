"""Values of plain YAML scalars as Kubernetes parses them (sigs.k8s.io/yaml: go-yaml v2, then JSON).

PyYAML's own rules differ from those of the API server: it reads ``1:30`` as 90, ``2026-01-01`` as a date, and ``1e3``,
``0o17`` and ``y`` as text.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any, Final

_LETTERS: Final[dict[str, Any]] = {"y": True, "Y": True, "n": False, "N": False}
_WORDS: Final[dict[str, Any]] = {
    word: value
    for value, words in (
        (True, "yes Yes YES true True TRUE on On ON"),
        (False, "no No NO false False FALSE off Off OFF"),
        (None, "~ null Null NULL"),
    )
    for word in words.split()
} | {"": None}
_INFINITE: Final = re.compile(r"\.(nan|NaN|NAN)|[-+]?\.(inf|Inf|INF)")
_INTEGER: Final = re.compile(
    r"(?P<sign>[-+]?)(0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)|0[oO]?(?P<octal>[0-7]+)|(?P<decimal>0|[1-9][0-9]*))"
)
_BASES: Final = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}
_BETWEEN_DIGITS: Final = re.compile(r"(?<=[0-9])_(?=[0-9])")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


@lru_cache(maxsize=4096)
def kubernetes_value(text: str) -> Any:
    """Return the JSON value of an unquoted scalar; whole numbers are integers in any notation.

    Raises
    ------
    ValueError
        The number has no equivalent in JSON.
    """
    if text in _LETTERS:
        return _LETTERS[text]
    value = plain_value(text)
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**63
    return int(value) if whole else value


@lru_cache(maxsize=4096)
def plain_value(text: str) -> Any:
    """Return the value of an unquoted scalar in a file that is not a manifest: ``1.0`` is a float and ``y`` is text.

    Raises
    ------
    ValueError
        The number has no equivalent in JSON.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _INFINITE.fullmatch(text):
        raise ValueError(f"{text} is not a number in JSON")
    digits = _BETWEEN_DIGITS.sub("", text) if text.startswith(".") else text.replace("_", "")
    if (match := _INTEGER.fullmatch(digits)) and (value := _integer(match)) is not None:
        return value
    if _FLOAT.fullmatch(digits) and math.isfinite(number := float(digits)):
        return number
    return text


def _integer(match: re.Match[str]) -> int | None:
    """Return the integer, or None if it does not fit into 64 bits."""
    base, digits = next((_BASES[name], text) for name, text in match.groupdict().items() if text and name in _BASES)
    if len(digits) > _MAX_DIGITS:
        return None
    value = int(match["sign"] + digits, base)
    return value if -(2**63) <= value < (2**63 if match["sign"] == "+" else 2**64) else None


_MAX_DIGITS: Final = 256
"""Digits beyond which no number fits into 64 bits; converting longer texts takes quadratic time."""


def key_text(text: str) -> str:
    """Return the JSON key of an unquoted key.

    Raises
    ------
    ValueError
        The key has no equivalent in JSON.
    """
    value = _LETTERS[text] if text in _LETTERS else plain_value(text)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return str(value)
    if isinstance(value, float) and float(shown := f"{value:g}") == value:
        return shown
    raise ValueError(f"key {text!r} needs quotes")


def is_ambiguous(text: str) -> bool:
    """Return whether Kubernetes parses the unquoted text as another value than text."""
    try:
        return not isinstance(kubernetes_value(text), str)
    except ValueError:
        return True
