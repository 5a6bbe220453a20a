"""Convert units of settings (nodes, GPUs by short name, percent of the parent) to plain Volcano amounts.

Amounts are computed only here, so that what is applied, checked and shown is the same. Arithmetic is exact; percentages
are rounded down to whole devices, and the remainders are recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from trainyard import quantity
from trainyard.checks.finding import Finding
from trainyard.scheduling.queues.amounts import counted, step
from trainyard.scheduling.queues.capacity import Capacity, capacity_of
from trainyard.scheduling.queues.paths import Paths, SettingsPaths
from trainyard.scheduling.queues.queue import KINDS, ROOT, Queue
from trainyard.scheduling.queues.rules import RULES
from trainyard.scheduling.queues.tree import QueueTree
from trainyard.settings.shares import ALL, NODES
from trainyard.settings.tenancy import QueueSettings

if TYPE_CHECKING:
    from trainyard.settings.stack import StackSettings


_SHAPE = f"{NODES}/"


@dataclass(frozen=True)
class Remainder:
    """Remainder of a share that is rounded down.

    Parameters
    ----------
    queue, kind, resource
        The amount.
    exact
        Exact amount, in the resource's base unit.
    given
        Rounded amount.
    """

    queue: str
    kind: str
    resource: str
    exact: Fraction
    given: Fraction


@dataclass(frozen=True)
class Compiled:
    """Queues in plain Volcano amounts.

    Parameters
    ----------
    queues
        Queues by name.
    findings
        Amounts that could not be computed; these are missing from `queues`.
    remainders
        Remainders of rounding.
    """

    queues: Mapping[str, Queue]
    findings: tuple[Finding, ...] = ()
    remainders: tuple[Remainder, ...] = ()

    @property
    def tree(self) -> QueueTree:
        """The queues with their edges."""
        return QueueTree({name: queue for name, queue in self.queues.items() if name != ROOT}, self.queues.get(ROOT))


def queue_tree(settings: StackSettings) -> QueueTree:
    """Return the queue tree of a stack in plain Volcano amounts, without amounts that cannot be computed."""
    return compile_queues(settings.queues, capacity_of(settings)).tree


def compile_queues(queues: Mapping[str, QueueSettings], capacity: Capacity, paths: Paths | None = None) -> Compiled:
    """Compute the plain amounts of queues.

    Parameters
    ----------
    queues
        Queues by name, as in the settings.
    capacity
        Capacity of the cluster: the base of shares below root.
    paths
        Paths of the queues.
    """
    compiler = _Compiler(queues, capacity, paths or SettingsPaths())
    for name in queues:
        compiler.queue(name)
    ordered = {name: compiler.done[name] for name in queues}
    compiler.findings += _lost(compiler, queues)
    return Compiled(ordered, tuple(compiler.findings), tuple(compiler.remainders))


@dataclass
class _Compiler:
    given: Mapping[str, QueueSettings]
    capacity: Capacity
    paths: Paths
    done: dict[str, Queue] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    remainders: list[Remainder] = field(default_factory=list)
    _names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _rounded_parts: dict[tuple[str, str, str], tuple[Fraction, Fraction, str]] = field(default_factory=dict)

    def queue(self, name: str) -> None:
        """Compute one queue, after those above it."""
        waiting: dict[str, None] = {}
        while name in self.given and name not in self.done and name not in waiting:
            waiting[name] = None
            name = self.given[name].parent
        for each in reversed(waiting):
            settings = self.given[each]
            amounts = {kind: self._amounts(each, settings, kind) for kind in KINDS}
            self.done[each] = Queue(
                parent=settings.parent,
                weight=settings.weight,
                priority=settings.priority,
                reclaimable=settings.reclaimable,
                affinity=settings.affinity,
                type=settings.type,
                state=settings.state,
                **amounts,
            )

    def _amounts(self, name: str, settings: QueueSettings, kind: str) -> Mapping[str, str]:
        written: Mapping[str, str] = getattr(settings, kind)
        if not written or all(
            counted(key) and not key.startswith(_SHAPE) and value[-1] != "%" for key, value in written.items()
        ):
            return written
        result: dict[str, str] = {}
        if ALL in written:
            result |= self._part_of_all(name, settings.parent, kind, written[ALL])
        result |= self._nodes(name, kind, {key: value for key, value in written.items() if _is_nodes(key)})
        named: dict[str, str] = {}
        for key, value in written.items():
            if key == ALL or _is_nodes(key):
                continue
            resource = self._resource(name, kind, key)
            if resource in named:
                self._report(name, kind, key, f"{resource} is set twice", "remove one", "queue-resource-ambiguous")
            elif resource is not None:
                named[resource] = value
                amount = self._part(name, settings.parent, kind, resource, value) if value.endswith("%") else value
                if amount is not None:
                    result[resource] = amount
        return result

    def _resource(self, name: str, kind: str, key: str) -> str | None:
        """Return the resource of a key: itself, or the only device with that short name."""
        if counted(key) or "/" in key:
            return key
        if key not in self._names:
            short = {key, key.removesuffix("s")}
            self._names[key] = tuple(each for each in self.capacity.devices if each.rpartition("/")[2] in short)
        found = self._names[key]
        if len(found) > 1:
            message = f"{key!r} is ambiguous: {' or '.join(found)}"
            self._report(name, kind, key, message, "write the full name", "queue-resource-ambiguous")
            return None
        return found[0] if found else key

    def _part_of_all(self, name: str, parent: str, kind: str, share: str) -> dict[str, str]:
        whole = self._whole(parent, kind)
        if whole is not None and not whole:
            base = "the fabric has no nodes" if parent == ROOT else f"{kind} of its parent {parent!r} is unset"
            fix = "write amounts" if parent == ROOT else f"set {kind} of {parent}, or write amounts"
            self._report(name, kind, "", f"{kind} is {share}, but {base}", fix, "queue-percent-base")
        return {
            resource: self._rounded(name, kind, resource, amount, share) for resource, amount in (whole or {}).items()
        }

    def _part(self, name: str, parent: str, kind: str, resource: str, share: str) -> str | None:
        whole = self._whole(parent, kind)
        if whole is None:
            return None
        if resource not in whole:
            base = "the fabric has none" if parent == ROOT else f"{kind} of its parent {parent!r} does not set it"
            fix = (
                "write an amount" if parent == ROOT else f"add {resource} to the {kind} of {parent}, or write an amount"
            )
            self._report(name, kind, resource, f"{resource} is {share}, but {base}", fix, "queue-percent-base")
            return None
        return self._rounded(name, kind, resource, whole[resource], share)

    def _whole(self, parent: str, kind: str) -> Mapping[str, str] | None:
        """Return the base of a share; None if the parent is invalid, which has its own finding."""
        if parent == ROOT:
            total = self.capacity.total or {}
            return {resource: amount for resource, amount in total.items() if resource != "pods"}
        above = self.done.get(parent)
        return above.quantities(kind) if above is not None else None

    def _rounded(self, name: str, kind: str, resource: str, whole: str, share: str) -> str:
        # Siblings often have the same share, and exact fractions take long to compute.
        known = self._rounded_parts.get((resource, whole, share))
        if known is None:
            known = _floor(resource, quantity.parse(whole) * Fraction(share.removesuffix("%")) / 100)
            self._rounded_parts[resource, whole, share] = known
        return self._noted(name, kind, resource, known)

    def _nodes(self, name: str, kind: str, written: Mapping[str, str]) -> dict[str, str]:
        """Return the capacity of nodes; several shapes are added."""
        exact: dict[str, Fraction] = {}
        for key, number in written.items():
            shape = key.removeprefix(_SHAPE)
            node = self.capacity.node if key == NODES else self.capacity.shapes.get(shape)
            if node is None or number.endswith("%"):
                self._report(name, kind, key, *self._no_nodes(kind, key, number), "queue-nodes-shape")
                continue
            for resource, amount in node.items():
                # The scheduler ignores limits of pods, so they are set only on request.
                if resource != "pods":
                    exact[resource] = exact.get(resource, Fraction(0)) + quantity.parse(amount) * quantity.parse(number)
        return {
            resource: self._noted(name, kind, resource, _floor(resource, amount)) for resource, amount in exact.items()
        }

    def _no_nodes(self, kind: str, key: str, number: str) -> tuple[str, str]:
        """Return the message and the fix for an invalid number of nodes."""
        shapes = ", ".join(_SHAPE + each for each in sorted(self.capacity.shapes))
        if number.endswith("%"):
            return f"{key} is {number}, a percentage", f"write {kind}: {number} for a share of all resources"
        if key == NODES:
            message = f"{key} is {number}, but the nodes of the fabric have different shapes"
            return message, f"write {shapes}, or the amount of each resource" if shapes else "write each resource"
        return f"the fabric has no shape {key.removeprefix(_SHAPE)!r}", f"use {shapes or NODES}"

    def _noted(self, name: str, kind: str, resource: str, rounded: tuple[Fraction, Fraction, str]) -> str:
        """Return the text of a rounded amount, and record its remainder."""
        exact, given, text = rounded
        if given is not exact:
            self.remainders.append(Remainder(name, kind, resource, exact, given))
        return text

    def _report(self, name: str, kind: str, key: str, message: str, fix: str, rule: str) -> None:
        path = self.paths.of(name, kind, key)
        self.findings.append(RULES.finding(path, f"queue {name!r}: {kind}: {message}", fix, rule, object=name))


def _floor(resource: str, exact: Fraction) -> tuple[Fraction, Fraction, str]:
    """Return an amount, its rounded value, and that as text."""
    piece = step(resource)
    given = exact // piece * piece
    return exact, exact if given == exact else given, quantity.format(given, resource)


def _is_nodes(key: str) -> bool:
    return key == NODES or key.startswith(_SHAPE)


def _lost(compiler: _Compiler, queues: Mapping[str, QueueSettings]) -> Iterator[Finding]:
    """Report remainders of a whole device, and shares that are rounded down to 0."""
    lost: dict[tuple[str, str, str], list[Remainder]] = {}
    for each in compiler.remainders:
        if "/" in each.resource:
            lost.setdefault((queues[each.queue].parent, each.kind, each.resource), []).append(each)
    for (parent, kind, resource), parts in lost.items():
        missing = sum((each.exact - each.given for each in parts), Fraction(0))
        empty = [each for each in parts if not each.given]
        if missing < 1 and not empty:
            continue
        first = (empty or parts)[0].queue
        shown = ", ".join(f"{each.queue} {float(each.exact):g} → {each.given}" for each in parts[:8])
        message = f"{kind} of {resource} below {parent!r} is rounded down to whole devices: {shown}"
        fix = f"write whole numbers; {float(missing):g} {resource} remain"
        yield RULES.finding(compiler.paths.of(first, kind, resource), message, fix, "queue-share-rounded", object=first)
