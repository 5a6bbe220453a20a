"""Resource amounts as Volcano compares them: integers, rounded up before addition.

Upstream source: ``pkg/scheduler/api/resource_info.go`` (``NewResource``, ``LessPartly``) of Volcano 1.14.1. Volcano
computes in floating point; here the units are integers, which are exact above 2^53.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil

from trainyard import quantity

Amounts = dict[str, int]
"""Integer units by resource: bytes of memory, pods, thousandths of everything else."""

_NATIVE = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})
_NATIVE_PREFIXES = ("hugepages-", "attachable-volumes-")
_ZERO_WHERE_ABSENT = frozenset({"cpu", "memory"})
_OBJECTS = frozenset(
    {
        "configmaps",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "services.loadbalancers",
        "services.nodeports",
    }
)
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DEVICE = re.compile(rf"{_LABEL}(\.{_LABEL})*/[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?")
_MAX_DOMAIN = 253 - len("requests.")


@dataclass(frozen=True)
class Excess:
    """A resource whose amount exceeds its bound.

    Parameters
    ----------
    resource
        Name of the resource.
    have
        Available units; None if the resource is unset.
    want
        Requested units.
    """

    resource: str
    have: int | None
    want: int


@lru_cache(maxsize=4096)
def counted(resource: str) -> bool:
    """Return whether Volcano counts a resource; others are accepted and ignored."""
    if resource in _NATIVE or resource.startswith(_NATIVE_PREFIXES):
        return True
    if resource.startswith("count/"):
        return False
    return "kubernetes.io/" in resource or _is_device(resource)


def is_whole(resource: str, amount: str) -> bool:
    """Return whether an amount of an integer resource (devices, pods) is an integer; true for all other resources."""
    return amount.isdecimal() or not _in_pieces(resource) or _rounded_up(amount, 1000) % 1000 == 0


def step(resource: str) -> Fraction:
    """Return the smallest amount of a resource: a device, a pod, a byte, a thousandth of a core."""
    return Fraction(1, 1000) if resource == "cpu" else Fraction(1)


def units(resources: Mapping[str, object]) -> Amounts:
    """Return the counted resources in units, each rounded up."""
    result: Amounts = {}
    for name, amount in resources.items():
        scale = _counting(name)
        if scale:
            value = str(amount)
            result[name] = int(value) * scale if value.isdecimal() else _rounded_up(value, scale)
    return result


def total(amounts: Iterable[Amounts]) -> Amounts:
    """Return the sum by resource."""
    result: Amounts = {}
    for each in amounts:
        for name, value in each.items():
            result[name] = result.get(name, 0) + value
    return result


def excess(upper: Mapping[str, int], lower: Mapping[str, int]) -> Iterator[Excess]:
    """Yield the resources of `lower` that do not fit in `upper`, as the admission webhook compares them.

    A resource that is unset in `upper` counts as 0. Devices and other named resources must be set in `upper` even
    for an amount of 0.
    """
    found = [
        name
        for name, want in lower.items()
        if ((have := upper.get(name)) is None and name not in _ZERO_WHERE_ABSENT) or (have or 0) < want
    ]
    for name in sorted(found):
        yield Excess(name, upper.get(name), lower[name])


def text(resource: str, amount: int | None) -> str:
    """Return units as a Kubernetes quantity; None as "none"."""
    return "none" if amount is None else quantity.format(Fraction(amount, _scale(resource)), resource)


@lru_cache(maxsize=4096)
def _is_device(resource: str) -> bool:
    if resource.startswith("requests.") or not _DEVICE.fullmatch(resource):
        return False
    return len(resource.partition("/")[0]) <= _MAX_DOMAIN


@lru_cache(maxsize=4096)
def _in_pieces(resource: str) -> bool:
    if resource == "pods" or resource in _OBJECTS:
        return True
    return "kubernetes.io/" not in resource and _is_device(resource)


def _scale(resource: str) -> int:
    return 1 if resource in ("memory", "pods") else 1000


@lru_cache(maxsize=4096)
def _counting(resource: str) -> int:
    """Return the units of 1 of a resource; 0 if it is not counted."""
    return _scale(resource) if counted(resource) else 0


@lru_cache(maxsize=16384)
def _rounded_up(amount: str, scale: int) -> int:
    return ceil(quantity.parse(amount) * scale)
