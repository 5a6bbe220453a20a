"""Network topology constraint of a Volcano gang.

Volcano silently ignores a limit that it cannot enforce: if the plug-in is disabled, if there are no HyperNodes, if the
tier is above the highest, or if no HyperNode has its name. Therefore such a limit is rejected if the fabric and the
scheduler configuration are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from trainyard.api import Body, KubernetesModel
from trainyard.api.constants import TOPOLOGY_FEATURE
from trainyard.api.markers import rules
from trainyard.api.shape_rule import ShapeRule
from trainyard.checks.finding import Finding
from trainyard.jobs.render.job_view import JobView
from trainyard.jobs.render.resolved_job import ResolvedJob

_PATH: Final = "spec.runtimeRef"
_FIELD: Final = "podGroupPolicy.volcano.networkTopology"
HARD: Final = "hard"
_TIER_NAMES_SINCE: Final = (1, 14)
"""First Volcano release whose PodGroup has networkTopology.highestTierName."""

_TIER_EXCLUSIVE: Final = ShapeRule(
    "!has(self.highestTierName) || !has(self.highestTierAllowed) || self.highestTierAllowed == 1",
    "highestTierAllowed and highestTierName exclude each other",
    id="PGP-002",
    fix="keep one of them; the default number 1 beside a name is ignored",
    holds=lambda value: "highestTierName" not in value or value.get("highestTierAllowed", 1) == 1,
)


class NetworkTopology(KubernetesModel):
    """Network topology constraint of a gang."""

    model_config = ConfigDict(json_schema_extra=rules(_TIER_EXCLUSIVE))

    mode: Literal["hard", "soft"] = "hard"
    """hard: wait until a domain fits; soft: prefer a domain that fits."""
    highest_tier_allowed: Annotated[int, Field(ge=0)] = 1
    """Highest tier of the fabric that the gang may span."""
    highest_tier_name: Annotated[str | None, Field(min_length=1, max_length=253)] = None
    """Name of the highest tier; if set, highestTierAllowed is ignored."""


def check_topology(job: ResolvedJob, topology: NetworkTopology | None, field: str = _FIELD) -> Iterator[Finding]:
    """Yield limits that Volcano cannot enforce.

    Parameters
    ----------
    field
        Path of the topology in the runtime's specification.
    """
    if topology is None:
        return
    tiers = job.context.tiers
    if topology.mode == HARD and _is_disabled(job):
        yield Finding(
            _PATH,
            f"{field} cannot be enforced: the scheduler's {TOPOLOGY_FEATURE} is disabled",
            "enable it, set mode: soft, or use a runtime without networkTopology",
        )
    elif topology.highest_tier_name is not None:
        yield from _check_name(job, topology.highest_tier_name, tiers, field)
    elif topology.mode == HARD and tiers is not None:
        yield from _check_number(topology.highest_tier_allowed, tiers, field)


def warn_topology(job: ResolvedJob, topology: NetworkTopology | None, field: str = _FIELD) -> Iterator[Finding]:
    """Warn about soft topology requests that are ignored."""
    if topology is not None and topology.mode != HARD and _is_disabled(job):
        yield Finding.warning(
            _PATH,
            f"{field} has no effect: the scheduler's {TOPOLOGY_FEATURE} is disabled",
            "enable it, or use a runtime without networkTopology",
        )


def network_topology(job: JobView, topology: NetworkTopology | None) -> Body | None:
    """Return the PodGroup's networkTopology, or None if the runtime does not set it.

    A named tier is rendered by name if Volcano supports names, otherwise by its number in the fabric.
    """
    if topology is None:
        return None
    name = topology.highest_tier_name
    if name is None:
        return {"mode": topology.mode, "highestTierAllowed": topology.highest_tier_allowed}
    if is_at_least(job, _TIER_NAMES_SINCE):
        return {"mode": topology.mode, "highestTierName": name}
    return {"mode": topology.mode, "highestTierAllowed": (job.context.tiers or {})[name]}


def tier_number(topology: NetworkTopology, tiers: Mapping[str, int] | None) -> int | None:
    """Return the number of the highest tier, or None if it has a name that is not in ``tiers``."""
    name = topology.highest_tier_name
    return topology.highest_tier_allowed if name is None else (tiers or {}).get(name)


def _check_name(job: ResolvedJob, name: str, tiers: Mapping[str, int] | None, field: str) -> Iterator[Finding]:
    if tiers is not None and name not in tiers:
        yield Finding(_PATH, f'{field}.highestTierName: the fabric has no tier "{name}"', _one_of(tiers))
    elif tiers is None and not is_at_least(job, _TIER_NAMES_SINCE):
        yield Finding(
            _PATH,
            f"{field}.highestTierName: Volcano {job.context.volcano_version} supports only tier numbers, "
            f'and the number of "{name}" is unknown',
            "set highestTierAllowed to the tier's number instead",
        )


def _check_number(number: int, tiers: Mapping[str, int], field: str) -> Iterator[Finding]:
    if not tiers or number > max(tiers.values()):
        highest = f"the highest tier is {max(tiers.values())}" if tiers else "the fabric has no tiers"
        yield Finding(
            _PATH,
            f"{field}.highestTierAllowed: {number} is not a limit: {highest}",
            _one_of(tiers) if tiers else "declare the fabric, or use a runtime without networkTopology",
        )
    elif number < min(tiers.values()):
        yield Finding(
            _PATH,
            f"{field}.highestTierAllowed: {number} is below the lowest tier, {min(tiers.values())}",
            _one_of(tiers),
        )


def _one_of(tiers: Mapping[str, int]) -> str:
    known = ", ".join(f"{name} ({number})" for name, number in sorted(tiers.items(), key=lambda tier: tier[1]))
    return f"use one of {known}" if known else "declare the fabric, or use a runtime without networkTopology"


def _is_disabled(job: JobView) -> bool:
    features = job.context.scheduler_features
    return features is not None and TOPOLOGY_FEATURE not in features


def is_at_least(job: JobView, release: tuple[int, int]) -> bool:
    """Return whether the cluster's Volcano is of a release or a later one; True if its version is unknown."""
    version = job.context.volcano_version
    if version is None:
        return True
    numbers = [int(part) if part.isdigit() else 0 for part in version.lstrip("v").split(".")[:2]]
    return tuple(numbers) >= release
