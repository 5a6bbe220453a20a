"""`trainyard scheduler`: the Volcano scheduler's configuration, linted."""

from __future__ import annotations

from typing import Annotated

import typer

from trainyard.cli.findings import CheckFormat, answer

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(help="The Volcano scheduler's configuration.", no_args_is_help=True)
    group.callback()(_group)
    group.command("check")(_check)
    app.add_typer(group, name="scheduler")


def _group() -> None:
    pass


def _check(
    file: Annotated[typer.FileText, typer.Argument(help="volcano-scheduler.conf, or the ConfigMap that holds it")],
    output: Annotated[CheckFormat, typer.Option("-o", "--output", help="Format")] = CheckFormat.TEXT,
) -> None:
    """Find what Volcano would ignore, replace by its default, or die of; exit 1 when there is anything."""
    from trainyard.scheduler import lint

    answer(lint(file.read()), output, fine="Volcano does what this configuration says.")
