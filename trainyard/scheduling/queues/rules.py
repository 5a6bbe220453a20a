"""Registry of the queue tree rules, by subject."""

from __future__ import annotations

from collections.abc import Iterable

from trainyard.checks.finding import Finding
from trainyard.checks.rule import RuleSet
from trainyard.scheduling.queues.scheduling import Scheduling
from trainyard.scheduling.queues.share_rules import SHARE_RULES
from trainyard.scheduling.queues.tree_rules import TREE_RULES

RULES = RuleSet((*TREE_RULES, *SHARE_RULES))
"""Every rule by its id."""


def holding(findings: Iterable[Finding], scheduling: Scheduling) -> list[Finding]:
    """Return the findings whose rules apply to a scheduler."""
    return [finding for finding in findings if finding.rule is None or RULES[finding.rule].holds(scheduling)]
