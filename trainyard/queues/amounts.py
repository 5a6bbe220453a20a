"""Amounts as Volcano compares them: whole units, rounded up before anything is added.

Upstream source: ``pkg/scheduler/api/resource_info.go`` (``NewResource``, ``LessPartly``) of Volcano 1.14.1. Volcano
computes in floating point; here the units are integers, so nothing is lost above 2^53.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil

from trainyard import quantity

__all__ = ["Amounts", "Excess", "counted", "excess", "is_whole", "text", "total", "units"]

Amounts = dict[str, int]
"""Whole units by resource: bytes of memory, pods, thousandths of everything else."""

_NATIVE = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})
_NATIVE_PREFIXES = ("hugepages-", "attachable-volumes-")
_ZERO_WHERE_ABSENT = frozenset({"cpu", "memory"})


@dataclass(frozen=True)
class Excess:
    """A resource of which more is wanted than there is.

    Parameters
    ----------
    resource
        Name of the resource.
    have
        Units there are, None where the resource is not named at all.
    want
        Units asked for.
    """

    resource: str
    have: int | None
    want: int


def counted(resource: str) -> bool:
    """Return whether Volcano counts a resource; others it accepts and ignores."""
    if resource in _NATIVE or resource.startswith(_NATIVE_PREFIXES):
        return True
    return "/" in resource and not resource.startswith(("requests.", "count/"))


def is_whole(resource: str, amount: str) -> bool:
    """Return whether an amount of a resource that comes in whole pieces is whole; true for all other resources."""
    pieces = resource == "pods" or ("/" in resource and "kubernetes.io/" not in resource and counted(resource))
    return not pieces or _whole(amount, 1000) % 1000 == 0


def units(resources: Mapping[str, str]) -> Amounts:
    """Return the counted resources in whole units, each rounded up."""
    return {name: _whole(value, _scale(name)) for name, value in resources.items() if counted(name)}


def total(amounts: Iterable[Amounts]) -> Amounts:
    """Return the sum by resource."""
    result: Amounts = {}
    for each in amounts:
        for name, value in each.items():
            result[name] = result.get(name, 0) + value
    return result


def excess(upper: Mapping[str, int], lower: Mapping[str, int]) -> Iterator[Excess]:
    """Yield where `lower` does not fit in `upper`, as the admission webhook sees it.

    A resource that `upper` does not name counts as 0; devices and other named resources must be named above even
    when 0 of them are asked for.
    """
    for name, want in sorted(lower.items()):
        have = upper.get(name)
        if (have is None and name not in _ZERO_WHERE_ABSENT) or (have or 0) < want:
            yield Excess(name, have, want)


def text(resource: str, amount: int | None) -> str:
    """Return units as a Kubernetes quantity; None as "none"."""
    return "none" if amount is None else quantity.format(Fraction(amount, _scale(resource)), resource)


def _scale(resource: str) -> int:
    return 1 if resource in ("memory", "pods") else 1000


@lru_cache(maxsize=4096)
def _whole(amount: str, scale: int) -> int:
    return ceil(quantity.parse(amount) * scale)
