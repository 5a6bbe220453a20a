"""Output of checks: findings as text or JSON, and the exit code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum

import typer

from trainyard.problem import Problem

__all__ = ["CheckFormat", "answer"]


class CheckFormat(StrEnum):
    """Output of a check."""

    TEXT = "text"
    JSON = "json"


def answer(problems: Sequence[Problem], output: CheckFormat, *, fine: str) -> None:
    """Print the findings and exit: 0 without any, 1 otherwise.

    Parameters
    ----------
    problems
        What was found.
    output
        Text for people, or the JSON of the command-line contract.
    fine
        What to say when nothing was found.
    """
    if output is CheckFormat.JSON:
        results = [problem.as_json() for problem in problems]
        typer.echo(json.dumps({"ok": not problems, "results": results}, indent=2))
    else:
        for problem in problems:
            typer.echo(f"{problem}{f' [{problem.rule}]' if problem.rule else ''}")
        typer.echo(f"{len(problems)} finding{'' if len(problems) == 1 else 's'}" if problems else fine)
    raise typer.Exit(1 if problems else 0)
