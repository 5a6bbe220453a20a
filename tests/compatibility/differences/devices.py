"""Counting what a container of upstream's objects asks for."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from tests.compatibility.corpus.case import Body


def gpus(entry: Body) -> int:
    """Return the GPUs of a container."""
    return _asked(entry, lambda name: "gpu" in name.lower())


def cores(entry: Body) -> int:
    """Return the CPUs of a container, rounded up."""
    return _asked(entry, lambda name: name == "cpu")


def _asked(entry: Body, counts: Callable[[str], bool]) -> int:
    for kind in ("requests", "limits"):
        found = [Fraction(amount) for name, amount in entry.get("resources", {}).get(kind, {}).items() if counts(name)]
        if found:
            return math.ceil(sum(found))
    return 0
