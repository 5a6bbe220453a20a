"""Gang schedulers: schedule a TrainJob's pods together. Each scheduler is one module with a ``GANG_SCHEDULER``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trainyard.discovery import plugins_of
from trainyard.jobs.render.gangs.base import GangScheduler

GANGS: Final[Mapping[str, GangScheduler[Any]]] = plugins_of(__name__, __path__, "GANG_SCHEDULER", GangScheduler)
"""Gang schedulers by the name of their field in podGroupPolicy, in the order of these fields."""

LISTED: Final = tuple(sorted(GANGS.values(), key=lambda gang: gang.name != "volcano"))
"""Gang schedulers in display order: Volcano, the scheduler of the platform, first."""

CHILDREN: Final = tuple(gang.child for gang in GANGS.values() if gang.child is not None)
"""Resources of the objects that describe gangs."""

METADATA_PREFIXES: Final = tuple(prefix for gang in GANGS.values() for prefix in gang.metadata_prefixes)
"""Prefixes of the labels and annotations that gang schedulers read."""

_LABELS: Final = frozenset(gang.member_label for gang in GANGS.values() if gang.member_label)
_ANNOTATIONS: Final = frozenset(gang.member_annotation for gang in GANGS.values() if gang.member_annotation)


def names_group(labels: Mapping[str, Any], annotations: Mapping[str, Any]) -> bool:
    """Return whether a pod's labels or annotations refer to the object that describes its gang."""
    return not (_LABELS.isdisjoint(labels) and _ANNOTATIONS.isdisjoint(annotations))
