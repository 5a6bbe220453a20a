"""JobSets created by this process and not yet recorded in a status; one may be deleted before it is recorded."""

from __future__ import annotations

import time
from dataclasses import dataclass

from trainyard.controller.status import finished
from trainyard.kube.resource import Key, Object, key_of, uid_of


@dataclass(frozen=True)
class _Created:
    train_job: str
    job_set: str
    record_at: float


class UnrecordedJobSets:
    """Created JobSets by TrainJob until they are recorded.

    Parameters
    ----------
    seconds
        Seconds for which a record waits to be combined with another status write.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._created: dict[Key, _Created] = {}

    def add(self, train_job: Object, job_set: Object) -> None:
        """Add a JobSet that was just created."""
        record_at = time.monotonic() + self._seconds
        self._created[key_of(train_job)] = _Created(uid_of(train_job), uid_of(job_set), record_at)

    def uid(self, train_job: Object) -> str | None:
        """Return the uid of the unrecorded JobSet, or None."""
        created = self._find(train_job)
        return None if created is None else created.job_set

    def wait(self, train_job: Object) -> float:
        """Return the seconds until the record is due for a separate write, or 0 if it is due or there is none."""
        created = self._find(train_job)
        return 0.0 if created is None else max(0.0, created.record_at - time.monotonic())

    def written(self, train_job: Object) -> None:
        """Process a written status: forget the JobSet if it is recorded or the TrainJob has finished."""
        record = (train_job.get("status") or {}).get("jobSet") or {}
        if finished(train_job) or record.get("uid") == self.uid(train_job):
            self.forget(key_of(train_job))

    def forget(self, key: Key) -> None:
        """Forget the JobSet of a TrainJob."""
        self._created.pop(key, None)

    def _find(self, train_job: Object) -> _Created | None:
        created = self._created.get(key_of(train_job))
        return created if created is not None and created.train_job == uid_of(train_job) else None
