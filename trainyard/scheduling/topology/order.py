"""Safe order of HyperNode changes while Volcano schedules.

Volcano 1.14.1 schedules no gang with a topology while a HyperNode has two parents, and crashes when a HyperNode is
deleted that a parent still lists. Therefore members are removed before they are added elsewhere, a HyperNode is listed
only while it exists, and tiers rise from the top and fall from the bottom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Manifest = Mapping[str, Any]

NOTHING = "no-node.trainyard.dev"
"""Name of a node that does not exist: the placeholder member of a temporarily empty HyperNode."""


@dataclass(frozen=True)
class FabricWrite:
    """One write.

    Parameters
    ----------
    action
        Operation.
    name
        Name of the HyperNode.
    spec
        Its spec afterwards; empty for a deletion.
    """

    action: Literal["create", "update", "delete"]
    name: str
    spec: Manifest


def safe_order(live: Sequence[Manifest], desired: Sequence[Manifest]) -> list[FabricWrite]:
    """Return the writes that lead from the live to the desired HyperNodes without harm to the scheduler.

    Parameters
    ----------
    live
        Live HyperNodes; a valid forest.
    desired
        Desired HyperNodes; a valid forest.
    """
    steps = preparation(live, desired)
    specs = _specs(live) | {step.name: step.spec for step in steps}
    new = _specs(desired)
    for name in sorted(new, key=lambda name: (_tier(new[name]), name)):
        if name not in specs:
            steps.append(FabricWrite("create", name, new[name]))
        elif specs[name] != new[name]:
            steps.append(FabricWrite("update", name, new[name]))
    gone = [name for name in specs if name not in new]
    steps += [FabricWrite("delete", name, {}) for name in sorted(gone, key=lambda name: (-_tier(specs[name]), name))]
    return steps


def preparation(live: Sequence[Manifest], desired: Sequence[Manifest]) -> list[FabricWrite]:
    """Return the first of these writes; the others are safe in any order in which members precede their parents.

    They remove from each HyperNode the child HyperNodes that it loses, and raise tiers from the top.

    Parameters
    ----------
    live
        Live HyperNodes.
    desired
        Desired HyperNodes.
    """
    old, new = _specs(live), _specs(desired)
    steps = []
    for name in sorted(old, key=lambda name: (-_tier(old[name]), name)):
        children = _children(old[name])
        leaving = children - _children(new[name]) if name in new else children & set(new)
        spec = _without(old[name], leaving)
        if name in new and _tier(new[name]) > _tier(spec):
            spec = {**spec, "tier": new[name]["tier"], "tierName": new[name].get("tierName", "")}
        if spec != old[name]:
            steps.append(FabricWrite("update", name, spec))
    return sorted(steps, key=lambda step: (-_tier(step.spec), step.name))


def listed(manifest: Manifest) -> set[str]:
    """Return the names of the child HyperNodes of a HyperNode."""
    return _children(manifest.get("spec") or {})


def _specs(manifests: Sequence[Manifest]) -> dict[str, Manifest]:
    return {manifest["metadata"]["name"]: manifest["spec"] for manifest in manifests}


def _tier(spec: Manifest) -> int:
    return int(spec["tier"])


def _children(spec: Manifest) -> set[str]:
    return {name for member in spec.get("members") or () if (name := _child(member)) is not None}


def _child(member: Manifest) -> str | None:
    """Return the HyperNode that a member lists; None for a member of another kind."""
    if member.get("type") != "HyperNode":
        return None
    name = ((member.get("selector") or {}).get("exactMatch") or {}).get("name")
    return name if isinstance(name, str) else None


def _without(spec: Manifest, leaving: set[str]) -> Manifest:
    if not leaving:
        return spec
    left = [member for member in spec["members"] if _child(member) not in leaving]
    placeholder = {"type": "Node", "selector": {"exactMatch": {"name": NOTHING}}}
    return {**spec, "members": left or [placeholder]}
