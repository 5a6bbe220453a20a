"""Documents of the record of usage: daily totals of a tenant in a month, and its jobs.

Sums are complete up to `until`; `running` has the levels from then on. So a document changes only when a job does, and
its reader counts what runs up to the end of the record.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from trainyard.insight.usage.account import Sums
from trainyard.insight.usage.levels import UsageGang

FORMAT: Final = "2"
USAGE_KEY: Final = "usage.json"
JOBS_KEY: Final = "jobs.json"
"""Keys of a ConfigMap with a document, and with its jobs."""
OTHERS: Final = "(others)"
"""Name of what has no name of its own."""


class _Stored(BaseModel):
    # A field of a later version is ignored: formats only grow.
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")


class _Named(_Stored):
    kind: str
    name: str
    queue: str = ""
    runtime: str = ""
    priority_class: str = ""

    def gang(self, namespace: str) -> UsageGang:
        """Return the job of a namespace."""
        return UsageGang(namespace, self.kind, self.name, self.queue, self.runtime, self.priority_class)


class DayUsage(_Stored):
    """Thousandths of a device times seconds on one day (UTC)."""

    day: int = Field(ge=1, le=31)
    resource: str
    asked: int = 0
    allocated: int = 0
    borrowed: int = 0
    taken_back: int = 0

    def sums(self) -> Sums:
        """Return the sums."""
        return Sums(self.asked, self.allocated, self.borrowed, self.taken_back)

    def add(self, other: Sums) -> None:
        """Add sums."""
        self.asked += other.asked
        self.allocated += other.allocated
        self.borrowed += other.borrowed
        self.taken_back += other.taken_back


class DayTotal(DayUsage):
    """What all jobs of one queue, runtime and priority class had."""

    queue: str = ""
    runtime: str = ""
    priority_class: str = ""


class JobRestart(_Stored):
    """A gang that got devices again, and what had interrupted it: evicted, the reason of a failed pod, or unknown."""

    at: int
    cause: str = ""


class JobUsage(_Named):
    """A job from when it asks for devices until it no longer does; the next one of the same name is another one.

    Parameters
    ----------
    created, started, ended
        Instants at which it asked for devices, first had some, and left; None if that has not happened.
    outcome, reason
        Condition with which a TrainJob ended, and its reason.
    restart_count, restarts
        Times that it got devices again after an interruption, and the last ones.
    interrupted
        Cause of the present interruption; None: there is none.
    """

    created: int
    started: int | None = None
    ended: int | None = None
    outcome: str = ""
    reason: str = ""
    restart_count: int = 0
    restarts: list[JobRestart] = Field(default_factory=list)
    interrupted: str | None = None
    days: list[DayUsage] = Field(default_factory=list)


class RunningLevel(_Named):
    """What a job asks for and has from the document's `until` on."""

    resource: str
    asked: int
    allocated: int
    borrowed: int


class QueueLoan(_Stored):
    """Thousandths of a device times seconds that a queue lent on one day (UTC)."""

    day: int = Field(ge=1, le=31)
    queue: str
    resource: str
    lent: int


class MonthDocument(_Stored):
    """What a ConfigMap of the record says, without its jobs.

    Parameters
    ----------
    tenant
        Namespace of the jobs; empty: the queues.
    month
        Such as 2026-10.
    until
        Instant up to which the sums are complete.
    queues
        Queues that only this tenant may use.
    dropped
        Jobs that were dropped because the document was full; the totals have them.
    """

    format: Literal["2"]
    tenant: str
    month: str = Field(pattern=r"^\d{4}-\d{2}$")
    until: int
    totals: list[DayTotal] = Field(default_factory=list)
    running: list[RunningLevel] = Field(default_factory=list)
    lent: list[QueueLoan] = Field(default_factory=list)
    queues: list[str] = Field(default_factory=list)
    dropped: int = 0
