"""Queue model in plain Volcano amounts, from settings or from manifests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trainyard.scheduling.queues.amounts import Amounts, units
from trainyard.settings.tenancy import QueueAffinity, QueueState

ROOT = "root"
"""The top queue, created by Volcano."""

DEFAULT = "default"
"""The queue of jobs without a queue, created by Volcano."""

Kind = str
"""``deserved``, ``guarantee`` or ``capability``."""

KINDS: tuple[Kind, ...] = ("deserved", "guarantee", "capability")


@dataclass(frozen=True)
class Queue:
    """One Volcano queue.

    Parameters
    ----------
    parent
        Its parent.
    deserved, guarantee, capability
        Kubernetes quantity by resource.
    weight
        Weight under plug-in proportion.
    priority
        Higher is served first.
    reclaimable
        Whether others may reclaim borrowed resources from it.
    affinity
        Node groups of its jobs; None: unset.
    type
        Free-form; ignored by Volcano.
    state
        Whether it accepts jobs.
    """

    parent: str = ROOT
    deserved: Mapping[str, str] = field(default_factory=dict)
    guarantee: Mapping[str, str] = field(default_factory=dict)
    capability: Mapping[str, str] = field(default_factory=dict)
    weight: int = 1
    priority: int = 0
    reclaimable: bool = True
    affinity: QueueAffinity | None = None
    type: str | None = None
    state: QueueState = QueueState.OPEN
    _amounts: dict[Kind, Amounts] = field(init=False, repr=False, compare=False)

    def quantities(self, kind: Kind) -> Mapping[str, str]:
        """Return the amounts of one kind as quantities, as written."""
        quantities: Mapping[str, str] = getattr(self, kind)
        return quantities

    def amounts(self, kind: Kind) -> Amounts:
        """Return the amounts of one kind in units, as Volcano compares them; read-only."""
        return self._amounts[kind]

    def __post_init__(self) -> None:
        object.__setattr__(self, "_amounts", {kind: units(self.quantities(kind)) for kind in KINDS})
