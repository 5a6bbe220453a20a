"""Interface of fabric sources: text in, settings out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trainyard.errors import TrainyardError
from trainyard.topology.to_settings import Declared

__all__ = ["MAX_TEXT", "Options", "Source"]

MAX_TEXT = 256 * 1024 * 1024
"""Characters that a source reads at most."""


@dataclass(frozen=True)
class Options:
    """How a source is to be read.

    Parameters
    ----------
    tiers
        Names of the tiers, lowest first: the columns of an inventory, or other names for the levels that are found.
    labels
        Node label of each tier, lowest first, as pairs of tier name and label key.
    qualify
        Name each domain after those above it as well.
    """

    tiers: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    qualify: bool = False


@dataclass(frozen=True)
class Source:
    """One kind of description that a fabric can be taken from.

    Parameters
    ----------
    name
        What the command line calls it.
    title
        What it is, in a few words.
    reader
        Turns text into settings; raises TrainyardError with the lines that are wrong.
    """

    name: str
    title: str
    reader: Callable[[str, Options], Declared]

    def read(self, text: str, options: Options | None = None) -> Declared:
        """Return the settings of the fabric that a text describes.

        Raises
        ------
        TrainyardError
            The text is too large, cannot be read, or contradicts itself.
        """
        if len(text) > MAX_TEXT:
            raise TrainyardError(
                f"The text has {len(text):,} characters; at most {MAX_TEXT:,} are read", fix="split it, or use JSON"
            )
        return self.reader(text.removeprefix("\ufeff"), options or Options())
