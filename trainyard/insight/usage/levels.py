"""Lines of the record of usage: levels that hold from an instant on, in integers.

Instants are seconds since 1970. Amounts are the units of `scheduling.queues.amounts`: thousandths of a device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple


class UsageGang(NamedTuple):
    """A job in a queue; jobs of the same names are one.

    Parameters
    ----------
    namespace
        Its namespace, the tenant.
    kind, name
        Kind and name of the object that a user created, such as TrainJob.
    queue
        Its queue; empty: none.
    runtime
        The runtime of a TrainJob; empty for other kinds.
    priority_class
        PriorityClass of its pods; empty: none.
    """

    namespace: str
    kind: str
    name: str
    queue: str
    runtime: str = ""
    priority_class: str = ""


@dataclass(frozen=True, slots=True)
class Holding:
    """What one pod, or a gang without pods, asks for.

    Parameters
    ----------
    gang
        Its job.
    amounts
        Units by resource.
    allocated
        Whether it has them: it is a pod with a node.
    """

    gang: UsageGang
    amounts: Mapping[str, int]
    allocated: bool = False


class Level(NamedTuple):
    """What a job asks for and has of a resource from an instant on."""

    at: int
    gang: UsageGang
    resource: str
    asked: int
    allocated: int
    borrowed: int


class TakenBack(NamedTuple):
    """Units that the scheduler took from a job at an instant, by reclaim or preemption, and since when it had them."""

    since: int
    at: int
    gang: UsageGang
    resource: str
    amount: int


class JobEvent(NamedTuple):
    """What happened to a job: it ended with an outcome, or without one, a pod of it failed."""

    at: int
    gang: UsageGang
    reason: str
    outcome: str = ""


class QueueLevel(NamedTuple):
    """The share of a queue, the part of it that is never lent, and what is allocated, from an instant on."""

    at: int
    queue: str
    resource: str
    deserved: int
    guarantee: int
    allocated: int


class Share(NamedTuple):
    """Share of a queue.

    Parameters
    ----------
    deserved
        Units by resource, at least the guarantee.
    guarantee
        Units by resource that are never lent.
    """

    deserved: Mapping[str, int]
    guarantee: Mapping[str, int] = MappingProxyType({})


class QueueTenants(NamedTuple):
    """The tenants that may use a queue."""

    queue: str
    tenants: tuple[str, ...]


Line = Level | TakenBack | QueueLevel | QueueTenants
