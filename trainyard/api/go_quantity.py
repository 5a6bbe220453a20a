"""Notation of a quantity as Go clients write it: parse and format of resource.Quantity in k8s.io/apimachinery.

A client that reads an object and writes it back replaces each quantity by this notation: 8 by "8", 0.5 by 500m,
1024Mi by 1Gi. A text that is already in this notation is kept as it is, which apimachinery decides by its last digits:
007 and 1.500 are kept, 1.5 becomes 1500m.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any, Final

_QUANTITY: Final = re.compile(
    r"(?P<sign>[+-]?)0*(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?P<suffix>[numkMGTPE]?|[KMGTPE]i|[eE][+-]?[0-9]{1,2})"
)
_DIGIT: Final = re.compile(r"[+-]?\.?[0-9]")
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NANO: Final = 10**9
_LARGEST: Final = 2**63 - 1
_DIGITS: Final = 18
"""Decimal digits of which apimachinery is sure that they fit 64 bits."""
_MAX_LENGTH: Final = 64
_LARGEST_NUMBER: Final = 10**_MAX_LENGTH


def canonical(value: Any) -> Any:
    """Return the notation of a quantity; anything that is not a quantity is returned unchanged.

    Parameters
    ----------
    value
        Text or a whole number. Other numbers are left to the schema, which rejects them.
    """
    if isinstance(value, bool) or not isinstance(value, str | int):
        return value
    text = value.strip() if isinstance(value, str) else str(value) if abs(value) < _LARGEST_NUMBER else ""
    if len(text) > _MAX_LENGTH:
        return value
    written = _written(text)
    return value if written is None else written


@lru_cache(maxsize=4096)
def _written(text: str) -> str | None:
    """Return the notation, or None for no quantity and for one that apimachinery cannot write."""
    match = _QUANTITY.fullmatch(text)
    if match is None or not _DIGIT.match(text):
        return None
    whole, part, suffix = match["whole"] or "0", match["part"] or "", match["suffix"]
    if suffix in _BINARY:
        if _kept_binary(whole, match["part"], _BINARY[suffix]):
            return text
        return _format_binary(_signed(match["sign"], Fraction(f"{whole}.{part or 0}") * 2 ** _BINARY[suffix]))
    exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    if text == "0" or _kept_decimal(whole, part, exponent):
        return text
    amount = _signed(match["sign"], Fraction(f"{whole}.{part or 0}") * Fraction(10) ** exponent)
    return _format_decimal(amount, scientific=suffix not in _DECIMAL)


def _kept_decimal(whole: str, part: str, exponent: int) -> bool:
    scale, digits = exponent - len(part), whole + part
    fits = len(digits) <= _DIGITS and scale >= -9
    return fits and scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def _kept_binary(whole: str, part: str | None, exponent: int) -> bool:
    fits = not part and len(whole) + exponent * 3 // 10 + 1 <= 15 and int(whole) << exponent <= _LARGEST
    return fits and int(whole) % 8 != 0


def _signed(sign: str, amount: Fraction) -> Fraction:
    """Round away from zero to billionths, and apply the sign."""
    rounded = Fraction(ceil(amount * _NANO), _NANO)
    return -rounded if sign == "-" else rounded


def _format_binary(amount: Fraction) -> str | None:
    amount = max(min(amount, Fraction(_LARGEST)), Fraction(-_LARGEST))
    if -1024 < amount < 1024 or amount.denominator != 1:
        return _format_decimal(amount, scientific=False)
    number, steps = _without_factors(amount.numerator, 1024)
    suffixes = ("", *_BINARY)
    return f"{number}{suffixes[steps]}" if steps < len(suffixes) else None


def _format_decimal(amount: Fraction, *, scientific: bool) -> str | None:
    if amount == 0:
        return "0"
    number, exponent = _without_factors(int(amount * _NANO), 10)
    exponent -= 9
    while exponent % 3:
        number, exponent = number * 10, exponent - 1
    if scientific:
        return f"{number}e{exponent}" if exponent else str(number)
    suffix = next((name for name, power in _DECIMAL.items() if power == exponent), None)
    return None if suffix is None else f"{number}{suffix}"


def _without_factors(number: int, factor: int) -> tuple[int, int]:
    """Divide as often as there is no remainder."""
    steps = 0
    while number and number % factor == 0:
        number, steps = number // factor, steps + 1
    return number, steps
