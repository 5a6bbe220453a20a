"""`trainyard render`: the objects of a TrainJob, without a cluster."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from trainyard.render.rendered_documents import RenderedTrainJob

__all__ = ["register"]


class _Format(StrEnum):
    YAML = "yaml"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("render")(_render)


def _render(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="TrainJobs and their runtimes; - for stdin")],
    output: Annotated[_Format, typer.Option("-o", "--output", help="Format")] = _Format.YAML,
) -> None:
    """Print the objects rendered from each TrainJob, or the errors if it is rejected."""
    from trainyard.manifests.files import read_text, source_name
    from trainyard.render.rendered_documents import render_documents

    answers = render_documents({source_name(name): read_text(name) for name in files})
    if output is _Format.JSON:
        typer.echo(json.dumps({"results": [answer.as_json() for answer in answers]}, indent=2))
    else:
        typer.echo(_as_yaml(answers), nl=False)


def _as_yaml(answers: Sequence[RenderedTrainJob]) -> str:
    """Return the objects as a YAML stream that can be applied; errors and warnings are comments."""
    from trainyard.manifests.dump import dump

    parts = []
    for answer in answers:
        parts.append(f"# TrainJob {answer.train_job}\n")
        parts.extend(f"# error: {' '.join(str(error).split())}\n" for error in answer.errors)
        parts.extend(f"# warning: {' '.join(str(warning).split())}\n" for warning in answer.warnings)
        for body in answer.objects:
            parts.append("---\n" + dump(body))
    return "".join(parts)
