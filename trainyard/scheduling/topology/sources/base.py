"""Interface of fabric sources: text to settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trainyard.errors import TrainyardError
from trainyard.scheduling.topology.to_settings import ImportedFabric

MAX_TEXT = 256 * 1024 * 1024
"""Maximum number of characters of a source."""


@dataclass(frozen=True)
class Options:
    """Options of reading a source.

    Parameters
    ----------
    tiers
        Names of the tiers, lowest first: the columns of an inventory, or replacements for the names of levels.
    labels
        Node label of each tier, lowest first, as pairs of tier name and label key.
    qualify
        Prefix each domain with its ancestors.
    """

    tiers: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    qualify: bool = False


@dataclass(frozen=True)
class FabricSource:
    """One format that describes a fabric.

    Parameters
    ----------
    name
        Its name on the command line.
    title
        Short description.
    reader
        Parses text to settings; raises TrainyardError with the invalid lines.
    """

    name: str
    title: str
    reader: Callable[[str, Options], ImportedFabric]

    def read(self, text: str, options: Options | None = None) -> ImportedFabric:
        """Return the settings of the fabric in a text.

        Raises
        ------
        TrainyardError
            The text is too large, invalid, or inconsistent.
        """
        if len(text) > MAX_TEXT:
            raise TrainyardError(
                f"The text has {len(text):,} characters; at most {MAX_TEXT:,} are supported",
                fix="split it, or use JSON",
            )
        return self.reader(text.removeprefix("\ufeff"), options or Options())
