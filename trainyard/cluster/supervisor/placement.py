"""Assignment of a Deployment's pods to slots of this machine.

A slot is a set of ports, files and records. The Deployment and ReplicaSet controllers decide which pods there are, for
scaling and roll-outs too; here each gets a slot of its own and keeps it for its life.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainyard.cluster.supervisor.pods import ended, ending, unscheduled

__all__ = ["Placement", "place", "shortage"]


@dataclass(frozen=True)
class Placement:
    """Pods by slot, and those that cannot run yet with the reason."""

    slots: Mapping[int, Mapping[str, Any]]
    waiting: tuple[str, ...] = ()


def place(pods: Sequence[Mapping[str, Any]], held: Mapping[int, str], busy: Collection[int], slots: int) -> Placement:
    """Give each pod a slot.

    Parameters
    ----------
    pods
        Pods of the Deployment.
    held
        Uid of the pod that each slot was given to.
    busy
        Slots in which a process still runs, whoever it was started for.
    slots
        Number of slots.
    """
    living = {pod["metadata"]["uid"]: pod for pod in pods if not ended(pod)}
    found = {slot: living[uid] for slot, uid in held.items() if uid in living}
    placed = set(held.values())
    free = [slot for slot in range(slots) if slot not in found and slot not in busy]
    waiting: list[str] = []
    for pod in sorted(
        living.values(), key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"])
    ):
        if pod["metadata"]["uid"] in placed or ending(pod):
            continue
        if why := unscheduled(pod):
            waiting.append(why)
        elif free:
            found[free.pop(0)] = pod
        else:
            name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            waiting.append(f"pod {name} waits for one of {slots} slots, in which earlier pods still run")
    return Placement(dict(sorted(found.items())), tuple(waiting))


def shortage(deployment: Mapping[str, Any], placement: Placement) -> tuple[str, ...]:
    """Return a reason for each replica that a Deployment wants and that has no slot."""
    spec, metadata = deployment["spec"], deployment["metadata"]
    wanted = 1 if spec.get("replicas") is None else spec["replicas"]
    running = sum(not ending(pod) for pod in placement.slots.values())
    missing = max(0, wanted - running)
    told = list(placement.waiting[:missing])
    failure = next(
        (
            f": {condition.get('message') or condition.get('reason')}"
            for condition in (deployment.get("status") or {}).get("conditions") or ()
            if condition["type"] == "ReplicaFailure" and condition["status"] == "True"
        ),
        "",
    )
    told += [f"Deployment {metadata['namespace']}/{metadata['name']} has no pod for it yet{failure}"] * (
        missing - len(told)
    )
    return tuple(told)
