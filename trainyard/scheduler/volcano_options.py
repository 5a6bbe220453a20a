"""Scheduler options of a Volcano version: actions, plug-ins, switches, arguments and their types.

Upstream sources at 1.14.1: ``pkg/scheduler/conf/scheduler_conf.go`` (keys and switches), ``pkg/scheduler/actions`` and
``pkg/scheduler/plugins`` (names and arguments), ``pkg/scheduler/framework/arguments.go`` (types). The switches have
irregular spellings upstream; any other spelling is silently dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import get_args

from trainyard.settings.scheduler import SchedulerAction, SwitchName

__all__ = [
    "ACTIONS",
    "ACTION_ARGUMENTS",
    "ESSENTIAL_SWITCHES",
    "PLUGINS",
    "SWITCHES",
    "TOP_LEVEL_KEYS",
    "Kind",
    "PluginGrammar",
]


class Kind(StrEnum):
    """Type of an argument."""

    INTEGER = "a whole number"
    NUMBER = "a number"
    BOOLEAN = "true or false"
    TEXT = "text"
    LIST = "a list"
    MAPPING = "a mapping"


@dataclass(frozen=True)
class PluginGrammar:
    """Supported arguments of one plug-in.

    Parameters
    ----------
    arguments
        Type by argument.
    prefixes
        Type by the prefix of arguments whose rest is chosen by the user.
    fatal
        Arguments whose wrong type crashes the scheduler; for others a wrong type is ignored with a warning.
    free
        Whether unlisted arguments are allowed.
    """

    arguments: Mapping[str, Kind]
    prefixes: Mapping[str, Kind]
    fatal: frozenset[str] = frozenset()
    free: bool = False


TOP_LEVEL_KEYS = ("actions", "tiers", "configurations", "metrics")

ACTIONS: tuple[str, ...] = get_args(SchedulerAction)

SWITCHES: tuple[str, ...] = get_args(SwitchName)

ESSENTIAL_SWITCHES: Mapping[str, Mapping[str, str]] = {
    "gang": {"enableJobReady": "gangs would be broken up"},
    "network-topology-aware": {"enabledHyperNodeGradient": "hard topology would be silently ignored"},
}
"""Main switches of plug-ins, and the effect of turning them off."""

_PREDICATE_CACHE = {"predicateErrorCacheEnable": Kind.BOOLEAN}

ACTION_ARGUMENTS: Mapping[str, Mapping[str, Kind]] = {
    "enqueue": {},
    "allocate": _PREDICATE_CACHE,
    "backfill": _PREDICATE_CACHE,
    "reclaim": _PREDICATE_CACHE,
    "preempt": {
        **_PREDICATE_CACHE,
        "enableTopologyAwarePreemption": Kind.BOOLEAN,
        "topologyAwarePreemptWorkerNum": Kind.INTEGER,
        "minCandidateNodesPercentage": Kind.INTEGER,
        "minCandidateNodesAbsolute": Kind.INTEGER,
        "maxCandidateNodesAbsolute": Kind.INTEGER,
    },
    "shuffle": {},
}

_NONE = PluginGrammar({}, {})
_FREE = PluginGrammar({}, {}, free=True)
_EXTENDER_TEXTS = (
    "urlPrefix",
    "httpTimeout",
    "onSessionOpenVerb",
    "onSessionCloseVerb",
    "predicateVerb",
    "prioritizeVerb",
    "preemptableVerb",
    "reclaimableVerb",
    "queueOverusedVerb",
    "jobEnqueueableVerb",
    "jobReadyVerb",
    "allocateFuncVerb",
    "deallocateFuncVerb",
)
_PREDICATES = (
    "NodeAffinityEnable",
    "NodePortsEnable",
    "TaintTolerationEnable",
    "PodAffinityEnable",
    "NodeVolumeLimitsEnable",
    "VolumeZoneEnable",
    "PodTopologySpreadEnable",
    "VolumeBindingEnable",
    "DynamicResourceAllocationEnable",
    "CacheEnable",
)
_NODE_ORDER = (
    "nodeaffinity",
    "podaffinity",
    "leastrequested",
    "balancedresource",
    "mostrequested",
    "tainttoleration",
    "imagelocality",
    "podtopologyspread",
)

PLUGINS: Mapping[str, PluginGrammar] = {
    "binpack": PluginGrammar(
        {
            "binpack.weight": Kind.INTEGER,
            "binpack.cpu": Kind.INTEGER,
            "binpack.memory": Kind.INTEGER,
            "binpack.resources": Kind.TEXT,
        },
        {"binpack.resources.": Kind.INTEGER},
    ),
    "capacity": _NONE,
    "cdp": _NONE,
    "conformance": _NONE,
    "deviceshare": PluginGrammar(
        {
            "deviceshare.GPUSharingEnable": Kind.BOOLEAN,
            "deviceshare.GPUNumberEnable": Kind.BOOLEAN,
            "deviceshare.NodeLockEnable": Kind.BOOLEAN,
            "deviceshare.VGPUEnable": Kind.BOOLEAN,
            "deviceshare.AscendMindClusterVNPUEnable": Kind.BOOLEAN,
            "deviceshare.AscendHAMiVNPUEnable": Kind.BOOLEAN,
            "deviceshare.SchedulePolicy": Kind.TEXT,
            "deviceshare.ScheduleWeight": Kind.INTEGER,
            "deviceshare.KnownGeometriesCMName": Kind.TEXT,
            "deviceshare.KnownGeometriesCMNamespace": Kind.TEXT,
        },
        {},
    ),
    "drf": _NONE,
    "extender": PluginGrammar(
        {
            **{f"extender.{name}": Kind.TEXT for name in _EXTENDER_TEXTS},
            "extender.ignorable": Kind.BOOLEAN,
            "extender.managedResources": Kind.LIST,
        },
        {},
        fatal=frozenset({"extender.managedResources"}),
    ),
    "gang": _NONE,
    "network-topology-aware": PluginGrammar(
        {
            "weight": Kind.INTEGER,
            "hypernode.binpack.cpu": Kind.INTEGER,
            "hypernode.binpack.memory": Kind.INTEGER,
            "hypernode.binpack.resources": Kind.TEXT,
            "hypernode.binpack.normal-pod.enable": Kind.BOOLEAN,
            "hypernode.binpack.normal-pod.fading": Kind.NUMBER,
        },
        {"hypernode.binpack.resources.": Kind.INTEGER},
    ),
    "nodegroup": PluginGrammar({"strict": Kind.BOOLEAN}, {}, free=True),
    "nodeorder": PluginGrammar({f"{name}.weight": Kind.INTEGER for name in _NODE_ORDER}, {}),
    "numa-aware": PluginGrammar({"weight": Kind.INTEGER}, {}),
    "overcommit": PluginGrammar({"overcommit-factor": Kind.NUMBER}, {}),
    "pdb": _NONE,
    "predicates": PluginGrammar(
        {
            **{f"predicate.{name}": Kind.BOOLEAN for name in _PREDICATES},
            "volumebinding.weight": Kind.INTEGER,
            "volumebinding.bindTimeoutSeconds": Kind.INTEGER,
            "volumebinding.shape": Kind.LIST,
            "dynamicresources.filterTimeoutSeconds": Kind.INTEGER,
        },
        {},
        fatal=frozenset(
            {
                "volumebinding.weight",
                "volumebinding.bindTimeoutSeconds",
                "volumebinding.shape",
                "dynamicresources.filterTimeoutSeconds",
            }
        ),
    ),
    "priority": _NONE,
    "proportion": _NONE,
    "rescheduling": _FREE,
    "resource-strategy-fit": PluginGrammar(
        {
            "resourceStrategyFitWeight": Kind.INTEGER,
            "resources": Kind.MAPPING,
            "sra": Kind.MAPPING,
            "proportional": Kind.MAPPING,
        },
        {},
        fatal=frozenset({"resourceStrategyFitWeight", "resources", "sra", "proportional"}),
    ),
    "resourcequota": _NONE,
    "sla": PluginGrammar({"sla-waiting-time": Kind.TEXT}, {}),
    "task-topology": PluginGrammar({"task-topology.weight": Kind.INTEGER}, {}),
    "tdm": _FREE,
    "usage": _FREE,
}
"""Supported arguments of every plug-in of 1.14.1."""
