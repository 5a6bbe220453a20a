"""`trainyard quickstart`: set everything up and run a TrainJob to completion."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("quickstart", epilog="Example: trainyard quickstart")(_quickstart)


def _quickstart(
    stack: Annotated[str, typer.Option(help="Name of the stack")] = "local",
    config_file: Annotated[
        Path | None, typer.Option(help="Settings file instead of stacks/Pulumi.<stack>.yaml")
    ] = None,
) -> None:
    """Start the control plane, apply the stack, run a smoke TrainJob and print a summary."""
    from rich.console import Console

    from trainyard.cli.common import config_path, line_progress, settings_of
    from trainyard.platform.quickstart.run import quickstart

    console = Console(highlight=False)
    settings = settings_of(stack, config_file)
    outcome = quickstart(settings, stack, config_file=config_path(stack, config_file), progress=line_progress(console))
    console.print(outcome.page, soft_wrap=True)
    if not outcome.changed:
        console.print("\nEverything was already running; nothing changed.")
