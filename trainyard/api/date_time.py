"""Times as the API server's schema validation accepts them."""

from __future__ import annotations

import datetime
import re
from typing import Final

_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def is_date_time(value: str) -> bool:
    """Return whether a text has the format ``date-time`` of a schema: date, T, time and time zone."""
    date, _, time = value.lower().partition("t")
    match = _TIME.fullmatch(time)
    if match is None or match[1] > "23" or match[2] > "59" or match[3] > "59" or not _DATE.fullmatch(date):
        return False
    try:
        datetime.date.fromisoformat(date)
    except ValueError:
        return date.startswith("0000-") and _is_date_of_year_zero(date)
    return True


def _is_date_of_year_zero(date: str) -> bool:
    """Return whether a date of year 0 exists, a leap year that the API server accepts."""
    try:
        datetime.date.fromisoformat(date.replace("0000-", "0004-", 1))
    except ValueError:
        return False
    return True
