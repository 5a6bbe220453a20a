"""The rules a queue tree is proved against, and the Volcano versions they hold for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from trainyard.problem import Problem

__all__ = ["RULES", "Rule", "Severity", "severity"]


class Severity(StrEnum):
    """Whether a finding stops the tree from being applied."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Rule:
    """One rule of the tree.

    Parameters
    ----------
    id
        Identifier that findings carry.
    severity
        What a violation means.
    title
        What the rule asks for, in one sentence.
    refused_by
        Volcano versions whose admission webhook refuses a violation; empty where the tree is accepted and goes wrong
        later.
    """

    id: str
    severity: Severity
    title: str
    refused_by: tuple[str, ...] = ()


_ERROR, _WARNING = Severity.ERROR, Severity.WARNING
_WEBHOOK = ("1.14.1",)

RULES: dict[str, Rule] = {
    rule.id: rule
    for rule in (
        Rule("queue-capability-parent", _ERROR, "A capability fits in the one of the queue above", _WEBHOOK),
        Rule("queue-capability-zero", _WARNING, "A capability of 0 cpu or memory is read as no limit"),
        Rule("queue-cycle", _ERROR, "The tree has no cycle: the scheduler would die of it"),
        Rule("queue-deserved-absent", _WARNING, "A queue that jobs use has a share it can reclaim"),
        Rule("queue-deserved-capability", _ERROR, "deserved fits in the queue's own capability", _WEBHOOK),
        Rule("queue-deserved-fabric", _WARNING, "The shares of the top queues together fit in the fabric"),
        Rule("queue-deserved-sum", _ERROR, "The shares of the queues below fit in the parent's", _WEBHOOK),
        Rule("queue-guarantee-ancestor", _ERROR, "What is guaranteed below a queue fits in its capability"),
        Rule("queue-guarantee-capability", _ERROR, "A guarantee fits in the queue's own capability", _WEBHOOK),
        Rule("queue-guarantee-deserved", _ERROR, "A guarantee is part of the queue's share", _WEBHOOK),
        Rule("queue-guarantee-fabric", _ERROR, "The guarantees of all queues together fit in the fabric"),
        Rule("queue-guarantee-sum", _ERROR, "The guarantees of the queues below fit in the parent's", _WEBHOOK),
        Rule("queue-name-reserved", _ERROR, "root and default belong to Volcano"),
        Rule("queue-not-leaf", _ERROR, "Jobs use leaf queues only: one gang elsewhere stops all scheduling"),
        Rule("queue-parent-default", _ERROR, "default has no queues below it: jobs without a queue land there"),
        Rule("queue-parent-unknown", _ERROR, "A parent is declared", _WEBHOOK),
        Rule("queue-resource-fraction", _ERROR, "Devices and pods are whole", _WEBHOOK),
        Rule("queue-resource-name", _ERROR, "A resource name is one that Volcano counts"),
        Rule("queue-resource-offered", _WARNING, "A resource is offered by the nodes of the fabric"),
        Rule("queue-starved", _WARNING, "A queue is left something by the guarantees of others"),
    )
}
"""Every rule by its id."""


def severity(problem: Problem) -> Severity:
    """Return the severity of a finding of this package."""
    rule = RULES.get(problem.rule or "")
    return rule.severity if rule else Severity.ERROR
