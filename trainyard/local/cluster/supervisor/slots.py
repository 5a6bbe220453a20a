"""Assignment of a Deployment's pods to slots of this machine.

A slot is a set of ports, files and records. Each pod gets a slot of its own and keeps it until it is deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainyard.local.cluster.supervisor.pod_requirements import ended, ending, unscheduled


@dataclass(frozen=True)
class SlotPlacement:
    """Pods by slot, and the reasons of pods that cannot run yet."""

    slots: Mapping[int, Mapping[str, Any]]
    waiting: tuple[str, ...] = ()


def place(
    pods: Sequence[Mapping[str, Any]], assigned: Mapping[int, str], busy: Collection[int], slots: int
) -> SlotPlacement:
    """Assign a slot to each pod.

    Parameters
    ----------
    pods
        Pods of the Deployment.
    assigned
        Uid of the pod of each assigned slot.
    busy
        Slots in which a process still runs, of whichever pod.
    slots
        Number of slots.
    """
    living = {pod["metadata"]["uid"]: pod for pod in pods if not ended(pod)}
    found = {slot: living[uid] for slot, uid in assigned.items() if uid in living}
    placed = set(assigned.values())
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
            waiting.append(f"pod {name} waits for one of {slots} slots, all in use by earlier pods")
    return SlotPlacement(dict(sorted(found.items())), tuple(waiting))


def shortage(deployment: Mapping[str, Any], placement: SlotPlacement) -> tuple[str, ...]:
    """Return a reason for each desired replica of a Deployment without a slot."""
    spec, metadata = deployment["spec"], deployment["metadata"]
    wanted = 1 if spec.get("replicas") is None else spec["replicas"]
    running = sum(not ending(pod) for pod in placement.slots.values())
    missing = max(0, wanted - running)
    reasons = list(placement.waiting[:missing])
    failure = next(
        (
            f": {condition.get('message') or condition.get('reason')}"
            for condition in (deployment.get("status") or {}).get("conditions") or ()
            if condition["type"] == "ReplicaFailure" and condition["status"] == "True"
        ),
        "",
    )
    reasons += [f"Deployment {metadata['namespace']}/{metadata['name']} has no pod for it yet{failure}"] * (
        missing - len(reasons)
    )
    return tuple(reasons)
