"""Validation of the Jobs of TrainJobs and runtimes, and of other objects with pods, as by the API server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from trainyard.api.constants import JOB_SET_API_VERSION
from trainyard.checks.finding import Finding
from trainyard.jobs.render.child_jobs import is_job_set
from trainyard.jobs.render.job_errors import (
    Validate,
    finding_of,
    job_set_findings,
    runtime_findings,
    train_job_findings,
)
from trainyard.jobs.render.submission import submitted
from trainyard.jobs.runtimes.samples import sample_train_job
from trainyard.policy.check.sources import Manifest
from trainyard.policy.check.train_job_check import Resolved
from trainyard.policy.check.world import DEFAULT_NAMESPACE, CheckContext, FoundRuntime, is_runtime
from trainyard.policy.engines.api_validator import NOT_BUILT, ApiValidator

_BUILT_IN: Final = (
    ("v1", "Pod"),
    *(("batch/v1", kind) for kind in ("Job", "CronJob")),
    *(("apps/v1", kind) for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")),
)
_JOB_SET: Final = (JOB_SET_API_VERSION, "JobSet")


class JobValidator:
    """Validates the Jobs of rendered objects.

    Parameters
    ----------
    validator
        The program; None: Jobs are not validated.
    world
        Context of the check.
    """

    def __init__(self, validator: ApiValidator | None, world: CheckContext) -> None:
        self._validator = validator
        self._world = world
        self._skipped = False

    @property
    def notes(self) -> Iterator[str]:
        """A note if Jobs were not validated because the program is not built."""
        if self._skipped:
            yield NOT_BUILT

    def of_train_job(self, resolved: Resolved) -> Resolved:
        """Return the result of admission with the errors about the Jobs of the TrainJob."""
        validate = self._validate()
        if validate is None or resolved.train_job is None or resolved.runtime is None or not resolved.objects:
            return resolved
        errors = train_job_findings(resolved.train_job, resolved.runtime.body, resolved.objects, validate)
        return replace(resolved, errors=(*resolved.errors, *errors))

    def findings(self, manifest: Manifest) -> tuple[Finding, ...]:
        """Return the findings about the pods of any other object than a TrainJob."""
        return self._of_runtime(manifest) if is_runtime(manifest) else self._of_object(manifest)

    def _of_runtime(self, manifest: Manifest) -> tuple[Finding, ...]:
        """Return warnings about the Jobs of a sample TrainJob; empty for an invalid runtime."""
        if (found := self._world.found(manifest)).errors:
            return ()
        validate = self._validate()
        if validate is None:
            return ()
        sample = sample_train_job(found.body)
        sample["spec"]["runtimeRef"]["kind"] = found.body["kind"]
        context = self._world.context(manifest.namespace or DEFAULT_NAMESPACE, manifest.source.path)
        rendered = submitted(sample, lambda *_: found, _no_findings, context)
        return runtime_findings(found.body, rendered.objects, validate)

    def _of_object(self, manifest: Manifest) -> tuple[Finding, ...]:
        """Return the errors about a Pod, or a built-in object or JobSet that creates pods; empty for other kinds.

        An object with a uid was read from a cluster, which has accepted it.
        """
        body, kind = manifest.body, (manifest.body["apiVersion"], manifest.kind)
        if kind not in (*_BUILT_IN, _JOB_SET) or manifest.metadata.get("uid") or (validate := self._validate()) is None:
            return ()
        metadata = {"namespace": DEFAULT_NAMESPACE, **manifest.metadata}
        if kind == _JOB_SET:
            return job_set_findings({**body, "metadata": metadata}, validate) if is_job_set(body) else ()
        if manifest.too_large:  # Reported where it is read.
            return ()
        (errors,) = validate([{**body, "metadata": metadata}])
        return tuple(finding_of(error, error.path) for error in errors)

    def _validate(self) -> Validate | None:
        if self._validator is None:
            return None
        if not self._validator.available:
            self._skipped = True
            return None
        return self._validator.validate


def _no_findings(_: FoundRuntime) -> tuple[Finding, ...]:
    return ()
