"""Lint of what a configuration gives up: limits, shares, predicates, and the choice of victims.

Upstream source: ``pkg/scheduler/framework/session_plugins.go`` of Volcano 1.14.1 (``Reclaimable``, ``Preemptable``,
``JobStarving``). For victims, the first tier with a non-empty result decides. Within a tier, a plug-in without victims
ends the tier, and the victims of the others are intersected; an empty intersection is then replaced by the victims of
the next plug-in. So a promise holds only if one tier contains exactly the plug-ins that make it, at most two.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainyard.checks.finding import Finding
from trainyard.scheduling.scheduler.lint_rules import RULES
from trainyard.scheduling.scheduler.volcano_options import (
    ESSENTIAL_SWITCHES,
    OPTIONAL_PREDICATES,
    PREEMPT_VOTERS,
    RECLAIM_VOTERS,
    STARVING_VOTERS,
    VICTIM_PLUGINS,
)

_TIER = re.compile(r"tiers\[(\d+)\]")
_CACHE = "predicate.CacheEnable"
_EVICTING = frozenset({"reclaim", "preempt"})
_IGNORABLE = "extender.ignorable"
_OPEN_VERB = "extender.onSessionOpenVerb"
_READY_VERB = "extender.jobReadyVerb"
_LIMITING_VERBS = {
    "extender.predicateVerb": "allocate",
    "extender.queueOverusedVerb": "allocate",
    "extender.jobEnqueueableVerb": "enqueue",
}
"""Verbs whose verdict limits what an action does."""


@dataclass(frozen=True)
class PluginEntry:
    """One plug-in of a configuration.

    Parameters
    ----------
    path
        Path in the configuration.
    tier
        Index of its tier.
    name
        Name of the plug-in.
    values
        Its switches and arguments, as in the configuration.
    """

    path: str
    tier: int
    name: str
    values: Mapping[str, Any]

    @classmethod
    def of(cls, path: str, plugin: Mapping[str, Any]) -> PluginEntry:
        """Return the entry at a path such as ``tiers[0].plugins[1]``."""
        found = _TIER.match(path)
        return cls(path, int(found[1]) if found else 0, plugin["name"], plugin)

    def has(self, switch: str) -> bool:
        """Return whether a switch is on; every switch but enableHierarchy is on by default."""
        return self.values.get(switch) is not False

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Arguments; empty if they are invalid."""
        arguments = self.values.get("arguments")
        return arguments if isinstance(arguments, dict) else {}


def enforcement_findings(actions: Collection[str], plugins: Sequence[PluginEntry]) -> Iterator[Finding]:
    """Find limits, shares and predicates that a configuration does not enforce.

    Parameters
    ----------
    actions
        Names of the actions.
    plugins
        Plug-ins in order; of two with the same name the first counts.
    """
    first = {plugin.name: plugin for plugin in reversed(plugins)}
    entries = [plugin for plugin in plugins if first[plugin.name] is plugin]
    yield from _missing_actions(actions)
    yield from _missing_plugins(actions, first)
    for plugin in entries:
        yield from _switches(actions, plugin)
    yield from _arguments(first)
    if "extender" in first:
        yield from _extender(actions, first["extender"])
    if "reclaim" in actions:
        yield from _victims("reclaim", entries)
    if "preempt" in actions:
        yield from _victims("preempt", entries)
    if not _EVICTING.isdisjoint(actions):
        yield from _starving(entries)
    yield from _shuffle(actions, first)


def _missing_actions(actions: Collection[str]) -> Iterator[Finding]:
    if "allocate" not in actions:
        message = "no action allocate: only pods without requests would be scheduled"
        yield RULES.finding("actions", message, "add allocate", "scheduler-allocate")
    if "reclaim" not in actions:
        message = "no action reclaim: borrowed resources are returned only when the jobs that borrow them end"
        yield RULES.finding("actions", message, "add reclaim after allocate and backfill", "scheduler-reclaim-off")


