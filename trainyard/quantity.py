"""Kubernetes quantities as exact fractions, for sums, shares and comparisons."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Final

LARGEST: Final = 8 * 10**15
"""The largest amount: schedulers count thousandths in 64 bits (rule BND-004)."""
LARGEST_MEMORY: Final = 8 * 10**18
"""The largest memory of many pods or nodes together, which schedulers count in bytes."""
MAX_LENGTH: Final = 32
"""Characters of the longest amount."""
LONG_EXPONENT: Final = "[eE][+-]?0*(19|[2-9][0-9]|[1-9][0-9]{2})"
"""Expression that finds an exponent beyond 18, in the syntax of Python, CEL and Rego."""

_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?0*(?:1[0-8]|[0-9])))?"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")
_NANO = 10**9
_BYTES = frozenset({"memory", "storage", "ephemeral-storage"})


def parse(value: str | int | float) -> Fraction:
    """Return a quantity as an exact fraction of its base unit (cores, bytes, devices).

    As in Kubernetes, digits below one billionth are rounded up.

    Parameters
    ----------
    value
        A quantity in Kubernetes notation (``500m``, ``1.5Gi``, ``2e3``, ``8``) of at most 32 characters, with an
        exponent from -18 to 18, or a plain number.

    Raises
    ------
    ValueError
        The value is not a quantity.
    """
    if isinstance(value, str):
        text = value
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a quantity")
    elif isinstance(value, int):
        return _whole(value)
    else:
        text = str(value)
    if len(text) > MAX_LENGTH:
        raise _invalid(value)
    amount = _amount(text)
    if amount is None:
        raise _invalid(value)
    return amount


@lru_cache(maxsize=4096)
def _whole(number: int) -> Fraction:
    return Fraction(number)


@lru_cache(maxsize=4096)
def _amount(text: str) -> Fraction | None:
    """Return the amount; cached, because a cluster has few distinct amounts and exact fractions are slow."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    amount = Fraction(match["number"].rstrip(".")) * _factor(match["suffix"], match["exponent"])
    rounded = Fraction(ceil(amount * _NANO), _NANO)
    return -rounded if match["sign"] == "-" else rounded


def largest(resource: str) -> int:
    """Return the largest amount of a resource that many pods or nodes have together."""
    return LARGEST_MEMORY if resource == "memory" else LARGEST


def multiple(amount: Fraction, count: int) -> Fraction:
    """Return a multiple of an amount; whole amounts, which are most, need no greatest common divisor."""
    return Fraction(amount.numerator * count) if amount.denominator == 1 else amount * count


def format(amount: Fraction, resource: str) -> str:
    """Format a fraction in the usual notation of a resource.

    Bytes use the largest binary suffix that divides them exactly. Other resources are plain numbers, or thousandths,
    millionths or billionths if they are not whole.

    Parameters
    ----------
    amount
        Amount in the base unit of the resource.
    resource
        Resource name, such as ``cpu``, ``memory`` or ``nvidia.com/gpu``.
    """
    if amount.denominator == 1:
        whole = amount.numerator
        return _binary(whole) if _in_bytes(resource) else str(whole)
    for suffix, scale in (("m", 10**3), ("u", 10**6)):
        scaled = amount * scale
        if scaled.denominator == 1:
            return f"{scaled.numerator}{suffix}"
    return f"{ceil(amount * _NANO)}n"


def _invalid(value: object) -> ValueError:
    return ValueError(f"{value!r} is not a quantity (such as 500m, 2, 1.5Gi)")


def _factor(suffix: str | None, exponent: str | None) -> Fraction:
    if exponent is not None:
        return Fraction(10) ** int(exponent)
    if suffix is None:
        return Fraction(1)
    if suffix.endswith("i"):
        return Fraction(1024 ** (6 - _BINARY.index(suffix)))
    return Fraction(10) ** _DECIMAL[suffix]


def _in_bytes(resource: str) -> bool:
    return resource in _BYTES or resource.startswith("hugepages-")


def _binary(whole: int) -> str:
    for index, suffix in enumerate(_BINARY):
        size = 1024 ** (6 - index)
        if whole and whole % size == 0:
            return f"{whole // size}{suffix}"
    return str(whole)
