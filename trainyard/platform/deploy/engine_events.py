"""Progress of an operation from the Pulumi engine's events: finished, pending and failed steps."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trainyard.checks.finding import Finding
from trainyard.platform.deploy.operation_result import ResourceChange

if TYPE_CHECKING:
    from pulumi.automation.events import EngineEvent, StepEventMetadata

    from trainyard.progress import Step


Address = tuple[str, str, str, str]
"""API version, kind, name and namespace (empty for cluster-scoped kinds)."""

_MARKUP = re.compile(r"<\{%.*?%\}>|\x1b\[[0-9;]*m")
_INTERNAL = frozenset({"pulumi:pulumi:Stack", "pulumi:providers:kubernetes"})
_COMPONENTS, _STACK = "trainyard:", "pulumi:pulumi:Stack"
"""Prefix of the types of components, and type of the stack. Only the program, not the provider, reports about them."""
_NOISE = ("Retry #",)
_ENDED = frozenset({"update failed", "preview failed"})
_SLOW = 3.0
_DELETIONS = ("delete", "delete-replaced")


@dataclass
class EventLog:
    """The events of one operation, reported to a progress step.

    Parameters
    ----------
    step
        Receives progress; None: no progress.
    """

    step: Step | None = None
    counts: Counter[str] = field(default_factory=Counter)
    changes: list[ResourceChange] = field(default_factory=list)
    failures: dict[str, Finding] = field(default_factory=dict)
    refusals: list[Finding] = field(default_factory=list)
    advice: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _running: dict[str, tuple[str, float]] = field(default_factory=dict)
    _latest: dict[str, str] = field(default_factory=dict)
    _held: dict[str, str] = field(default_factory=dict)
    _failed: list[str] = field(default_factory=list)
    _finished: int = 0
    _retired: int = 0
    _earlier: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, event: EngineEvent) -> None:
        """Record an event."""
        with self._lock:
            if event.resource_pre_event:
                self._started(event.resource_pre_event.metadata)
            elif event.res_outputs_event:
                self._ended(event.res_outputs_event.metadata)
            elif event.res_op_failed_event:
                urn = event.res_op_failed_event.metadata.urn
                self._running.pop(urn, None)
                self._failed.append(urn)
            elif event.diagnostic_event:
                self._diagnostic(event.diagnostic_event)
            elif policy := getattr(event, "policy_event", None):
                (self.refusals if policy.enforcement_level == "mandatory" else self.advice).append(
                    _policy_finding(policy)
                )
            elif event.summary_event:
                self.counts = self._earlier + self._counted(event.summary_event.resource_changes)
        self.report()

    def retry(self) -> None:
        """Drop the failures of an attempt that is retried; its counts are kept."""
        with self._lock:
            self.failures.clear()
            self._held.clear()
            self._failed.clear()
            self._retired = 0
            self._earlier = Counter({name: count for name, count in self.counts.items() if name != "same"})

    def report(self) -> None:
        """Update the progress step."""
        if self.step is not None:
            self.step.update(self.describe())

    def describe(self) -> str:
        """Return the progress in one line: finished operations, and the longest-running one."""
        now = time.monotonic()
        with self._lock:
            held = next((urn for urn in self._running if urn in self._held), None)
            shown = self._running if held is None else {held: self._running[held]}
            waiting = sorted((began, resource_of(urn), operation) for urn, (operation, began) in shown.items())
            done = f"{self._finished} done"
            if not waiting:
                return done
            began, resource, operation = waiting[0]
            others = f" and {len(self._running) - 1} more" if len(self._running) > 1 else ""
            text = f"{done}, {operation} {resource}{others}"
            if held is not None:
                text += f" for {now - began:.0f} s: {self._held[held]}"
            elif now - began > _SLOW:
                latest = next((self._latest[urn] for urn in self._running if urn in self._latest), "")
                text += f" for {now - began:.0f} s" + (f": {latest}" if latest else "")
            return text

    def deleting(self, seconds: float) -> list[tuple[str, Address]]:
        """Return the URN and the address of each object whose deletion has run longer than some seconds."""
        now = time.monotonic()
        with self._lock:
            slow = [u for u, (op, began) in self._running.items() if op in _DELETIONS and now - began > seconds]
        return [(urn, address) for urn in slow if (address := address_of(urn)) is not None]

    def hold(self, urn: str, reason: str) -> None:
        """Set what holds the deletion of a resource; empty: unknown."""
        with self._lock:
            self._held.pop(urn, None)
            if reason:
                self._held[urn] = reason

    @property
    def findings(self) -> list[Finding]:
        """Failed resources with their messages, each once, and mandatory policy violations."""
        found = [
            _with_reason(
                self.failures.get(urn, Finding(resource_of(urn), self._latest.get(urn, "failed without a message"))),
                self._held.get(urn, ""),
            )
            for urn in dict.fromkeys(self._failed)
        ]
        general = [finding for urn, finding in self.failures.items() if urn not in self._failed]
        return [*self.refusals, *(found or general)]

    def _started(self, metadata: StepEventMetadata) -> None:
        operation = str(_plain(metadata.op))
        if metadata.type in _INTERNAL or metadata.type.startswith(_COMPONENTS) or operation == "same":
            return
        self._running[metadata.urn] = (operation, time.monotonic())
        self._changed(operation, metadata)

    def _ended(self, metadata: StepEventMetadata) -> None:
        operation, _ = self._running.pop(metadata.urn, ("", 0.0))
        if operation:
            self._finished += 1
        if operation == "refresh":
            # The result of a refresh is only known at its end.
            self._changed(str(_plain(metadata.op)), metadata)
        self._latest.pop(metadata.urn, None)
        self._held.pop(metadata.urn, None)

    def _changed(self, operation: str, metadata: StepEventMetadata) -> None:
        if operation == "delete-replaced" and not any(
            (each.operation, each.resource) == ("replace", resource_of(metadata.urn)) for each in self.changes
        ):
            operation = "delete"  # Its successor is a component without an object.
            self._retired += 1
        if operation in ("create", "import", "update", "delete", "replace"):
            fields = tuple(sorted(metadata.detailed_diff)) if metadata.detailed_diff else tuple(metadata.diffs or ())
            self.changes.append(
                ResourceChange(operation, resource_of(metadata.urn), component_of(metadata.urn), fields)
            )

    def _counted(self, resource_changes: Mapping[Any, int]) -> Counter[str]:
        """Count what components succeed as deleted; the engine counts it as replaced."""
        counts = Counter({str(_plain(key)): value for key, value in resource_changes.items()})
        counts["replace"] -= self._retired
        counts["delete"] += self._retired
        return +counts

    def _diagnostic(self, event: Any) -> None:
        message = " ".join(_MARKUP.sub("", event.message).split())
        urn = event.urn or ""
        if not message:
            return
        if event.severity == "error" and message not in _ENDED:
            known = self.failures.get(urn)
            if known is None or len(message) > len(known.message):
                self.failures[urn] = Finding(resource_of(urn) if urn else "", message)
        elif event.severity == "warning" and (not urn or _type_of(urn).startswith((_COMPONENTS, _STACK))):
            if message not in self.notes:
                self.notes.append(message)
        elif urn and not message.startswith(_NOISE):
            self._latest[urn] = message[:160]


def resource_of(urn: str) -> str:
    """Return the name of a resource."""
    return urn.rpartition("::")[2]


def component_of(urn: str) -> str:
    """Return the component that a resource belongs to; empty if none."""
    parts = urn.split("::")
    parents = parts[2].split("$")[:-1] if len(parts) > 2 else []
    return parents[-1].rpartition(":")[2] if parents else ""


def address_of(urn: str) -> Address | None:
    """Return API version, kind, name and namespace of a resource; None if it is no object of the cluster."""
    prefix, _, rest = _type_of(urn).partition(":")
    api_version, _, kind = rest.rpartition(":")
    named = resource_of(urn).split("/")
    if prefix != "kubernetes" or len(named) not in (2, 3) or named[0] != kind:
        return None
    return api_version.removeprefix("core/"), kind, named[-1], named[1] if len(named) > 2 else ""


def _with_reason(finding: Finding, reason: str) -> Finding:
    return Finding(finding.path, f"{finding.message}: {reason}", finding.fix) if reason else finding


def _type_of(urn: str) -> str:
    parts = urn.split("::")
    return parts[2].rpartition("$")[2] if len(parts) > 2 else ""


def _policy_finding(event: Any) -> Finding:
    text, _, fix = _MARKUP.sub("", event.message).partition("\n")[2].strip().rpartition(". Fix: ")
    resource = resource_of(event.resource_urn) if event.resource_urn else ""
    message, fix = (text, fix) if text else (fix, "")
    rule = None if event.policy_name == event.policy_pack_name else event.policy_name
    return Finding(resource, f"{rule} {message}" if rule else message, fix, rule)


def _plain(value: Any) -> Any:
    return getattr(value, "value", value)
