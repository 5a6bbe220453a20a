"""Result of an operation on a stack, or of its preview."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.checks.finding import Finding
from trainyard.scheduling.queues.plan import Plan
from trainyard.scheduling.queues.plan_report import as_json, as_text

_UNCHANGED = frozenset({"same", "read"})


@dataclass(frozen=True)
class ResourceChange:
    """One resource that changes.

    Parameters
    ----------
    operation
        create, import (of a live object into the state), update, delete, replace or refresh.
    resource
        Kind, namespace (if any) and name: ``Queue/vision``.
    component
        Component it belongs to.
    fields
        Paths of the fields that differ.
    """

    operation: str
    resource: str
    component: str
    fields: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the JSON shape."""
        return {
            "operation": self.operation,
            "resource": self.resource,
            "component": self.component,
            "fields": list(self.fields),
        }


@dataclass(frozen=True)
class OperationResult:
    """The outcome of one operation.

    Parameters
    ----------
    operation
        up, preview, destroy or refresh.
    counts
        Number of resources by operation; ``same``: unchanged.
    changes
        The changed resources, in processing order.
    seconds
        Duration.
    advice
        Advisory findings of admission rules.
    queues
        Effect of queue changes on tenants and their jobs; None if no queue changes.
    notes
        What the program reports: namespaces that are deleted with their content, retired queues that stay.
    restored
        What `destroy` restored of an installation that the stack had taken over, one line for each object.
    unrestored
        Objects of it that could not be restored.
    """

    operation: str
    stack: str
    counts: Mapping[str, int]
    changes: tuple[ResourceChange, ...]
    seconds: float
    advice: tuple[Finding, ...] = ()
    queues: Plan | None = None
    notes: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    unrestored: tuple[Finding, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether any resource changes."""
        return any(count for operation, count in self.counts.items() if operation not in _UNCHANGED)

    @property
    def summary(self) -> str:
        """Summary of the changes in one line."""
        same = self.counts.get("same", 0)
        if not self.changed:
            return f"nothing to change, {same} resources are as declared"
        parts = [
            f"{count} to {name}" if self.operation == "preview" else f"{count} {name.removesuffix('e')}ed"
            for name, count in self._named()
        ]
        return ", ".join([*parts, f"{same} unchanged"])

    def lines(self) -> list[str]:
        """Return the changes by component and the advisory findings, as lines of text."""
        signs = {"create": "+", "import": "=", "update": "~", "delete": "-", "replace": "±"}
        found = []
        for component in dict.fromkeys(change.component for change in self.changes):
            found.append(component or "Stack")
            for change in self.changes:
                if change.component == component:
                    fields = f"  {', '.join(change.fields)}" if change.fields else ""
                    found.append(f"  {signs.get(change.operation, '?')} {change.resource}{fields}")
        found += ["Notes", *(f"  ! {note}" for note in self.notes)] if self.notes else []
        found += ["Policies", *(f"  ! {finding}" for finding in self.advice)] if self.advice else []
        return [*found, *(as_text(self.queues).splitlines() if self.queues else [])]

    def as_json(self) -> dict[str, Any]:
        """Return the JSON shape."""
        return {
            "operation": self.operation,
            "stack": self.stack,
            "changed": self.changed,
            "counts": dict(self.counts),
            "changes": [change.as_json() for change in self.changes],
            "seconds": round(self.seconds, 1),
            "notes": list(self.notes),
            "advice": [finding.as_json() for finding in self.advice],
            "queues": as_json(self.queues) if self.queues else None,
            "restored": list(self.restored),
            "unrestored": [finding.as_json() for finding in self.unrestored],
        }

    def _named(self) -> list[tuple[str, int]]:
        return [(name, count) for name, count in sorted(self.counts.items()) if count and name not in _UNCHANGED]
