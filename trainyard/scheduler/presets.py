"""Scheduler configurations with a reason for each line."""

from __future__ import annotations

from collections.abc import Sequence

from trainyard.scheduler.model import Action, Plugin, SchedulerConfiguration
from trainyard.settings import StackSettings
from trainyard.settings.platform import SchedulerPreset

__all__ = ["configuration", "preset"]


def configuration(settings: StackSettings) -> str:
    """Return ``volcano-scheduler.conf`` for a stack, as YAML with its reasons as comments."""
    return preset(settings.scheduler.preset, accelerators=settings.accelerator_resources).text()


def preset(name: SchedulerPreset, *, accelerators: Sequence[str]) -> SchedulerConfiguration:
    """Return a preset.

    Parameters
    ----------
    name
        Which one.
    accelerators
        Resource names of the accelerators, which placement is to pack.
    """
    return _PRESETS[name](tuple(accelerators))


def _training(accelerators: tuple[str, ...]) -> SchedulerConfiguration:
    return SchedulerConfiguration(
        title="Preset training: gangs start whole, queues share as a tree, a gang stays inside its network domain.",
        actions=(
            Action("allocate", "place what fits, whole gangs only"),
            Action("backfill", "then pods that ask for nothing"),
            Action(
                "reclaim",
                "then take back borrowed shares for their owners. There is no enqueue: with a queue tree it finds a "
                "full cluster full and keeps the owner's gang from ever asking for its share back",
            ),
        ),
        tiers=(
            (
                Plugin("priority", "jobs and pods of higher PriorityClass first"),
                Plugin(
                    "gang",
                    "all of a gang or nothing; no say in who is evicted, which is for queues and priorities to decide",
                    switches={"enablePreemptable": False},
                ),
                Plugin("conformance", "never evict critical pods or pods of kube-system"),
            ),
            (
                Plugin("predicates", "only nodes whose taints, affinity, ports and volumes allow the pod"),
                Plugin(
                    "capacity",
                    "queues by deserved, guarantee and capability; the tree is off unless it is switched on here",
                    switches={"enableHierarchy": True},
                ),
                Plugin(
                    "nodeorder",
                    "node affinity and taints; preferring empty nodes would work against binpack",
                    arguments={"leastrequested.weight": 0},
                ),
                Plugin(
                    "binpack",
                    "fill a node before the next, so that whole nodes stay free for gangs",
                    arguments=_packed(accelerators, "binpack.", weight=("binpack.weight", 5)),
                ),
                Plugin(
                    "network-topology-aware",
                    "hard and soft network topology; without this plug-in both are ignored. It weighs most, because "
                    "a gang's network matters more than a full node",
                    arguments=_packed(accelerators, "hypernode.binpack.", weight=("weight", 10)),
                ),
            ),
        ),
    )


def _packed(accelerators: tuple[str, ...], prefix: str, *, weight: tuple[str, int]) -> dict[str, int | str]:
    arguments: dict[str, int | str] = dict([weight])
    if accelerators:
        arguments[f"{prefix}resources"] = ", ".join(accelerators)
        arguments |= {f"{prefix}resources.{name}": 10 for name in accelerators}
    return arguments


_PRESETS = {SchedulerPreset.TRAINING: _training}
