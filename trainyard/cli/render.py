"""`trainyard render`: the objects of a TrainJob, without a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.checks.printable_text import json_text

if TYPE_CHECKING:
    from trainyard.jobs.render.rendered_documents import RenderedTrainJob, RuntimeSource
    from trainyard.jobs.render.submission import SentRuntime
    from trainyard.policy.check.world import CheckContext


class _Format(StrEnum):
    YAML = "yaml"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("render", epilog="Example: trainyard render job.yaml -o yaml")(_render)


def _render(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="TrainJobs and their runtimes; - for stdin")],
    output: Annotated[_Format, typer.Option("-o", "--output", help="Format")] = _Format.YAML,
    stack: Annotated[
        str | None,
        typer.Option(
            "--stack", help="Stack with the runtimes, tenants and platform; by default, only runtimes are read."
        ),
    ] = None,
    config_file: Annotated[
        Path | None, typer.Option("--config-file", help="Settings file instead of the stack's own.")
    ] = None,
) -> None:
    """Print the objects rendered from each TrainJob, or the errors if it is rejected.

    Runtimes that no file contains come from the catalog and the stack.
    """
    from trainyard.cli.check import validator_program
    from trainyard.jobs.render.rendered_documents import render_documents
    from trainyard.manifests.files import read_text, source_name
    from trainyard.policy.engines.api_validator import NOT_BUILT, ApiValidator

    texts = {source_name(name): read_text(name) for name in files}
    with ApiValidator(validator_program) as validator:
        validate = validator.validate if validator.available else None
        answers = render_documents(texts, _runtime_source(stack, config_file), validate=validate)
    if validate is None:
        typer.echo(f"note: {NOT_BUILT}", err=True)
    if output is _Format.JSON:
        typer.echo(json_text({"results": [answer.as_json() for answer in answers]}))
    else:
        typer.echo(_as_yaml(answers), nl=False)


def _runtime_source(stack: str | None, config_file: Path | None) -> RuntimeSource:
    """Return the runtimes and the context of a stack; if none is named, only the runtimes of local and of the catalog.

    The stack is read when the files lack something.
    """
    from trainyard.jobs.render.rendered_documents import RuntimeSource

    named = stack is not None or config_file is not None

    @cache
    def world() -> CheckContext:
        from trainyard.cli.check import stack_of
        from trainyard.policy.check.world import CheckContext

        settings = stack_of(stack, config_file)[0]
        if settings is not None and not named:
            every = settings.runtimes.model_copy(update={"include": ("*",)})
            settings = settings.model_copy(update={"runtimes": every})
        return CheckContext(settings)

    def runtime(kind: str, namespace: str, name: str) -> SentRuntime | None:
        return world().runtime(kind, namespace, name, None)

    return (
        RuntimeSource(runtime, lambda namespace: world().context(namespace, None)) if named else RuntimeSource(runtime)
    )


def _as_yaml(answers: Sequence[RenderedTrainJob]) -> str:
    """Return the objects as a YAML stream that can be applied; errors and warnings are comments."""
    from trainyard.manifests.dump import comment, dump

    parts = []
    for answer in answers:
        parts.append(comment(f"TrainJob {answer.train_job}"))
        parts.extend(comment(f"error: {error}") for error in answer.errors)
        parts.extend(comment(f"warning: {warning}") for warning in answer.warnings)
        for body in answer.objects:
            parts.append("---\n" + dump(body))
    return "".join(parts)
