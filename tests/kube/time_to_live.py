"""JobSet's time to live beside an API server in memory: ended JobSets are deleted by a clock that the test advances.

Read in jobset v0.12.0 pkg/controllers/ttl_after_finished.go: the time counts from the transition of the condition
Completed or Failed; the deletion is in the foreground, so watches first report the deletionTimestamp.
"""

from __future__ import annotations

import datetime
from typing import Any, Protocol

from tests.kube.fake_api import FakeApi

Body = dict[str, Any]
JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"


class _Clock(Protocol):
    now: datetime.datetime


class TimeToLive:
    """The part of JobSet's controller that deletes ended JobSets.

    Parameters
    ----------
    api
        The API server.
    clock
        Its ``now`` is advanced.
    """

    def __init__(self, api: FakeApi, clock: _Clock) -> None:
        self._api = api
        self._clock = clock
        self.deleted: list[str] = []
        """uids of the JobSets that were deleted."""

    def pass_time(self, seconds: float) -> None:
        """Advance the clock and delete what has expired."""
        self.expire(seconds)
        self.collect()

    def expire(self, seconds: float) -> None:
        """Advance the clock and mark what has expired as being deleted."""
        self._clock.now += datetime.timedelta(seconds=seconds)
        for body in self._api.of("jobsets"):
            due = expiry(body)
            if due is not None and due <= self._clock.now and "deletionTimestamp" not in body["metadata"]:
                when = self._clock.now.strftime("%Y-%m-%dT%H:%M:%SZ")
                self._api.put(JOB_SETS, {**body, "metadata": {**body["metadata"], "deletionTimestamp": when}})
                self.deleted.append(body["metadata"]["uid"])

    def collect(self) -> None:
        """Remove what is being deleted: its dependents are gone."""
        for body in self._api.of("jobsets"):
            if body["metadata"]["uid"] in self.deleted:
                self._api.remove(JOB_SETS, body["metadata"]["namespace"], body["metadata"]["name"])


def expiry(job_set: Body) -> datetime.datetime | None:
    """Return when a JobSet is deleted; None if it has not ended or has no time to live."""
    seconds = job_set["spec"].get("ttlSecondsAfterFinished")
    for entry in (job_set.get("status") or {}).get("conditions") or ():
        if entry["type"] in ("Completed", "Failed") and entry["status"] == "True" and seconds is not None:
            ended = datetime.datetime.fromisoformat(entry["lastTransitionTime"])
            return ended + datetime.timedelta(seconds=seconds)
    return None
