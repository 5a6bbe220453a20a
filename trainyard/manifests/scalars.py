"""Values of plain YAML scalars as Kubernetes reads them (sigs.k8s.io/yaml: go-yaml v2, then JSON).

PyYAML's own rules differ: it reads ``1:30`` as 90, ``1e3`` and ``0o17`` as text, ``y`` as text and ``2026-01-01`` as a
date, so that a manifest would mean something else here than in the API server.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any, Final

__all__ = ["is_ambiguous", "key_text", "kubernetes_value", "plain_value"]

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
    """Return the JSON value of a scalar without quotes; a whole number is an integer however it is written.

    Raises
    ------
    ValueError
        JSON has no such number.
    """
    if text in _LETTERS:
        return _LETTERS[text]
    value = plain_value(text)
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**63
    return int(value) if whole else value


@lru_cache(maxsize=4096)
def plain_value(text: str) -> Any:
    """Return the value of a scalar without quotes in a file of Trainyard's own: ``1.0`` and ``y`` are left as they are.

    Raises
    ------
    ValueError
        JSON has no such number.
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
    """Return the integer, None where 64 bits do not hold it."""
    base, digits = next((_BASES[name], text) for name, text in match.groupdict().items() if text and name in _BASES)
    if len(digits) > _LONGEST:
        return None
    value = int(match["sign"] + digits, base)
    return value if -(2**63) <= value < (2**63 if match["sign"] == "+" else 2**64) else None


_LONGEST: Final = 256
"""Digits beyond which no number fits, so that none is converted in vain."""


def key_text(text: str) -> str:
    """Return the JSON key that a key without quotes becomes.

    Raises
    ------
    ValueError
        JSON has no such key.
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
    """Return whether Kubernetes reads a text without quotes as something else."""
    try:
        return not isinstance(kubernetes_value(text), str)
    except ValueError:
        return True