def _missing_plugins(actions: Collection[str], first: Mapping[str, PluginEntry]) -> Iterator[Finding]:
    def missing(message: str, fix: str, rule: str) -> Finding:
        return RULES.finding("tiers", message, fix, rule)

    if "gang" not in first:
        yield missing("no plug-in gang: gangs would be broken up", "add gang to the first tier", "scheduler-gang")
    if "priority" not in first:
        message = "no plug-in priority: PriorityClasses would have no effect"
        yield missing(message, "add priority to the first tier", "scheduler-priority")
    if "predicates" not in first:
        message = "no plug-in predicates: taints, affinity, ports and volumes would be ignored"
        yield missing(message, "add predicates", "scheduler-predicates")
    if not ({"capacity", "proportion"} & first.keys()):
        message = "no plug-in capacity: limits and shares of queues would not be enforced"
        yield missing(message, "add capacity to the first tier", "scheduler-limits")
    if "conformance" not in first and not _EVICTING.isdisjoint(actions):
        message = "no plug-in conformance: critical pods and pods of kube-system would be evicted"
        yield missing(message, "add conformance to the first tier", "scheduler-conformance")


def _switches(actions: Collection[str], plugin: PluginEntry) -> Iterator[Finding]:
    for name, switch in ESSENTIAL_SWITCHES.get(plugin.name, {}).items():
        if not plugin.has(name) and switch.matters(actions):
            message = f"{name} is off: {switch.effect}"
            yield RULES.finding(f"{plugin.path}.{name}", message, "turn it on", "scheduler-switch-off")


def _arguments(first: Mapping[str, PluginEntry]) -> Iterator[Finding]:
    predicates, groups = first.get("predicates"), first.get("nodegroup")
    for key, value in predicates.arguments.items() if predicates else ():
        if str(key).startswith("predicate.") and key not in OPTIONAL_PREDICATES and value is False:
            message = f"{key} is false: pods would be placed on nodes that do not allow them"
            path = f"{predicates.path}.arguments[{key}]" if predicates else ""
            yield RULES.finding(path, message, "remove the argument", "scheduler-predicates")
    if predicates and predicates.arguments.get(_CACHE) is True:
        message = f"{_CACHE} is true: jobs of one name share verdicts about nodes, also those of other namespaces"
        path = f"{predicates.path}.arguments[{_CACHE}]"
        yield RULES.finding(path, message, "remove the argument", "scheduler-predicate-cache")
    if groups is None:
        return
    if groups.arguments.get("strict") is False:
        message = "strict is false: jobs of queues without an affinity also use nodes without a group"
        yield RULES.finding(f"{groups.path}.arguments[strict]", message, "remove the argument", "scheduler-affinity")
    capacity = first.get("capacity")
    tree = capacity is not None and capacity.values.get("enableHierarchy") is True
    if tree and groups.values.get("enableHierarchy") is not True:
        message = "enableHierarchy is off: queues do not inherit the affinity of the queue above"
        yield RULES.finding(f"{groups.path}.enableHierarchy", message, "write true", "scheduler-affinity")


def _extender(actions: Collection[str], plugin: PluginEntry) -> Iterator[Finding]:
    """Find verdicts that are skipped while the extender does not answer (``plugins/extender/extender.go``)."""
    ignorable = plugin.arguments.get(_IGNORABLE) is True
    limiting = [verb for verb, action in _LIMITING_VERBS.items() if action in actions and plugin.arguments.get(verb)]
    ready = plugin.arguments.get(_READY_VERB)

    def finding(key: str, message: str, fix: str) -> Finding:
        return RULES.finding(f"{plugin.path}.arguments[{key}]", message, fix, "scheduler-extender")

    if ignorable and limiting:
        message = f"{_IGNORABLE} is true: while the extender does not answer, {', '.join(limiting)} permits everything"
        yield finding(_IGNORABLE, message, "remove the argument")
    if ready and not ignorable:
        message = f"{_IGNORABLE} is not true: while the extender does not answer, {_READY_VERB} permits everything"
        yield finding(_READY_VERB, message, f"set {_IGNORABLE} to true, or remove the verb")
    if plugin.arguments.get(_OPEN_VERB) and not ignorable and (limiting or ready):
        message = f"{_OPEN_VERB} is called first: a session whose call fails has none of the extender's verdicts"
        yield finding(_OPEN_VERB, message, "remove the verb")


