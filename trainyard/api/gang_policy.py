"""Gang policies: the gang scheduler of a TrainJob and its parameters."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from trainyard.api.base import Int32, KubernetesModel
from trainyard.api.markers import rules
from trainyard.api.rules import GANG_EXCLUSIVE, TIER_EXCLUSIVE

__all__ = ["CoschedulingPolicy", "KaiPolicy", "NetworkTopology", "PodGroupPolicy", "VolcanoPolicy"]


class CoschedulingPolicy(KubernetesModel):
    """The coscheduling plug-in of the default scheduler."""

    schedule_timeout_seconds: Annotated[Int32, Field(ge=0)] = 60
    """Timeout in seconds for scheduling all members of the gang."""


class NetworkTopology(KubernetesModel):
    """Network topology constraint of a gang."""

    model_config = ConfigDict(json_schema_extra=rules(TIER_EXCLUSIVE))

    mode: Literal["hard", "soft"] = "hard"
    """hard: wait until a domain fits; soft: prefer a domain that fits."""
    highest_tier_allowed: Annotated[int, Field(ge=0)] = 1
    """Highest tier of the fabric that the gang may span."""
    highest_tier_name: Annotated[str | None, Field(min_length=1, max_length=253)] = None
    """Name of the highest tier; if set, highestTierAllowed is ignored."""


class VolcanoPolicy(KubernetesModel):
    """The Volcano scheduler."""

    network_topology: NetworkTopology | None = None
    """Placement in the fabric."""


class KaiPolicy(KubernetesModel):
    """The KAI scheduler."""

    queue: Annotated[str | None, Field(min_length=1, max_length=63)] = None
    """KAI queue of the pods, unless the TrainJob sets one."""


class PodGroupPolicy(KubernetesModel):
    """The gang scheduler."""

    model_config = ConfigDict(json_schema_extra=rules(GANG_EXCLUSIVE))

    coscheduling: CoschedulingPolicy | None = None
    """The coscheduling plug-in."""
    volcano: VolcanoPolicy | None = None
    """Volcano."""
    kai: KaiPolicy | None = None
    """KAI."""
