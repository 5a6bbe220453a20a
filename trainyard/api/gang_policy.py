"""Gang policies: which scheduler places a TrainJob's pods together, and how."""

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
    """Seconds a gang may wait for its last member."""


class NetworkTopology(KubernetesModel):
    """How close to each other the members of a gang must be."""

    model_config = ConfigDict(json_schema_extra=rules(TIER_EXCLUSIVE))

    mode: Literal["hard", "soft"] = "hard"
    """hard: wait for a fitting domain; soft: prefer it."""
    highest_tier_allowed: Annotated[int, Field(ge=0)] = 1
    """Highest tier of the fabric the gang may span."""
    highest_tier_name: Annotated[str | None, Field(min_length=1, max_length=253)] = None
    """Highest tier by name, instead of its number; the number does not count then."""


class VolcanoPolicy(KubernetesModel):
    """The Volcano scheduler."""

    network_topology: NetworkTopology | None = None
    """Placement in the fabric."""


class KaiPolicy(KubernetesModel):
    """The KAI scheduler."""

    queue: Annotated[str | None, Field(min_length=1, max_length=63)] = None
    """KAI queue of the pods when the TrainJob names none."""


class PodGroupPolicy(KubernetesModel):
    """The gang scheduler."""

    model_config = ConfigDict(json_schema_extra=rules(GANG_EXCLUSIVE))

    coscheduling: CoschedulingPolicy | None = None
    """The coscheduling plug-in."""
    volcano: VolcanoPolicy | None = None
    """Volcano."""
    kai: KaiPolicy | None = None
    """KAI."""
