"""Required texts: of these, each request that violates a rule contains at least one.

A rule names them as ``texts`` in its ``rule.yaml``. A test evaluates every rule for thousands of violating requests and
requires that each has one of its texts.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from trainyard.settings.settings_model import SettingsModel


class RequiredTexts(SettingsModel):
    """Required texts of one rule.

    Parameters
    ----------
    strings
        Keys or values.
    parts
        Parts of keys or values.
    items
        Settings with lists of parts: a field of the Platform, a parameter of the rule, the suffixes of the names of
        a TrainJob's objects, or patterns of the names of accelerators. With ``.=`` at the end, the parts are the values
        of items ``KEY=VALUE``.
    flags
        Parameters of the rule that make it apply to every request, unless they are false.
    """

    strings: list[str] = Field(default=[])
    parts: list[str] = Field(default=[])
    items: list[str] = Field(default=[])
    flags: list[str] = Field(default=[])

    @property
    def platform(self) -> Iterator[str]:
        """Fields of the Platform among the items."""
        return (path.partition(".")[2] for path in self.items if path.startswith("platform."))
