"""Presets of the scheduler configuration, with a reason for each line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainyard.scheduling.scheduler.scheduler_configuration import Action, Plugin, SchedulerConfiguration
from trainyard.settings.scheduler import SchedulerPreset

ACTION_REASONS: Mapping[str, str] = {
    "enqueue": "admit jobs only while their minResources are expected to fit",
    "allocate": "place what fits, whole gangs only",
    "backfill": "then pods that ask for nothing",
    "reclaim": "then take back borrowed shares for their owners",
    "preempt": "then move less important jobs of a queue out of the way; never for a job with a topology",
    "shuffle": "then evict what plug-in rescheduling chooses",
}
"""Purpose of each action."""

_NO_ENQUEUE = (
    "There is no enqueue: with a queue tree it finds a full cluster full and keeps the owner's gang from ever asking "
    "for its share back"
)


def preset(name: SchedulerPreset, *, accelerators: Sequence[str]) -> SchedulerConfiguration:
    """Return a preset.

    Parameters
    ----------
    name
        Name of the preset.
    accelerators
        Resource names of the accelerators, for bin packing.
    """
    return _PRESETS[name](tuple(accelerators))


def _training(accelerators: tuple[str, ...]) -> SchedulerConfiguration:
    return SchedulerConfiguration(
        title="Preset training: gangs start whole, queues share as a tree, a gang stays inside its network domain.",
        actions=_actions("allocate", "backfill", "reclaim"),
        tiers=(_victims(_TREE), (_PREDICATES, _NODE_ORDER, _binpack(accelerators), _topology(accelerators))),
    )


def _hierarchical(accelerators: tuple[str, ...]) -> SchedulerConfiguration:
    return SchedulerConfiguration(
        title="Preset hierarchical: as training, for clusters whose jobs ask for no network topology; sessions take "
        "about half the time. Requests for a topology are denied.",
        actions=_actions("allocate", "backfill", "reclaim"),
        tiers=(_victims(_TREE), (_PREDICATES, _NODE_ORDER, _binpack(accelerators))),
    )


def _flat_topology(accelerators: tuple[str, ...]) -> SchedulerConfiguration:
    flat = Plugin(
        "capacity",
        "queues by deserved, guarantee and capability, side by side: without the tree a gang in a wrong queue blocks "
        "no other; beside conformance, so that reclaim evicts only from queues above their share",
        switches={"enableHierarchy": False},
    )
    return SchedulerConfiguration(
        title="Preset topology: as training, with queues side by side instead of a tree.",
        actions=_actions("allocate", "backfill", "reclaim"),
        tiers=(_victims(flat), (_PREDICATES, _NODE_ORDER, _binpack(accelerators), _topology(accelerators))),
    )


def _preemption(accelerators: tuple[str, ...]) -> SchedulerConfiguration:
    training = _training(accelerators)
    return SchedulerConfiguration(
        title="Preset preemption: as training, and a job of higher priority takes the place of others in its queue.",
        actions=_actions("allocate", "backfill", "preempt", "reclaim"),
        tiers=training.tiers,
    )


def _actions(*names: str) -> tuple[Action, ...]:
    return tuple(
        Action(name, f"{ACTION_REASONS[name]}. {_NO_ENQUEUE}" if name == "allocate" else ACTION_REASONS[name])
        for name in names
    )


def _victims(queues: Plugin) -> tuple[Plugin, ...]:
    """Return the first tier, which contains every plug-in that chooses victims.

    The first tier with victims decides, and a plug-in without victims ends its tier. So conformance and the queues
    decide on reclaim together, conformance and priority on preemption, and no other tier has a say. A third plug-in
    would break this: where two have no victim in common, Volcano asks the third alone.
    """
    return (
        Plugin("priority", "jobs and pods of higher PriorityClass first, also when pods are preempted"),
        Plugin(
            "gang",
            "all of a gang or nothing; no say in who is evicted, because it would offer pods of queues within their "
            "share, nor in who reclaims, because pods above minMember could then reclaim nothing",
            switches={"enablePreemptable": False, "enableReclaimable": False, "enableJobStarving": False},
        ),
        Plugin("conformance", "never evict critical pods or pods of kube-system"),
        queues,
    )


_PREDICATES = Plugin("predicates", "only nodes whose taints, affinity, ports and volumes allow the pod")

_TREE = Plugin(
    "capacity",
    "queues by deserved, guarantee and capability; beside conformance, so that reclaim evicts only from queues above "
    "their share; the tree is off unless it is switched on here",
    switches={"enableHierarchy": True},
)

_NODE_ORDER = Plugin(
    "nodeorder",
    "node affinity and taints; preferring empty nodes would work against binpack",
    arguments={"leastrequested.weight": 0},
)


def _binpack(accelerators: tuple[str, ...]) -> Plugin:
    return Plugin(
        "binpack",
        "fill a node before the next, so that whole nodes stay free for gangs",
        arguments=_packed(accelerators, "binpack.", weight=("binpack.weight", 5)),
    )


def _topology(accelerators: tuple[str, ...]) -> Plugin:
    return Plugin(
        "network-topology-aware",
        "hard and soft network topology; without this plug-in both are ignored. It weighs most, because a gang's "
        "network matters more than a full node",
        arguments=_packed(accelerators, "hypernode.binpack.", weight=("weight", 10)),
    )


def _packed(accelerators: tuple[str, ...], prefix: str, *, weight: tuple[str, int]) -> dict[str, int | str]:
    arguments: dict[str, int | str] = dict([weight])
    if accelerators:
        arguments[f"{prefix}resources"] = ", ".join(accelerators)
        arguments |= {f"{prefix}resources.{name}": 10 for name in accelerators}
    return arguments


_PRESETS = {
    SchedulerPreset.TRAINING: _training,
    SchedulerPreset.HIERARCHICAL: _hierarchical,
    SchedulerPreset.TOPOLOGY: _flat_topology,
    SchedulerPreset.PREEMPTION: _preemption,
}
