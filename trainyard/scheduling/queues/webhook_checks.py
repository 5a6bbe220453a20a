"""Rules of Volcano's admission webhook, for a whole tree and for one change of a live tree.

Upstream source: ``pkg/webhooks/admission/queues/validate/validate_queue.go``. 1.14.1 compares the queue's own values
first, then its capability with that of the direct parent, then the sums of siblings, and reads an unset resource of the
upper side as zero. 1.15.1 compares own values exactly and only if both are set, a capability with the nearest queue
above that sets one, and sums with the parent's own values. Queues directly below root are never compared with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from trainyard import quantity
from trainyard.checks.finding import Finding
from trainyard.scheduling.queues.amounts import Amounts, Excess, excess, is_whole, text, total
from trainyard.scheduling.queues.paths import Paths, SettingsPaths
from trainyard.scheduling.queues.pod_requests import exact
from trainyard.scheduling.queues.queue import DEFAULT, KINDS, ROOT, Queue
from trainyard.scheduling.queues.rules import RULES
from trainyard.scheduling.queues.scheduling import VOLCANO_VERSIONS
from trainyard.scheduling.queues.tree import QueueTree

MAX_DEPTH = 5
"""Maximum number of levels below root in 1.15.1, unless ``--max-queue-depth`` is set."""

_1_14 = VOLCANO_VERSIONS[0]


def admission_findings(tree: QueueTree, paths: Paths, version: str = _1_14) -> list[Finding]:
    """Find what the webhook would reject in any order of creation; parents exist.

    Parameters
    ----------
    tree
        The queues.
    paths
        Paths of their fields.
    version
        Version of Volcano.
    """
    findings: list[Finding] = []
    for name in sorted(tree.queues):
        findings += _own(name, tree, paths, version)
        if tree.queues[name].capability:
            findings += _capability(name, tree, paths, version)
        if tree.children(name):
            findings += _sums(name, tree, paths, version)
        if version != _1_14:
            findings += _depth(name, tree, paths)
    return findings


def rejections(live: Mapping[str, Queue], name: str, queue: Queue | None, version: str = _1_14) -> list[Finding]:
    """Find why the webhook would reject one change; empty if it accepts it.

    Parameters
    ----------
    live
        The live queues that the webhook has seen.
    name
        The queue that is created, updated or deleted.
    queue
        Its content after the change; None deletes it.
    version
        Version of Volcano.
    """
    paths = SettingsPaths()
    before = QueueTree(live)
    if queue is None:
        return list(_deletion(name, before, paths))
    old, after = live.get(name), before.with_queue(name, queue)
    findings = list(_own(name, after, paths, version))
    moved = old is None or old.parent != queue.parent
    if moved and queue.parent != ROOT:
        if queue.parent == name:
            message = f"queue {name!r} is its own parent"
            return [
                *findings,
                RULES.finding(paths.of(name, "parent"), message, "use another", "queue-parent-self", object=name),
            ]
        if queue.parent not in live:
            message = f"the parent {queue.parent!r} of queue {name!r} does not exist"
            fix = "create the parent first"
            return [
                *findings,
                RULES.finding(paths.of(name, "parent"), message, fix, "queue-parent-unknown", object=name),
            ]
        if version != _1_14:
            findings += _depth(name, after, paths)
    if name != ROOT and (old is None or moved or _changed(old, queue)):
        below = _compared_below(name, after, version)
        findings += [finding for each in (name, *below) for finding in _capability(each, after, paths, version)]
        findings += _sums(name, after, paths, version)
        if queue.parent in after.queues:
            findings += _sums(queue.parent, after, paths, version)
    return findings


def _changed(old: Queue, new: Queue) -> bool:
    """Return whether any amount differs in value; the notation is ignored."""
    return any(exact(old.quantities(kind)) != exact(new.quantities(kind)) for kind in KINDS)


def _compared_below(name: str, tree: QueueTree, version: str) -> list[str]:
    below = list(tree.children(name))
    if version != _1_14:
        waiting = list(below)
        while waiting:
            children = [each for each in tree.children(waiting.pop()) if each not in below and each != name]
            below += children
            waiting += children
    return below


def _deletion(name: str, tree: QueueTree, paths: Paths) -> Iterator[Finding]:
    if name in (ROOT, DEFAULT):
        message = f"queue {name!r} belongs to Volcano and cannot be deleted"
        yield RULES.finding(paths.of(name), message, "keep it", "queue-name-reserved", object=name)
    elif below := tree.children(name):
        message = f"queue {name!r} has child queues: {', '.join(below)}"
        yield RULES.finding(paths.of(name), message, "delete these first", "queue-not-leaf", object=name)


def _own(name: str, tree: QueueTree, paths: Paths, version: str) -> Iterator[Finding]:
    queue = tree.queues[name]
    if not (queue.deserved or queue.guarantee or queue.capability):
        return
    for kind in KINDS:
        for resource, amount in queue.quantities(kind).items():
            if not (amount.isdecimal() or is_whole(resource, amount)):
                message = f"queue {name!r}: {kind} of {resource} is {amount}, but {resource} must be an integer"
                fix = "use an integer"
                yield RULES.finding(
                    paths.of(name, kind, resource), message, fix, "queue-resource-fraction", object=name
                )
    if version != _1_14:
        yield from _own_exact(name, queue, paths)
        return
    if queue.capability:
        yield from _pairs(name, queue, "deserved", "capability", paths)
        yield from _pairs(name, queue, "guarantee", "capability", paths)
    if queue.guarantee:
        yield from _pairs(name, queue, "guarantee", "deserved", paths)


def _pairs(name: str, queue: Queue, kind: str, bound: str, paths: Paths) -> Iterator[Finding]:
    for found in excess(queue.amounts(bound), queue.amounts(kind)):
        yield _excess(name, kind, bound, found, paths)


def _own_exact(name: str, queue: Queue, paths: Paths) -> Iterator[Finding]:
    for kind, bound in (("guarantee", "deserved"), ("deserved", "capability")):
        limits = queue.quantities(bound)
        for resource, amount in sorted(queue.quantities(kind).items()):
            limit = limits.get(resource)
            if limit is None and bound == "capability":
                continue
            want, have = quantity.parse(amount), None if limit is None else quantity.parse(limit)
            if have is None or want > have:
                reason = (
                    f"but its {bound} does not set {resource}" if have is None else f"more than its {bound} of {limit}"
                )
                fix = f"set {bound} of {name} to at least {amount}, or lower the {kind}"
                message = f"queue {name!r}: {kind} of {resource} is {amount}, {reason}"
                yield RULES.finding(paths.of(name, kind, resource), message, fix, f"queue-{kind}-{bound}", object=name)


def _excess(name: str, kind: str, bound: str, found: Excess, paths: Paths) -> Finding:
    return RULES.finding(
        paths.of(name, kind, found.resource),
        f"queue {name!r}: {kind} of {found.resource} is {text(found.resource, found.want)}, "
        f"{_above(found, f'its {bound}')}",
        _fix(found, f"{bound} of {name}", kind),
        f"queue-{kind}-{bound}",
        object=name,
    )


def _capability(name: str, tree: QueueTree, paths: Paths, version: str) -> Iterator[Finding]:
    queue = tree.queues[name]
    if not queue.capability or queue.parent not in tree.queues:
        return
    if version == _1_14:
        parent = queue.parent
        for found in excess(tree.queues[parent].amounts("capability"), queue.amounts("capability")):
            yield _too_large(name, f"its parent {parent!r}", parent, found, paths)
        return
    ancestors = list(tree.ancestors(name))
    for resource, want in sorted(queue.amounts("capability").items()):
        setting = (each for each in ancestors if tree.queues[each].amounts("capability").get(resource))
        nearest = next(setting, None)
        if nearest is not None and want > (have := tree.queues[nearest].amounts("capability")[resource]):
            yield _too_large(name, f"its ancestor {nearest!r}", nearest, Excess(resource, have, want), paths)


def _too_large(name: str, whose: str, above: str, found: Excess, paths: Paths) -> Finding:
    return RULES.finding(
        paths.of(name, "capability", found.resource),
        f"queue {name!r}: capability of {found.resource} is {text(found.resource, found.want)}, "
        f"{_above(found, f'the capability of {whose}')}",
        _fix(found, f"capability of {above}", "capability"),
        "queue-capability-parent",
        object=name,
    )


def _sums(name: str, tree: QueueTree, paths: Paths, version: str) -> Iterator[Finding]:
    children = tree.children(name)
    if not children or name == ROOT:
        return
    queue = tree.queues[name]
    for kind in ("deserved", "guarantee"):
        bound = kind if queue.quantities(kind) or version != _1_14 else "capability"
        if version == _1_14 and not queue.quantities(bound):
            continue
        shares = [tree.queues[child].amounts(kind) for child in children]
        for found in excess(queue.amounts(bound), total(shares)):
            yield RULES.finding(
                paths.of(name, bound, found.resource),
                f"queue {name!r}: its child queues have {kind} {_parts(children, shares, found)} = "
                f"{text(found.resource, found.want)} of {found.resource}, {_above(found, f'its {bound}')}",
                _fix(found, f"{bound} of {name}", f"{kind} of its child queues"),
                f"queue-{kind}-sum",
                object=name,
            )


def _parts(children: Iterable[str], shares: Iterable[Amounts], found: Excess) -> str:
    parts = [
        f"{text(found.resource, share[found.resource])} ({child})"
        for child, share in zip(children, shares, strict=True)
        if found.resource in share
    ]
    return " + ".join(parts if len(parts) <= 8 else [*parts[:7], f"{len(parts) - 7} more"])


def _depth(name: str, tree: QueueTree, paths: Paths) -> Iterator[Finding]:
    above = list(tree.ancestors(name))
    if len(above) >= MAX_DEPTH and tree.queues[above[-1]].parent == ROOT:
        yield RULES.finding(
            paths.of(name, "parent"),
            f"queue {name!r} is on level {len(above) + 1} below root, the maximum is {MAX_DEPTH}: "
            f"{' → '.join((*reversed(above), name))}",
            "move it up, or run the webhook with a larger --max-queue-depth",
            "queue-depth",
            object=name,
        )


def _above(found: Excess, bound: str) -> str:
    if found.have is None:
        return f"but {bound} does not set {found.resource}, which counts as 0"
    return f"more than {bound} of {text(found.resource, found.have)}"


def _fix(found: Excess, bound: str, kind: str) -> str:
    if found.have is None:
        return f"add {found.resource} {text(found.resource, found.want)} to the {bound}, or remove it from {kind}"
    return f"raise the {bound} to {text(found.resource, found.want)} or lower the {kind}"