def _victims(action: str, plugins: Iterable[PluginEntry]) -> Iterator[Finding]:
    """Find plug-ins that choose victims beside the plug-in that protects queues or priorities."""
    reclaim = action == "reclaim"
    switch, rule = ("enableReclaimable", "scheduler-reclaim") if reclaim else ("enablePreemptable", "scheduler-preempt")
    owners = {"capacity", "proportion"} if reclaim else {"priority"}
    voters = [plugin for plugin in plugins if plugin.has(switch) and _votes(plugin, action)]
    owner = next((plugin for plugin in voters if plugin.name in owners), None)
    if owner is None:  # A finding of its own: the plug-in is missing, or its switch is off.
        return
    promise = "evict pods of queues within their share" if reclaim else "preempt jobs of the same or a higher priority"
    for plugin in voters:
        if plugin.name in owners or (plugin.name == "conformance" and plugin.tier == owner.tier):
            continue
        if plugin.tier < owner.tier:
            why = f"chooses victims in a tier before {owner.name}"
        elif plugin.tier > owner.tier:
            why = f"decides alone where {owner.name} finds no victim"
        else:
            why = (
                f"is in the tier of {owner.name}: where two plug-ins have no victim in common, the third decides alone"
            )
        fix = f"move it to the tier of {owner.name}" if plugin.name == "conformance" else "turn it off"
        message = f"plug-in {plugin.name} {why}: {action} would {promise}"
        yield RULES.finding(f"{plugin.path}.{switch}", message, fix, rule)


def _votes(plugin: PluginEntry, action: str) -> bool:
    if plugin.name == "extender":
        verb = "extender.reclaimableVerb" if action == "reclaim" else "extender.preemptableVerb"
        return bool(plugin.arguments.get(verb))
    if plugin.name == "drf" and action == "reclaim":
        return plugin.values.get("enableHierarchy") is True
    return plugin.name in (RECLAIM_VOTERS if action == "reclaim" else PREEMPT_VOTERS)


def _starving(plugins: Iterable[PluginEntry]) -> Iterator[Finding]:
    """Find jobs that cannot evict others: all plug-ins of the first tier that has a say must agree."""
    voters = [plugin for plugin in plugins if plugin.name in STARVING_VOTERS and plugin.has("enableJobStarving")]
    if not voters:
        message = "no plug-in says which jobs lack resources: no job would reclaim or preempt"
        yield RULES.finding("tiers", message, "turn enableJobStarving of priority on", "scheduler-starving")
        return
    deciding = [plugin for plugin in voters if plugin.tier == min(each.tier for each in voters)]
    for plugin in deciding:
        if plugin.name == "priority":
            continue
        lacking = "pods above minMember" if plugin.name == "gang" else "jobs with volcano.sh/preemptable"
        message = f"enableJobStarving of {plugin.name} is on: {lacking} would reclaim nothing"
        yield RULES.finding(f"{plugin.path}.enableJobStarving", message, "turn it off", "scheduler-starving")


def _shuffle(actions: Collection[str], first: Mapping[str, PluginEntry]) -> Iterator[Finding]:
    choosing = sorted(name for name in VICTIM_PLUGINS & first.keys() if first[name].has("enabledVictim"))
    if "shuffle" in actions and choosing:
        message = (
            f"action shuffle evicts the pods that {', '.join(choosing)} chooses, also in queues within their share, "
            "and breaks up their gangs"
        )
        yield RULES.finding("actions", message, "remove shuffle, or accept this", "scheduler-shuffle")
    elif "shuffle" in actions:
        message = f"action shuffle evicts nothing without one of {', '.join(sorted(VICTIM_PLUGINS))}"
        yield RULES.finding("actions", message, "remove it", "scheduler-no-effect")
    elif "rescheduling" in first:
        message = "plug-in rescheduling only affects action shuffle, which is off"
        yield RULES.finding(first["rescheduling"].path, message, "remove the plug-in", "scheduler-no-effect")
