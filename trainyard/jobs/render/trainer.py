"""Trainer of a TrainJob; takes precedence over runtime and framework."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainyard.api import Body
from trainyard.api.constants import ANCESTOR_LABEL, CONTAINER_NODE, TRAINER
from trainyard.checks.finding import Finding
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.pod_editing import upsert_env
from trainyard.jobs.render.resolved_job import ResolvedJob


def apply_trainer(builder: JobSetBuilder) -> None:
    """Set image, command, arguments and variables of the training containers."""
    trainer = builder.spec.trainer
    if trainer is None:
        return
    for pod_set in builder.pod_sets:
        container = pod_set.main_container if pod_set.ancestor == TRAINER else None
        if container is None:
            continue
        if trainer.image is not None:
            container["image"] = trainer.image
        if builder.command is not None:
            container["command"] = list(builder.command)
        if builder.args is not None:
            container["args"] = list(builder.args)
        upsert_env(container, trainer.env or ())


def trainer_warnings(job: ResolvedJob, *, one_line: bool = False) -> Iterator[Finding]:
    """Yield trainer settings without effect, and a command line in a single element.

    Parameters
    ----------
    one_line
        Whether the framework splits a command line in a single element.
    """
    trainer = job.spec.trainer
    if trainer is None:
        return
    if trainer.model_fields_set and (job.trainer is None or job.trainer.main_container is None):
        yield Finding.warning(
            "spec.trainer",
            "has no effect: the runtime has no training container",
            f"label a Job template of the runtime {ANCESTOR_LABEL}={TRAINER} and name its container {CONTAINER_NODE}",
        )
    command = trainer.command or ()
    if len(command) == 1 and " " in command[0].strip() and not one_line:
        yield Finding.warning(
            "spec.trainer.command[0]",
            f"{command[0]!r} is one program name with spaces, not a program with arguments",
            "make every word a separate element, or use [bash, -c, ...]",
        )
    yield from env_source_conflicts("spec.trainer.env", trainer.env or ())


def env_source_conflicts(path: str, variables: Iterable[Body]) -> Iterator[Finding]:
    """Yield variables with both a value and a source."""
    for index, variable in enumerate(variables):
        if variable.get("value") and variable.get("valueFrom"):
            yield Finding.warning(
                f"{path}[{index}].value", "is ignored because valueFrom is also set", "remove one of them"
            )
