"""Validation of the Jobs of TrainJobs and runtimes as the API server validates them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trainyard.checks.finding import Finding
from trainyard.policy.check.sources import Manifest
from trainyard.policy.check.train_job_check import Resolved
from trainyard.policy.check.world import DEFAULT_NAMESPACE, FoundRuntime, World, is_runtime
from trainyard.policy.engines.api_validator import NOT_BUILT, ApiValidator
from trainyard.render.job_errors import Validate, runtime_findings, train_job_findings
from trainyard.render.submission import submitted
from trainyard.runtimes.samples import sample_train_job

__all__ = ["JobValidator"]


class JobValidator:
    """Validates the Jobs of rendered objects.

    Parameters
    ----------
    validator
        The program; None: Jobs are not validated.
    world
        Context of the check.
    """

    def __init__(self, validator: ApiValidator | None, world: World) -> None:
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

    def of_runtime(self, manifest: Manifest) -> tuple[Finding, ...]:
        """Return warnings about the Jobs of a sample TrainJob; empty for other kinds and invalid runtimes."""
        if not is_runtime(manifest) or (found := self._world.found(manifest)).errors:
            return ()
        validate = self._validate()
        if validate is None:
            return ()
        sample = sample_train_job(found.body)
        sample["spec"]["runtimeRef"]["kind"] = found.body["kind"]
        context = self._world.context(manifest.namespace or DEFAULT_NAMESPACE, manifest.source.path)
        rendered = submitted(sample, lambda *_: found, _no_findings, context)
        return runtime_findings(found.body, rendered.objects, validate)

    def _validate(self) -> Validate | None:
        if self._validator is None:
            return None
        if not self._validator.available:
            self._skipped = True
            return None
        return self._validator.validate


def _no_findings(_: FoundRuntime) -> tuple[Finding, ...]:
    return ()
