"""Jobs that hold something now: of very many in a namespace, the last ones have one name, so the record is bounded."""

from __future__ import annotations

from collections import Counter, defaultdict

from trainyard.insight.usage.levels import UsageGang
from trainyard.insight.usage.month_document import OTHERS

MAX_JOBS = 1_000
"""Unfinished jobs of a namespace with a name of their own; a document of the record has all of them."""


class OpenJobs:
    """The job of each part."""

    def __init__(self) -> None:
        self._of: dict[str, UsageGang] = {}
        self._parts: defaultdict[str, Counter[UsageGang]] = defaultdict(Counter)

    def get(self, part: str) -> UsageGang | None:
        """Return the job of a part."""
        return self._of.get(part)

    def put(self, part: str, gang: UsageGang) -> UsageGang:
        """Replace the job of a part, and return it; it has no name of its own if there are too many."""
        before = self._of.get(part)
        if before is not None and before in (gang, gang._replace(name=OTHERS)):
            return before
        self.remove(part)
        parts = self._parts[gang.namespace]
        if gang not in parts and len(parts) >= MAX_JOBS:
            gang = gang._replace(name=OTHERS)
        else:
            parts[gang] += 1
        self._of[part] = gang
        return gang

    def remove(self, part: str) -> None:
        """Remove a part."""
        gang = self._of.pop(part, None)
        if gang is not None and gang.name != OTHERS:
            parts = self._parts[gang.namespace]
            parts[gang] -= 1
            if not parts[gang]:
                del parts[gang]
