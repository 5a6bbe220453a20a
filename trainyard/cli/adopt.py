"""``trainyard adopt``: plan of the takeover of an existing installation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainyard.checks.printable_text import json_text
from trainyard.cli.common import Output, config_path, line_progress, settings_of


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: trainyard adopt --plan --stack production")(adopt)


def adopt(
    plan: Annotated[
        bool, typer.Option("--plan", help="List what `up` with `adopt: true` would do with each object; only reads.")
    ] = False,
    stack: Annotated[str, typer.Option("--stack", "-s", help="Name of the stack.")] = "local",
    config_file: Annotated[
        Path | None, typer.Option("--config-file", help="Settings file instead of the stack's own.")
    ] = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="Output format.")] = Output.TEXT,
) -> None:
    """Plan the takeover of an existing installation; exit code 1: an object cannot be taken over."""
    from rich.console import Console

    from trainyard.errors import TrainyardError
    from trainyard.platform.deploy.takeover_planning import plan_takeover

    if not plan:
        raise TrainyardError(
            "`trainyard adopt` only plans", fix="add --plan; to execute it, set trainyard:adopt to true and run `up`"
        )
    settings, path = settings_of(stack, config_file), config_path(stack, config_file)
    progress = line_progress(Console(stderr=True, highlight=False, soft_wrap=True))
    found = plan_takeover(settings, stack, path, progress)
    if output is Output.JSON:
        typer.echo(json_text(found.as_json()))
    else:
        for line in found.lines():
            typer.echo(line)
    raise typer.Exit(1 if found.rejections else 0)
