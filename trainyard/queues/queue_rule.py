"""Rule model of the queue tree: what it requires, who rejects a violation, and when it applies."""

from __future__ import annotations

from dataclasses import dataclass

from trainyard.checks.rule import Rule
from trainyard.queues.scheduling import VOLCANO_VERSIONS, Plugin, Scheduling

__all__ = ["QueueRule"]


@dataclass(frozen=True)
class QueueRule(Rule):
    """One rule of the tree.

    Parameters
    ----------
    refused_by
        Volcano versions whose API refuses a violation; empty where the tree is accepted and goes wrong later.
    versions
        Volcano versions it holds for.
    plugins
        Plug-ins of which one must be on; empty for a rule that holds whatever shares out the cluster.
    """

    refused_by: tuple[str, ...] = ()
    versions: tuple[str, ...] = VOLCANO_VERSIONS
    plugins: frozenset[Plugin] = frozenset()

    def holds(self, scheduling: Scheduling) -> bool:
        """Return whether the rule matters to a scheduler."""
        if scheduling.version not in self.versions:
            return False
        return not self.plugins or bool(self.plugins & scheduling.plugins)
