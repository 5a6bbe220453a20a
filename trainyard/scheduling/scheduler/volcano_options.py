"""Scheduler options of a Volcano version: actions, plug-ins, switches, arguments and their types.

Upstream sources at 1.14.1: ``pkg/scheduler/conf/scheduler_conf.go`` (keys and switches), ``pkg/scheduler/actions`` and
``pkg/scheduler/plugins`` (names and arguments), ``pkg/scheduler/framework/arguments.go`` (types). The switches have
irregular spellings upstream; any other spelling is silently dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import get_args

from trainyard.settings.scheduler import SchedulerAction, SwitchName


class ArgumentType(StrEnum):
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
        Arguments, or prefixes, whose wrong type crashes the scheduler; for others a wrong type is ignored with a
        warning.
    """

    arguments: Mapping[str, ArgumentType]
    prefixes: Mapping[str, ArgumentType] = field(default_factory=dict)
    fatal: frozenset[str] = frozenset()

    def kind(self, argument: str) -> ArgumentType | None:
        """Return the type of an argument; None if the plug-in does not read it."""
        known = self.arguments.get(argument)
        return known or next((kind for prefix, kind in self.prefixes.items() if argument.startswith(prefix)), None)

    def is_fatal(self, argument: str) -> bool:
        """Return whether the wrong type of an argument crashes the scheduler."""
        return any(argument == each or (each in self.prefixes and argument.startswith(each)) for each in self.fatal)


TOP_LEVEL_KEYS = ("actions", "tiers", "configurations", "metrics")

ACTIONS: tuple[str, ...] = get_args(SchedulerAction)

SWITCHES: tuple[str, ...] = get_args(SwitchName)

METRICS_KEYS = (
    "address",
    "elasticsearch.hostnameFieldName",
    "elasticsearch.index",
    "elasticsearch.password",
    "elasticsearch.username",
    "interval",
    "tls.insecureSkipVerify",
    "type",
)
METRICS_SYSTEMS = ("prometheus", "prometheus_adaptor", "elasticsearch")


@dataclass(frozen=True)
class EssentialSwitch:
    """A switch without which a plug-in does not enforce what it is for.

    Parameters
    ----------
    effect
        Effect of turning it off.
    actions
        Actions that read it; empty: all.
    """

    effect: str
    actions: frozenset[str] = frozenset()

    def matters(self, actions: Collection[str]) -> bool:
        """Return whether one of the actions reads it."""
        return not self.actions or not self.actions.isdisjoint(actions)


_ALLOCATE, _RECLAIM, _PREEMPT = frozenset({"allocate"}), frozenset({"reclaim"}), frozenset({"preempt"})
_FILTER = {"enablePredicate": EssentialSwitch("its filter of nodes would be ignored")}
_CRITICAL = "critical pods and pods of kube-system would be evicted"
_QUEUES = {
    "enabledAllocatable": EssentialSwitch("limits of queues would not be enforced"),
    "enablePreemptive": EssentialSwitch("queues above their share would reclaim", _RECLAIM),
    "enableQueueOrder": EssentialSwitch("queues below their share would not come first"),
    "enableReclaimable": EssentialSwitch(
        "pods would be evicted from queues within their share and their guarantee", _RECLAIM
    ),
}

