"""``root`` and ``default``: the two queues that Volcano creates, and the settings that may change them.

Upstream source: plug-in ``capacity`` and ``updateRootQueueResources`` of Volcano 1.14.1. The scheduler writes
``deserved`` and ``guarantee`` of root and ignores both. A capability of root is inherited by each queue without its
own, and does not limit their sum: only the nodes do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainyard import quantity
from trainyard.checks.finding import Finding
from trainyard.scheduling.queues.amounts import excess, text, total, units
from trainyard.scheduling.queues.guarantees import parts
from trainyard.scheduling.queues.paths import Paths
from trainyard.scheduling.queues.queue import DEFAULT, KINDS, ROOT
from trainyard.scheduling.queues.rules import RULES
from trainyard.scheduling.queues.tree import QueueTree
from trainyard.settings.tenancy import QueueSettings, QueueState

RESERVED = (ROOT, DEFAULT)
"""Queues that are patched, never created or deleted."""

_ALWAYS = ("cpu", "memory")
_OF_ROOT = {
    "parent": ("root is the top of the tree", "leave it out"),
    "deserved": ("the scheduler writes it", "leave it out, and set deserved of the child queues"),
    "guarantee": ("the scheduler writes it", "leave it out, and set guarantee of the child queues"),
    "state": ("Volcano never closes root", "close the child queues"),
}
_WITHOUT_JOBS = ("root has no jobs, so it has no effect", "set it on the queues that jobs use")


def declared_fields(name: str, settings: QueueSettings) -> set[str]:
    """Return the fields of a queue's spec that a stack sets."""
    declared = set(settings.model_fields_set) - {"state"}
    return declared & {"capability"} if name == ROOT else declared - {"parent"}


def reserved_findings(queues: Mapping[str, QueueSettings], paths: Paths) -> Iterator[Finding]:
    """Find settings of the queues that Volcano creates which are not supported.

    Parameters
    ----------
    queues
        Queues by name, as in the settings.
    paths
        Paths of their fields.
    """
    if (root := queues.get(ROOT)) is not None:
        for field in sorted(root.model_fields_set - {"capability"}):
            reason, fix = _OF_ROOT.get(field, _WITHOUT_JOBS)
            yield _unsupported(ROOT, field, f"{field} of root cannot be set: {reason}", fix, paths)
        if root.capability:
            message = "root has a capability, which Volcano rejects"
            fix = "limit the child queues, or start the webhook with --enable-root-queue-protection=false"
            yield RULES.finding(paths.of(ROOT, "capability"), message, fix, "queue-root-protected", object=ROOT)
    if (default := queues.get(DEFAULT)) is not None:
        if default.parent != ROOT:
            message = f"default cannot be a child of {default.parent!r}, which would limit jobs without a queue"
            yield _unsupported(DEFAULT, "parent", message, "leave it out, and set defaultQueue of the tenants", paths)
        if default.state is QueueState.RETIRED:
            message = "default cannot be retired: Volcano rejects that"
            yield _unsupported(DEFAULT, "state", message, "write state: closed", paths)


def _unsupported(name: str, field: str, message: str, fix: str, paths: Paths) -> Finding:
    return RULES.finding(paths.of(name, field), message, fix, "queue-name-reserved", object=name)


def root_findings(tree: QueueTree, paths: Paths) -> Iterator[Finding]:
    """Find amounts of root that are ignored or rejected.

    Parameters
    ----------
    tree
        The queues with the amounts of root.
    paths
        Paths of their fields.
    """
    declared = [kind for kind in KINDS[:2] if tree.root.quantities(kind)]
    if declared:
        message = f"root has {' and '.join(declared)}, which the scheduler writes"
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
                    f"{text(resource, bound[resource])} of root: its own takes precedence, so root does not limit it",
                    f"lower it to {text(resource, bound[resource])}, or leave {resource} out to inherit it",
                    "queue-root-capability",
                    object=name,
                )
    guarantees = {name: tree.queues[name].amounts("guarantee") for name in top}
    for found in excess(bound, total(guarantees.values())):
        have = "does not set it" if found.have is None else f"is {text(found.resource, found.have)}"
        yield RULES.finding(
            paths.of(ROOT, "capability", found.resource),
            f"{text(found.resource, found.want)} of {found.resource} are guaranteed to "
            f"{parts(top, guarantees, found.resource)}, but the capability of root {have}: Volcano rejects it",
            f"raise the capability of root to {text(found.resource, found.want)}, or lower those guarantees",
            "queue-root-guarantee",
            object=ROOT,
        )


def root_preparation(live: Mapping[str, Any], capability: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the patch of the live spec of root that must precede a capability; None if none is required.

    The webhook rejects a capability below the ``deserved`` and ``guarantee`` that the scheduler wrote. Removing them is
    not enough: the scheduler would write them again before the capability is set.

    Parameters
    ----------
    live
        Live spec of root.
    capability
        Desired capability.
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
    """Return each amount limited by its bound; without a bound it is removed, cpu and memory are set to 0."""
    result: dict[str, str | None] = dict.fromkeys(_ALWAYS, "0")
    for name, amount in held.items():
        if name in bound:
            result[name] = _less(amount, bound[name])
        elif name not in _ALWAYS:
            result[name] = None
    return result


def _less(one: str, other: str) -> str:
    return one if quantity.parse(one) <= quantity.parse(other) else other
