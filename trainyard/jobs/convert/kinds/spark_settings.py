"""Settings of a SparkApplication: its own fields over sparkConf, in the order of the operator's spark-submit."""

from __future__ import annotations

import re
from typing import Final

from trainyard.errors import TrainyardError
from trainyard.jobs.convert.source import LegacySource, shown

MEBIBYTE: Final = 2**20
_CONF: Final = ("spec", "sparkConf")
_UNITS: Final = {"b": 1, "k": 2**10, "m": MEBIBYTE, "g": 2**30, "t": 2**40, "p": 2**50}
_AMOUNT: Final = re.compile(r"(\d{1,18})(b|[kmgtp]b?)?", re.IGNORECASE | re.ASCII)
_NUMBER: Final = re.compile(r"\d{1,9}", re.ASCII)


class SparkSettings:
    """Settings that fields of the application or keys of sparkConf decide; a field takes precedence.

    Parameters
    ----------
    source
        The application.
    """

    def __init__(self, source: LegacySource) -> None:
        self.source = source
        self.conf = source.texts(".".join(_CONF))
        self._noted: set[str] = set()
        self._left_out: set[str] = set()

    def text(self, field: str, key: str, became: str, *, passed: bool = False) -> str | None:
        """Return a text of a field, or of a key of sparkConf.

        Parameters
        ----------
        field
            Path of the field; empty if there is none.
        key
            Key of sparkConf.
        became
            What the key becomes if it counts.
        passed
            Whether the key stays an option of spark-submit.
        """
        own = self.source.text(field) if field else None
        if own:
            self.override(key, field)
            return own
        return self.of_conf(key, became, passed=passed)

    def whole(self, field: str, key: str, became: str, *, least: int = 0, passed: bool = False) -> int | None:
        """Return a whole number of a field, or of a key of sparkConf."""
        own = self.source.integer(field, least) if field else None
        if own is not None:
            self.override(key, field)
            return own
        found = self.of_conf(key, became, passed=passed)
        if found is None:
            return None
        if _NUMBER.fullmatch(found) is None or int(found) < least:
            raise self.malformed(key, f"must be a whole number of {least} or more, but is {shown(found)}")
        return int(found)

    def mebibytes(self, field: str, key: str, became: str, *, unit: str = "m", passed: bool = False) -> int | None:
        """Return an amount of memory in whole MiB, as Spark rounds it.

        Parameters
        ----------
        unit
            Unit of an amount without one.
        """
        found = self.text(field, key, became, passed=passed)
        if found is None:
            return None
        match = _AMOUNT.fullmatch(found)
        if match is None:
            message = f"must be an amount such as 512m or 2g, but is {shown(found)}"
            raise self.malformed(key, message, field)
        return int(match[1]) * _UNITS[(match[2] or unit)[0].lower()] // MEBIBYTE

    def factor(self, field: str, key: str, became: str) -> float | None:
        """Return a factor."""
        found = self.text(field, key, became)
        if found is None:
            return None
        try:
            factor = float(found)
        except ValueError:
            factor = -1.0
        if not 0 <= factor < MEBIBYTE:
            message = f"must be a number, but is {shown(found)}"
            raise self.malformed(key, message, field)
        return factor

    def of_conf(self, key: str, became: str, *, passed: bool = False) -> str | None:
        """Return a value of sparkConf, and note what the key becomes."""
        value = self.conf.get(key)
        if value is None:
            return None
        self.note(key, f"{became}, and option --conf of spark-submit" if passed else became)
        if not passed:
            self._left_out.add(key)
        return value

    def keys(self, prefix: str) -> list[str]:
        """Return what follows a prefix in the keys of sparkConf."""
        return sorted(key.removeprefix(prefix) for key in self.conf if key.startswith(prefix))

    def note(self, key: str, message: str) -> None:
        """Note once what a key of sparkConf becomes."""
        if key not in self._noted:
            self._noted.add(key)
            self.source.changed((*_CONF, key), message)

    def leave_out(self, key: str, message: str) -> None:
        """Note that a key has no meaning in the new job."""
        self._left_out.add(key)
        self.note(key, message)

    def override(self, key: str, field: str) -> None:
        """Note a key that has no effect beside a field."""
        if key in self.conf:
            self.leave_out(key, f"has no effect: {field} counts")

    def lose(self, key: str, message: str, fix: str) -> None:
        """Note that a key is not supported."""
        self._noted.add(key)
        self._left_out.add(key)
        self.source.forget((*_CONF, key))
        self.source.lost((*_CONF, key), message, fix)

    def rest(self) -> dict[str, str]:
        """Return what spark-submit gets of sparkConf."""
        return {key: value for key, value in self.conf.items() if key not in self._left_out}

    def malformed(self, key: str, message: str, field: str = "") -> TrainyardError:
        """Return the error for a value that Spark rejects: that of the field, if it is set."""
        return self.source.malformed(field if field and self.source.peek(field) else (*_CONF, key), message)


def is_true(text: str | None) -> bool:
    """Return whether Spark reads a text as true."""
    return (text or "").strip().lower() == "true"
