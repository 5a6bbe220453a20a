"""``root`` and ``default``: the two queues that Volcano creates, and which settings may change them.

Upstream source: plug-in ``capacity`` and ``updateRootQueueResources`` of Volcano 1.14.1. The scheduler writes
``deserved`` and ``guarantee`` of root and goes by neither. A capability of root is inherited by each queue that names
none itself, and bounds no sum: what all queues have together is bounded by the nodes alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainyard import quantity
from trainyard.checks.finding import Finding
from trainyard.queues.amounts import excess, text, total, units
from trainyard.queues.guarantees import parts
from trainyard.queues.paths import Paths
from trainyard.queues.queue import DEFAULT, KINDS, ROOT
from trainyard.queues.rules import RULES
from trainyard.queues.tree import QueueTree
from trainyard.settings.tenancy import QueueSettings, QueueState

__all__ = ["RESERVED", "fields_said", "made_room", "reserved_findings", "root_findings"]

RESERVED = (ROOT, DEFAULT)
"""Queues that are patched and never made or deleted."""

_ALWAYS = ("cpu", "memory")
_OF_ROOT = {
    "parent": ("root is above all others", "leave it out"),
    "deserved": ("the scheduler writes it", "leave it out, and set deserved of the queues below"),
    "guarantee": ("the scheduler writes it", "leave it out, and set guarantee of the queues below"),
    "state": ("Volcano never closes root", "close the queues below it"),
}
_WITHOUT_JOBS = ("no jobs are in root, so nothing reads it", "set it on the queues that jobs use")


def fields_said(name: str, settings: QueueSettings) -> set[str]:
    """Return the fields of a queue's spec that a stack says something about."""
    said = set(settings.model_fields_set) - {"state"}
    return said & {"capability"} if name == ROOT else said - {"parent"}


def reserved_findings(queues: Mapping[str, QueueSettings], paths: Paths) -> Iterator[Finding]:
    """Find what a stack must not say about the queues that Volcano makes.

    Parameters
    ----------
    queues
        Queues by name, as people wrote them.
    paths
        Where they are.
    """
    if (root := queues.get(ROOT)) is not None:
        for field in sorted(root.model_fields_set - {"capability"}):
            reason, fix = _OF_ROOT.get(field, _WITHOUT_JOBS)
            yield _refused(ROOT, field, f"{field} of root cannot be set: {reason}", fix, paths)
        if root.capability:
            message = "root has a capability, which Volcano refuses to change"
            fix = "bound the queues below it, or start the webhook with --enable-root-queue-protection=false"
            yield RULES.finding(paths.of(ROOT, "capability"), message, fix, "queue-root-protected", object=ROOT)
    if (default := queues.get(DEFAULT)) is not None:
        if default.parent != ROOT:
            message = f"default cannot be put below {default.parent!r}: jobs that name no queue would be bound by it"
            yield _refused(DEFAULT, "parent", message, "leave it out, and give such tenants a defaultQueue", paths)
        if default.state is QueueState.RETIRED:
            message = "default cannot be retired: Volcano does not allow that"
            yield _refused(DEFAULT, "state", message, "write state: closed", paths)


def _refused(name: str, field: str, message: str, fix: str, paths: Paths) -> Finding:
    return RULES.finding(paths.of(name, field), message, fix, "queue-name-reserved", object=name)


def root_findings(tree: QueueTree, paths: Paths) -> Iterator[Finding]:
    """Find what amounts of root do not mean.

    Parameters
    ----------
    tree
        The queues with what is said about root.
    paths
        Where they are.
    """
    said = [kind for kind in KINDS[:2] if tree.root.quantities(kind)]
    if said:
        message = f"root has {' and '.join(said)}, which the scheduler writes itself"
        yield RULES.finding(paths.of(ROOT), message, "leave it out", "queue-root-amounts", object=ROOT)
    bound, top = tree.root.amounts("capability"), tree.children(ROOT)
    if not bound:
        return
    for name in top:
        for resource, amount in sorted(tree.queues[name].amounts("capability").items()):
            if amount > bound.get(resource, amount):
                yield RULES.finding(
                    paths.of(name, "capability", resource),
                    f"queue {name!r} has a capability of {text(resource, amount)} {resource}, more than the "
                    f"{text(resource, bound[resource])} of root: its own counts, so root does not bound it",
                    f"lower it to {text(resource, bound[resource])}, or leave {resource} out to inherit it",
                    "queue-root-capability",
                    object=name,
                )
    guarantees = {name: tree.queues[name].amounts("guarantee") for name in top}
    for found in excess(bound, total(guarantees.values())):
        have = "does not name it" if found.have is None else f"is {text(found.resource, found.have)}"
        yield RULES.finding(
            paths.of(ROOT, "capability", found.resource),
            f"{text(found.resource, found.want)} of {found.resource} are guaranteed to "
            f"{parts(top, guarantees, found.resource)}, but the capability of root {have}: Volcano refuses it",
            f"raise the capability of root to {text(found.resource, found.want)}, or lower those guarantees",
            "queue-root-guarantee",
            object=ROOT,
        )


def made_room(live: Mapping[str, Any], capability: Mapping[str, str]) -> dict[str, Any] | None:
    """Return what to merge into the live spec of root before it gets a capability; None where there is room.

    The webhook refuses a capability below what the scheduler wrote into ``deserved`` and ``guarantee``. Emptying them
    would not do: the scheduler would write them again before the capability comes.

    Parameters
    ----------
    live
        Spec of root as it is.
    capability
        Capability that it is to get.
    """
    bound = units(capability)
    deserved, guarantee = live.get("deserved") or {}, (live.get("guarantee") or {}).get("resource") or {}
    held = units(deserved)
    if any(held.values()) and not any([*excess(bound, held), *excess(bound, units(guarantee))]):
        return None
    lowered = _lowered(deserved, capability)
    if not any(quantity.parse(amount) for amount in lowered.values() if amount):
        present = live.get("capability") or {}
        absent = "0" if present else None
        lowered |= {name: _less(amount, present.get(name, absent or amount)) for name, amount in capability.items()}
    patch: dict[str, Any] = {"deserved": lowered}
    if guarantee:
        patch["guarantee"] = {"resource": _lowered(guarantee, capability)}
    return patch


def _lowered(held: Mapping[str, str], bound: Mapping[str, str]) -> dict[str, str | None]:
    """Return each amount no larger than its bound; one without a bound goes, cpu and memory to nothing."""
    result: dict[str, str | None] = dict.fromkeys(_ALWAYS, "0")
    for name, amount in held.items():
        if name in bound:
            result[name] = _less(amount, bound[name])
        elif name not in _ALWAYS:
            result[name] = None
    return result


def _less(one: str, other: str) -> str:
    return one if quantity.parse(one) <= quantity.parse(other) else other
