"""Events about errors of TrainJobs, at most one a minute each while nothing changes."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable

from trainyard.api.constants import RESOURCES_CREATION_FAILED
from trainyard.checks.finding import Finding
from trainyard.controller.policy_review import message_of
from trainyard.kube.event_recorder import EventRecorder
from trainyard.kube.resource import Key, Object, key_of

_MESSAGE_LIMIT = 950
_DELAY = datetime.timedelta(seconds=5)
_INTERVAL = datetime.timedelta(minutes=1)


class FailureEvents:
    """Records events about errors of TrainJobs.

    Parameters
    ----------
    events
        Event recorder.
    clock
        Wall clock (UTC).
    """

    def __init__(self, events: EventRecorder, clock: Callable[[], datetime.datetime]) -> None:
        self._events = events
        self._clock = clock
        self._last: dict[Key, tuple[str, datetime.datetime]] = {}

    def forget(self, key: Key) -> None:
        """Drop the last event of a TrainJob, so that the next one is recorded at once."""
        self._last.pop(key, None)

    def too_early(self, job: Object, *, defer: bool) -> bool:
        """Return whether an error is not reported yet: it is deferred, and the TrainJob is younger than 5 seconds."""
        return defer and age(job, self._clock()) < _DELAY

    def message(self, findings: Iterable[Finding]) -> str:
        """Return the message of errors in a condition."""
        return _joined(findings)[:_MESSAGE_LIMIT]

    def record(
        self,
        job: Object,
        findings: Iterable[Finding],
        reason: str = RESOURCES_CREATION_FAILED,
        *,
        defer: bool = False,
    ) -> str:
        """Record an event, at most once a minute if unchanged; return its message in full.

        Parameters
        ----------
        job, findings, reason
            The TrainJob, its errors, and the reason of the event.
        defer
            Whether to record none in the first five seconds of the TrainJob.
        """
        full = f"TrainJob resources reconciliation failed: {_joined(findings)}"
        text = full[:_MESSAGE_LIMIT]
        now, key = self._clock(), key_of(job)
        before, since = self._last.get(key, ("", now))
        if self.too_early(job, defer=defer):
            return full
        if before != text or passed(now - since, _INTERVAL):
            self._last[key] = (text, now)
            self._events.warning(job, reason, text)
        return full


def _joined(findings: Iterable[Finding]) -> str:
    return "; ".join(message_of(finding) for finding in findings)


def age(job: Object, now: datetime.datetime) -> datetime.timedelta:
    """Return the time since the creation of an object; zero if it is not known."""
    created = job["metadata"].get("creationTimestamp")
    if created is None:
        return datetime.timedelta()
    return now - datetime.datetime.fromisoformat(created.replace("Z", "+00:00"))


def passed(elapsed: datetime.timedelta, interval: datetime.timedelta) -> bool:
    """Return whether an interval has passed, or the clock was set back, so that it would take as much longer."""
    return not datetime.timedelta() <= elapsed < interval
