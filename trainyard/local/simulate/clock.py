"""Scenario time: durations such as ``2h30m``, parsed and formatted."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator

_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_PART = re.compile(r"(?<!\d)(\d+)([dhms])")
_WHOLE = re.compile(r"(\d+[dhms])+")


def parse(value: object) -> int:
    """Return a duration in seconds.

    Parameters
    ----------
    value
        Seconds as an integer, or text such as ``90s``, ``10m`` or ``1d12h``.

    Raises
    ------
    ValueError
        It is neither.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and value.isdigit():
        return int(value)
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return sum(int(amount) * _UNITS[unit] for amount, unit in _PART.findall(value))
    raise ValueError("must be a duration such as 90s, 10m or 2h30m, or a whole number of seconds")


def shown(seconds: int) -> str:
    """Return a duration as text, such as ``2h30m`` or ``0s``."""
    text = ""
    for unit, size in _UNITS.items():
        amount, seconds = divmod(seconds, size)
        text += f"{amount}{unit}" if amount else ""
    return text or "0s"


Duration = Annotated[int, BeforeValidator(parse)]
"""A duration or an instant of a scenario, in seconds."""