ESSENTIAL_SWITCHES: Mapping[str, Mapping[str, EssentialSwitch]] = {
    "capacity": _QUEUES,
    "conformance": {
        "enablePreemptable": EssentialSwitch(_CRITICAL, _PREEMPT),
        "enableReclaimable": EssentialSwitch(_CRITICAL, _RECLAIM),
    },
    "deviceshare": _FILTER,
    "extender": _FILTER,
    "gang": {
        "enableJobReady": EssentialSwitch("gangs would be broken up"),
        "enableJobPipelined": EssentialSwitch("pods would be evicted for gangs that cannot start", _RECLAIM | _PREEMPT),
        "enabledSubJobReady": EssentialSwitch("gangs with subgroups of several pods would not start", _ALLOCATE),
        "enabledSubJobPipelined": EssentialSwitch("domains would be chosen that cannot hold a subgroup", _ALLOCATE),
    },
    "network-topology-aware": {"enabledHyperNodeGradient": EssentialSwitch("hard topology would be silently ignored")},
    "nodegroup": {"enablePredicate": EssentialSwitch("the affinity of queues would not be enforced")},
    "numa-aware": _FILTER,
    "predicates": {"enablePredicate": EssentialSwitch("taints, affinity, ports and volumes would be ignored")},
    "priority": {
        "enableJobOrder": EssentialSwitch("jobs would not be ordered by priority"),
        "enablePreemptable": EssentialSwitch("jobs would preempt others of the same or a higher priority", _PREEMPT),
    },
    "proportion": {
        **_QUEUES,
        "enabledOverused": EssentialSwitch("queues above their part by weight would be served"),
    },
    "resource-strategy-fit": _FILTER,
    "tdm": _FILTER,
}
"""Main switches of plug-ins. Without `enablePredicate`, usage still scores nodes by their load, so it is not listed."""

RECLAIM_VOTERS = frozenset({"capacity", "cdp", "conformance", "drf", "extender", "gang", "pdb", "proportion"})
"""Plug-ins that choose victims of action reclaim (``AddReclaimableFn``)."""

PREEMPT_VOTERS = frozenset({"cdp", "conformance", "drf", "extender", "gang", "pdb", "priority", "tdm"})
"""Plug-ins that choose victims of action preempt (``AddPreemptableFn``)."""

STARVING_VOTERS = frozenset({"gang", "priority", "tdm"})
"""Plug-ins that decide which jobs evict others (``AddJobStarvingFns``)."""

VICTIM_PLUGINS = frozenset({"pdb", "rescheduling", "tdm"})
"""Plug-ins that choose victims of action shuffle (``AddVictimTasksFns``)."""

_PREDICATE_CACHE = {"predicateErrorCacheEnable": ArgumentType.BOOLEAN}

ACTION_ARGUMENTS: Mapping[str, Mapping[str, ArgumentType]] = {
    "enqueue": {},
    "allocate": _PREDICATE_CACHE,
    "backfill": _PREDICATE_CACHE,
    "reclaim": _PREDICATE_CACHE,
    "preempt": {
        **_PREDICATE_CACHE,
        "enableTopologyAwarePreemption": ArgumentType.BOOLEAN,
        "topologyAwarePreemptWorkerNum": ArgumentType.INTEGER,
        "minCandidateNodesPercentage": ArgumentType.INTEGER,
        "minCandidateNodesAbsolute": ArgumentType.INTEGER,
        "maxCandidateNodesAbsolute": ArgumentType.INTEGER,
    },
    "shuffle": {},
}

