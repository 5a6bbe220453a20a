"""Findings of queue tree checks, filtered by what a scheduler configuration uses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from trainyard.problem import Problem
from trainyard.queues.catalogue import RULES
from trainyard.queues.rule import Rule, Severity
from trainyard.queues.scheduling import Scheduling

__all__ = ["RULES", "Finding", "Rule", "Severity", "holding", "severity"]


@dataclass(frozen=True, order=True)
class Finding(Problem):
    """A finding about one queue.

    Parameters
    ----------
    queue
        Name of the queue; empty where it is about all of them.
    """

    queue: str = field(default="", kw_only=True)

    @property
    def severity(self) -> Severity:
        """What it means."""
        return severity(self)

    def as_json(self) -> dict[str, str | None]:
        """Return the shape of the command-line contract: queue, rule, severity, path, message, fix."""
        return {
            "queue": self.queue,
            "rule": self.rule,
            "severity": self.severity.value,
            "path": self.path,
            "message": self.message,
            "fix": self.fix,
        }


def severity(problem: Problem) -> Severity:
    """Return the severity of a finding of this package."""
    rule = RULES.get(problem.rule or "")
    return rule.severity if rule else Severity.ERROR


def holding(findings: Iterable[Finding], scheduling: Scheduling) -> list[Finding]:
    """Return the findings whose rules matter to a scheduler."""
    return [finding for finding in findings if RULES[finding.rule or ""].holds(scheduling)]
