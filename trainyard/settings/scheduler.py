"""Settings of the Volcano scheduler: a preset and its changes."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue, StrictBool

from trainyard.settings.base import SettingsModel

__all__ = [
    "PluginName",
    "PluginSettings",
    "SchedulerAction",
    "SchedulerPreset",
    "SchedulerSettings",
    "SwitchName",
]


class SchedulerPreset(StrEnum):
    """Scheduler configurations with a reason for each line."""

    TRAINING = "training"
    HIERARCHICAL = "hierarchical"
    TOPOLOGY = "topology"
    PREEMPTION = "preemption"


SchedulerAction = Literal["enqueue", "allocate", "backfill", "reclaim", "preempt", "shuffle"]
"""An action of Volcano 1.14.1."""

SwitchName = Literal[
    "enableJobOrder",
    "enableHierarchy",
    "enableJobReady",
    "enableJobPipelined",
    "enableTaskOrder",
    "enablePreemptable",
    "enableReclaimable",
    "enablePreemptive",
    "enableQueueOrder",
    "EnabledClusterOrder",
    "enablePredicate",
    "enableBestNode",
    "enableNodeOrder",
    "enableTargetJob",
    "enableReservedNodes",
    "enableJobEnqueued",
    "enabledVictim",
    "enableJobStarving",
    "enabledOverused",
    "enabledAllocatable",
    "enabledHyperNodeOrder",
    "enabledSubJobReady",
    "enabledSubJobPipelined",
    "enabledSubJobOrder",
    "enabledHyperNodeGradient",
]
"""A switch of a plug-in, spelt as Volcano 1.14.1 reads it; any other spelling would be ignored in silence."""

PluginName = Literal[
    "binpack",
    "capacity",
    "cdp",
    "conformance",
    "deviceshare",
    "drf",
    "extender",
    "gang",
    "network-topology-aware",
    "nodegroup",
    "nodeorder",
    "numa-aware",
    "overcommit",
    "pdb",
    "predicates",
    "priority",
    "proportion",
    "rescheduling",
    "resource-strategy-fit",
    "resourcequota",
    "sla",
    "task-topology",
    "tdm",
    "usage",
]
"""A plug-in of Volcano 1.14.1."""


def _whole(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("must be a whole number")
    return value


class PluginSettings(SettingsModel):
    """What a stack says of one plug-in; the rest stays as the preset has it."""

    enabled: StrictBool = Field(default=True, description="false takes the plug-in out")
    tier: Annotated[int, BeforeValidator(_whole)] = Field(
        default=2,
        ge=1,
        le=2,
        description="Tier of a plug-in that the preset does not have; the first has the first word",
    )
    switches: dict[SwitchName, StrictBool] = Field(
        default={}, description="Switches that differ, in Volcano's spelling; without quotes"
    )
    arguments: dict[str, JsonValue] = Field(
        default={}, description="Arguments that differ, with the type the plug-in reads; null takes one out"
    )


class SchedulerSettings(SettingsModel):
    """The Volcano scheduler's configuration."""

    preset: SchedulerPreset = Field(
        default=SchedulerPreset.TRAINING,
        description="training: gangs, hierarchical queues, topology, bin packing; hierarchical: without topology; "
        "topology: queues side by side; preemption: training, and urgent jobs move others. See docs/scheduler.md",
    )
    actions: tuple[SchedulerAction, ...] = Field(
        default=(), description="Actions in the order of a session, instead of the preset's"
    )
    plugins: dict[PluginName, PluginSettings] = Field(
        default={}, description="Plug-ins that differ from the preset, by name"
    )
    action_arguments: dict[SchedulerAction, dict[str, JsonValue]] = Field(
        default={}, description="Arguments of actions, by action"
    )
