"""Host lists in the syntax of Slurm: ``node[001-003,7],gpu-a[1-2]b``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


def expand(text: str, *, limit: int) -> list[str]:
    """Return the names in a host list; numbers keep their leading zeros.

    Parameters
    ----------
    text
        The list.
    limit
        Maximum number of names.

    Raises
    ------
    ValueError
        The text is not a host list, or exceeds the limit; the message says which.
    """
    names: list[str] = []
    for part in _parts(text):
        names.extend(_expand(part, limit - len(names)))
    return names


def _parts(text: str) -> Iterator[str]:
    """Yield the parts between commas outside brackets."""
    depth, start = 0, 0
    for position, character in enumerate(f"{text},"):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        elif character == "," and depth == 0:
            part = text[start:position].strip()
            start = position + 1
            if part:
                yield part
        if depth not in (0, 1):
            break
    if depth != 0:
        raise ValueError(f"the brackets of {text[:80]!r} do not match")


def _expand(part: str, limit: int) -> list[str]:
    pieces = _BRACKET.split(part)
    choices = [[piece] if index % 2 == 0 else list(_numbers(piece, limit)) for index, piece in enumerate(pieces)]
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > limit:
        raise ValueError(f"{part[:80]!r} has more than {limit:,} hosts")
    return ["".join(each) for each in product(*choices)]


def _numbers(text: str, limit: int) -> Iterator[str]:
    for item in text.split(","):
        match = _RANGE.fullmatch(item.strip())
        if match is None:
            raise ValueError(f"{item[:40]!r} is neither a number nor a range such as 001-016")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            raise ValueError(f"the range {item[:40]!r} ends before it starts")
        if int(last) - int(first) >= limit:
            raise ValueError(f"the range {item[:40]!r} has more than {limit:,} hosts")
        for number in range(int(first), int(last) + 1):
            yield str(number).zfill(len(first))