_NONE = PluginGrammar({})
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
OPTIONAL_PREDICATES = frozenset({"predicate.CacheEnable", "predicate.DynamicResourceAllocationEnable"})
"""Arguments of plug-in predicates that are off by default."""

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
            "binpack.weight": ArgumentType.INTEGER,
            "binpack.cpu": ArgumentType.INTEGER,
            "binpack.memory": ArgumentType.INTEGER,
            "binpack.resources": ArgumentType.TEXT,
        },
        {"binpack.resources.": ArgumentType.INTEGER},
    ),
    "capacity": _NONE,
    "cdp": _NONE,
    "conformance": _NONE,
    "deviceshare": PluginGrammar(
        {
            "deviceshare.GPUSharingEnable": ArgumentType.BOOLEAN,
            "deviceshare.GPUNumberEnable": ArgumentType.BOOLEAN,
            "deviceshare.NodeLockEnable": ArgumentType.BOOLEAN,
            "deviceshare.VGPUEnable": ArgumentType.BOOLEAN,
            "deviceshare.AscendMindClusterVNPUEnable": ArgumentType.BOOLEAN,
            "deviceshare.AscendHAMiVNPUEnable": ArgumentType.BOOLEAN,
            "deviceshare.SchedulePolicy": ArgumentType.TEXT,
            "deviceshare.ScheduleWeight": ArgumentType.INTEGER,
            "deviceshare.KnownGeometriesCMName": ArgumentType.TEXT,
            "deviceshare.KnownGeometriesCMNamespace": ArgumentType.TEXT,
        },
    ),
    "drf": _NONE,
    "extender": PluginGrammar(
        {
            **{f"extender.{name}": ArgumentType.TEXT for name in _EXTENDER_TEXTS},
            "extender.ignorable": ArgumentType.BOOLEAN,
            "extender.managedResources": ArgumentType.LIST,
        },
        fatal=frozenset({"extender.managedResources"}),
    ),
    "gang": _NONE,
    "network-topology-aware": PluginGrammar(
        {
            "weight": ArgumentType.INTEGER,
            "hypernode.binpack.cpu": ArgumentType.INTEGER,
            "hypernode.binpack.memory": ArgumentType.INTEGER,
            "hypernode.binpack.resources": ArgumentType.TEXT,
            "hypernode.binpack.normal-pod.enable": ArgumentType.BOOLEAN,
            "hypernode.binpack.normal-pod.fading": ArgumentType.NUMBER,
        },
        {"hypernode.binpack.resources.": ArgumentType.INTEGER},
    ),
    "nodegroup": PluginGrammar({"strict": ArgumentType.BOOLEAN}),
    "nodeorder": PluginGrammar({f"{name}.weight": ArgumentType.INTEGER for name in _NODE_ORDER}),
    "numa-aware": PluginGrammar({"weight": ArgumentType.INTEGER}),
    "overcommit": PluginGrammar({"overcommit-factor": ArgumentType.NUMBER}),
    "pdb": _NONE,
    "predicates": PluginGrammar(
        {
            **{f"predicate.{name}": ArgumentType.BOOLEAN for name in _PREDICATES},
            "volumebinding.weight": ArgumentType.INTEGER,
            "volumebinding.bindTimeoutSeconds": ArgumentType.INTEGER,
            "volumebinding.shape": ArgumentType.LIST,
            "dynamicresources.filterTimeoutSeconds": ArgumentType.INTEGER,
        },
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
    "rescheduling": PluginGrammar(
        {"interval": ArgumentType.TEXT, "metricsPeriod": ArgumentType.TEXT, "strategies": ArgumentType.LIST},
        fatal=frozenset({"interval", "metricsPeriod"}),
    ),
    "resource-strategy-fit": PluginGrammar(
        {
            "resourceStrategyFitWeight": ArgumentType.INTEGER,
            "resources": ArgumentType.MAPPING,
            "sra": ArgumentType.MAPPING,
            "proportional": ArgumentType.MAPPING,
        },
        fatal=frozenset({"resourceStrategyFitWeight", "resources", "sra", "proportional"}),
    ),
    "resourcequota": _NONE,
    "sla": PluginGrammar({"sla-waiting-time": ArgumentType.TEXT}),
    "task-topology": PluginGrammar({"task-topology.weight": ArgumentType.INTEGER}),
    "tdm": PluginGrammar(
        {"tdm.evict.period": ArgumentType.TEXT},
        {"tdm.revocable-zone.": ArgumentType.TEXT},
        fatal=frozenset({"tdm.evict.period", "tdm.revocable-zone."}),
    ),
    "usage": PluginGrammar(
        {
            "usage.weight": ArgumentType.INTEGER,
            "cpu.weight": ArgumentType.INTEGER,
            "memory.weight": ArgumentType.INTEGER,
            "thresholds": ArgumentType.MAPPING,
        },
    ),
}
"""Supported arguments of every plug-in of 1.14.1."""
