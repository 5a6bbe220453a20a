"""Interface of fabric sources: text in, settings out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
import yaml

from trainyard.problem import TrainyardError
from trainyard.topology.to_settings import Declared

__all__ = ["MAX_TEXT", "Options", "Source", "parse_documents", "refuse_depth"]

MAX_TEXT = 256 * 1024 * 1024
"""Characters that a source reads at most."""

_MAX_DEPTH = 200
_BRACKET = re.compile(r"[\[\]{}]")
_INDENTED = re.compile(rf"^[-? ]{{{2 * _MAX_DEPTH},}}", re.MULTILINE)
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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


def parse_documents(text: str) -> list[Any]:
    """Return the documents of a JSON or YAML text.

    Raises
    ------
    TrainyardError
        It is neither.
    """
    if text.lstrip()[:1] in ("{", "["):
        try:
            return [orjson.loads(text)]
        except orjson.JSONDecodeError:
            pass  # YAML's own notation of mappings and lists starts like this too
    refuse_depth(text)
    try:
        return list(yaml.load_all(text, Loader=_Loader))
    except (yaml.YAMLError, ValueError, TypeError, OverflowError) as error:
        raise TrainyardError(f"It is not valid YAML: {' '.join(str(error).split())[:300]}", fix="correct it") from error


def refuse_depth(text: str) -> None:
    """Refuse YAML that is nested so deeply that parsing it would end the process.

    Raises
    ------
    TrainyardError
        It is.
    """
    depth = 0
    for bracket in _BRACKET.finditer(text):
        depth = max(depth + (1 if bracket[0] in "[{" else -1), 0)
        if depth > _MAX_DEPTH:
            break
    if depth > _MAX_DEPTH or _INDENTED.search(text):
        raise TrainyardError("It is nested too deeply", fix="check that it is the right file")
