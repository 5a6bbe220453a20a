"""``trainyard up``, ``preview``, ``destroy``, ``refresh``: the Pulumi program."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.checks.printable_text import json_text
from trainyard.cli.common import Output, config_path, line_progress, settings_of

if TYPE_CHECKING:
    from trainyard.platform.deploy.operation_result import OperationResult


_Stack = Annotated[str, typer.Option("--stack", "-s", help="Name of the stack.")]
_File = Annotated[Path | None, typer.Option("--config-file", help="Settings file instead of the stack's own.")]
_Format = Annotated[Output, typer.Option("-o", "--output", help="Output format.")]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command, options in ((up, " --yes"), (preview, ""), (destroy, ""), (refresh, "")):
        app.command(epilog=f"Example: trainyard {command.__name__} --stack production{options}")(command)


def up(stack: _Stack = "local", config_file: _File = None, output: _Format = Output.TEXT, yes: _Yes = False) -> None:
    """Apply the settings to the cluster."""
    if not yes:
        _show(_run("preview", stack, config_file), Output.TEXT, details=True)
        _confirm("Apply this")
    _show(_run("up", stack, config_file), output)


def preview(
    stack: _Stack = "local",
    config_file: _File = None,
    output: _Format = Output.TEXT,
    no_cluster: Annotated[
        bool, typer.Option("--no-cluster", help="Plan every resource as a creation, with neither cluster nor state.")
    ] = False,
) -> None:
    """Show what `up` would change; only reads."""
    result = _run("preview", stack, config_file, no_cluster=no_cluster)
    _show(result, output, details=True)
    if no_cluster:
        typer.echo("No cluster was compared: every resource is planned as a creation", err=True)


def destroy(
    stack: _Stack = "local", config_file: _File = None, output: _Format = Output.TEXT, yes: _Yes = False
) -> None:
    """Delete everything that `up` created, jobs first; exit code 1: adopted objects could not be restored."""
    if not yes:
        _confirm(f"Delete everything in stack {stack}, including all jobs of tenants")
    result = _run("destroy", stack, config_file)
    _show(result, output)
    for finding in result.unrestored:
        typer.echo(f"Error: {finding}", err=True)
    raise typer.Exit(1 if result.unrestored else 0)


def refresh(stack: _Stack = "local", config_file: _File = None, output: _Format = Output.TEXT) -> None:
    """Update the stack's state from the live objects."""
    _show(_run("refresh", stack, config_file), output, details=True)


def _run(operation: str, stack: str, config_file: Path | None, *, no_cluster: bool = False) -> OperationResult:
    from rich.console import Console

    from trainyard.platform.deploy import operations

    settings = settings_of(stack, config_file)
    path = config_path(stack, config_file)
    progress = line_progress(Console(stderr=True, highlight=False, soft_wrap=True))
    if operation == "preview":
        return operations.preview(settings, stack, path, progress, no_cluster=no_cluster)
    run = {"up": operations.up, "destroy": operations.destroy, "refresh": operations.refresh}[operation]
    return run(settings, stack, path, progress)


def _show(result: OperationResult, output: Output, *, details: bool = False) -> None:
    if output is Output.JSON:
        typer.echo(json_text(result.as_json()))
        return
    for line in result.lines() if details else [f"! {each}" for each in (*result.notes, *result.advice)]:
        typer.echo(line)
    for line in result.restored:
        typer.echo(f"~ {line}")
    typer.echo(f"{result.stack}: {result.summary}")


def _confirm(question: str) -> None:
    from trainyard.errors import TrainyardError

    if not sys.stdin.isatty():
        raise TrainyardError("The confirmation requires a terminal", fix="add --yes")
    typer.confirm(f"{question}?", abort=True)
