"""Settings of the Volcano scheduler: a preset and its overrides."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue, StrictBool

from trainyard.settings.settings_model import SettingsModel


class SchedulerPreset(StrEnum):
    """Predefined scheduler configurations."""

    TRAINING = "training"
    HIERARCHICAL = "hierarchical"
    TOPOLOGY = "topology"
    PREEMPTION = "preemption"


SchedulerAction = Literal["enqueue", "allocate", "backfill", "reclaim", "preempt", "shuffle"]
"""Actions of Volcano 1.14.1."""

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
"""Plug-in switches in the spelling of Volcano 1.14.1, which silently ignores any other."""

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
"""Plug-ins of Volcano 1.14.1."""


def _whole(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("must be a whole number")
    return value


class PluginSettings(SettingsModel):
    """Overrides of one plug-in of the preset."""

    enabled: StrictBool = Field(default=True, description="false removes the plug-in")
    tier: Annotated[int, BeforeValidator(_whole)] = Field(
        default=2,
        ge=1,
        le=2,
        description="Tier of a plug-in that the preset lacks; tier 1 takes precedence",
    )
    switches: dict[SwitchName, StrictBool] = Field(
        default={}, description="Overridden switches, in Volcano's spelling, without quotes"
    )
    arguments: dict[str, JsonValue] = Field(
        default={}, description="Overridden arguments, with the type that the plug-in reads; null removes an argument"
    )


class SchedulerSettings(SettingsModel):
    """The Volcano scheduler's configuration."""

    preset: SchedulerPreset = Field(
        default=SchedulerPreset.TRAINING,
        description="training: gangs, hierarchical queues, topology, bin packing; hierarchical: without topology; "
        "topology: flat queues; preemption: training, and urgent jobs preempt others. See docs/scheduler.md",
    )
    actions: tuple[SchedulerAction, ...] = Field(
        default=(), description="Actions in session order, replacing the preset's"
    )
    plugins: dict[PluginName, PluginSettings] = Field(
        default={}, description="Overrides of the preset's plug-ins, by name"
    )
    action_arguments: dict[SchedulerAction, dict[str, JsonValue]] = Field(
        default={}, description="Arguments of actions, by action"
    )
