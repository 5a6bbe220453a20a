"""Safe order of HyperNode changes while Volcano schedules.

Volcano 1.14.1 schedules no gang with a topology while a HyperNode has two parents, and crashes when a HyperNode is
deleted that a parent still lists. Therefore members are removed before they are added elsewhere, a HyperNode is listed
only while it exists, and tiers rise from the top and fall from the bottom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Manifest = Mapping[str, Any]

NOTHING = "no-node.trainyard.dev"
"""Name of a node that does not exist: the placeholder member of a temporarily empty HyperNode."""


class FabricUpdate(NamedTuple):
    """A HyperNode by its name, and its spec afterwards."""

    name: str
    spec: Manifest


def preparation(live: Sequence[Manifest], desired: Sequence[Manifest]) -> list[FabricUpdate]:
    """Return the updates after which all writes are safe in any order in which members precede their parents.

    They remove from each HyperNode the child HyperNodes that it loses, and raise tiers from the top.

    Parameters
    ----------
    live
        Live HyperNodes; a valid forest.
    desired
        Desired HyperNodes; a valid forest.
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
            steps.append(FabricUpdate(name, spec))
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
