"""Counting what a container of upstream's objects asks for."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from tests.compatibility.corpus.case import Body
from trainyard import quantity

_PARTS = ("gpumem", "gpucores", "gpu-memory")
"""Endings of names in the corpus that contain "gpu" and count no devices."""


def parts(entry: Body) -> bool:
    """Return whether a container asks for memory or cores of a GPU."""
    resources = entry.get("resources", {})
    return any(name.endswith(_PARTS) for kind in ("requests", "limits") for name in resources.get(kind, {}))


def gpus(entry: Body, asked: Body | None = None) -> int:
    """Return the GPUs of a container; where the TrainJob names GPUs, its number counts."""
    own = _asked({"resources": asked or {}}, _is_gpu)
    return own or _asked(entry, _is_gpu)


def _is_gpu(name: str) -> bool:
    return "gpu" in name.lower() and not name.endswith(_PARTS)


def cores(entry: Body, asked: Body) -> int:
    """Return the CPUs of a container, rounded up; what the TrainJob asks for counts, its request before its limit."""
    own = _asked({"resources": asked}, lambda name: name == "cpu")
    return own or _asked(entry, lambda name: name == "cpu")


def _asked(entry: Body, counts: Callable[[str], bool]) -> int:
    for kind in ("requests", "limits"):
        amounts = entry.get("resources", {}).get(kind, {})
        found = [_amount(amount) for name, amount in amounts.items() if counts(name)]
        if found:
            return math.ceil(sum(found))
    return 0


def _amount(amount: str) -> Fraction:
    """Return an amount of a manifest, or of an object in canonical notation."""
    return Fraction(amount) if "/" in str(amount) else quantity.parse(amount)
