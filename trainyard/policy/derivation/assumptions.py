"""Assumptions about a request: texts that none of its strings has."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal

_SEARCHABLE: Final = re.compile(r"[A-Za-z0-9./_-]*[A-Za-z][A-Za-z0-9./_-]*")
"""Texts that are printed and encoded in JSON as they are, and that no number and no syntax of JSON contains."""
_SCALARS: Final = ("true", "false", "null")


@dataclass(frozen=True, order=True)
class Assumption:
    """One assumption about a request.

    Parameters
    ----------
    kind
        ``string``: no key and no value is this text. ``part``: no key and no value contains it. ``items``: no key and
        no value contains an item of the list in this setting. ``flag``: the setting is false or unset.
    text
        The text, or the path of the setting.
    """

    kind: Literal["string", "part", "items", "flag"]
    text: str


@dataclass
class Absence:
    """Assumptions, and all that a program could make use of.

    Parameters
    ----------
    assumed
        The assumptions that hold.
    asked
        All assumptions that the program asked about, in this order.
    """

    assumed: frozenset[Assumption]
    asked: dict[Assumption, None] = field(default_factory=dict)

    def string(self, text: str) -> bool:
        """Return whether no key and no value of the request is a text."""
        self.asked[Assumption("string", text)] = None
        return Assumption("string", text) in self.assumed or self._part(text)

    def printed(self, text: str) -> bool:
        """Return whether no value of the request is printed as a text."""
        return _searchable(text) and self.string(text)

    def part(self, text: str) -> bool:
        """Return whether no key and no value of the request contains a text."""
        if not _searchable(text):
            return False
        self.asked[Assumption("part", text)] = None
        return self._part(text)

    def items(self, path: tuple[str, ...]) -> bool:
        """Return whether no key and no value of the request contains an item of a list."""
        return self._setting("items", path)

    def flag(self, path: tuple[str, ...]) -> bool:
        """Return whether a setting is false or unset."""
        return self._setting("flag", path)

    def _setting(self, kind: Literal["items", "flag"], path: tuple[str, ...]) -> bool:
        assumption = Assumption(kind, ".".join(path))
        self.asked[assumption] = None
        return assumption in self.assumed

    def _part(self, text: str) -> bool:
        return any(each.kind == "part" and each.text in text for each in self.assumed)


def _searchable(text: str) -> bool:
    return _SEARCHABLE.fullmatch(text) is not None and not any(text in scalar for scalar in _SCALARS)
