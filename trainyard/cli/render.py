"""`trainyard render`: the objects of a TrainJob, without a cluster."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainyard.problem import TrainyardError

if TYPE_CHECKING:
    from trainyard.render.documents import Answer

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
    from trainyard.render.documents import render_documents

    answers = render_documents({_source(name): _text(name) for name in files})
    if output is _Format.JSON:
        typer.echo(json.dumps({"results": [answer.as_json() for answer in answers]}, indent=2))
    else:
        typer.echo(_as_yaml(answers), nl=False)


def _source(name: str) -> str:
    return "standard input" if name == "-" else name


def _text(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text()
    except OSError as error:
        raise TrainyardError(f"{name} cannot be read: {error.strerror}", fix="check the path") from error
    except UnicodeDecodeError as error:
        raise TrainyardError(f"{name} is not text", fix="give YAML or JSON files") from error


def _as_yaml(answers: Sequence[Answer]) -> str:
    """Return the objects as a YAML stream that can be applied; errors and warnings are comments."""
    import yaml

    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    parts = []
    for answer in answers:
        parts.append(f"# TrainJob {answer.train_job}\n")
        parts.extend(f"# error: {' '.join(str(error).split())}\n" for error in answer.errors)
        parts.extend(f"# warning: {' '.join(str(warning).split())}\n" for warning in answer.warnings)
        for body in answer.objects:
            parts.append("---\n" + yaml.dump(body, Dumper=dumper, sort_keys=False, allow_unicode=True))
    return "".join(parts)
