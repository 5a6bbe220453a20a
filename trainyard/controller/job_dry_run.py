"""Dry run of the Jobs of a TrainJob, before its JobSet is created for the first time.

Neither the schema nor JobSet's webhook validates pods as completely as the API server validates a Job. Without this, a
JobSet whose Jobs are rejected is accepted, and its TrainJob waits: only JobSet's events say why.
"""

from __future__ import annotations

import datetime
import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from trainyard.checks.finding import Finding
from trainyard.controller.actions import Inputs
from trainyard.controller.resources import FIELD_MANAGER
from trainyard.jobs.render.child_jobs import child_jobs
from trainyard.jobs.render.job_errors import FieldError, train_job_findings
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.kinds import JOBS
from trainyard.kube.resource import Key, Object, key_of, uid_of

_LOG: Final = logging.getLogger(__name__)
_VALID_FOR: Final = datetime.timedelta(minutes=10)
"""Time after which rejected Jobs are tried again although nothing changed: the API server may be another version."""
_WEBHOOK_FAILED: Final = "failed calling webhook"
_DENIED: Final = "admission webhook "
"""Start of the message of a webhook that denies a request; it may decide otherwise for JobSet's controller."""


@dataclass(frozen=True)
class _Checked:
    """Errors of the Jobs with a digest."""

    digest: str
    time: datetime.datetime
    errors: tuple[tuple[FieldError, ...], ...]


class JobDryRun:
    """Dry runs of Jobs; the last answer of each TrainJob is kept until its JobSet is created.

    Parameters
    ----------
    client
        API client.
    clock
        Wall clock (UTC).
    """

    def __init__(self, client: Client, clock: Callable[[], datetime.datetime]) -> None:
        self._client = client
        self._clock = clock
        self._answers: dict[Key, _Checked] = {}

    def forget(self, key: Key) -> None:
        """Drop the answer about a TrainJob."""
        self._answers.pop(key, None)

    async def findings(self, job: Object, inputs: Inputs, objects: Sequence[Object]) -> tuple[Finding, ...]:
        """Return the errors with which the API server rejects the Jobs of a TrainJob.

        Raises
        ------
        ApiError, TransportError
            The API server failed or did not respond; retry.
        """
        if inputs.train_job is None or inputs.train_job.spec is None or inputs.runtime is None:
            return ()
        bodies = [child.body for body in objects if body["kind"] == "JobSet" for child in child_jobs(body)]
        digest = hashlib.blake2b(
            orjson.dumps([uid_of(job), bodies], option=orjson.OPT_SORT_KEYS), digest_size=16
        ).hexdigest()
        now, known = self._clock(), self._answers.get(key_of(job))
        if known is None or known.digest != digest or not datetime.timedelta() <= now - known.time < _VALID_FOR:
            errors = tuple([await self._errors(body) for body in bodies])
            known = self._answers[key_of(job)] = _Checked(digest, now, errors)
        if not any(known.errors):
            return ()
        reference, answers = inputs.train_job.spec.runtime_ref, known.errors
        runtime = {**inputs.runtime.body(), "kind": reference.kind, "metadata": {"name": reference.name}}
        return train_job_findings(inputs.train_job, runtime, objects, lambda _: answers)

    async def _errors(self, body: Object) -> tuple[FieldError, ...]:
        try:
            await self._client.create(JOBS, body, field_manager=FIELD_MANAGER, dry_run=True)
        except ApiError as error:
            if error.status == 422 and error.fields and not error.message.startswith(_DENIED):
                return tuple(FieldError(*field) for field in error.fields)
            if error.status == 429 or (error.status >= 500 and _WEBHOOK_FAILED not in error.message):
                raise
            # A missing permission, an admission policy or a webhook says nothing about the fields of the Job.
            if error.status != 409:
                name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
                _LOG.info("Job %s/%s is not validated before its JobSet is created: %s", namespace, name, error.message)
        return ()
