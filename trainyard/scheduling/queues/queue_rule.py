"""Rule model of the queue tree: requirement, who rejects a violation, and when the rule applies."""

from __future__ import annotations

from dataclasses import dataclass

from trainyard.checks.rule import Rule
from trainyard.scheduling.queues.scheduling import VOLCANO_VERSIONS, Scheduling, SharePlugin


@dataclass(frozen=True)
class QueueRule(Rule):
    """One rule of the queue tree.

    Parameters
    ----------
    rejected_by
        Volcano versions that reject a violation; empty if they accept the tree and it fails later.
    versions
        Volcano versions to which it applies.
    plugins
        The rule applies if one of these plug-ins is on; empty: always.
    """

    rejected_by: tuple[str, ...] = ()
    versions: tuple[str, ...] = VOLCANO_VERSIONS
    plugins: frozenset[SharePlugin] = frozenset()

    def holds(self, scheduling: Scheduling) -> bool:
        """Return whether the rule applies to a scheduler."""
        if scheduling.version not in self.versions:
            return False
        return not self.plugins or bool(self.plugins & scheduling.plugins)
