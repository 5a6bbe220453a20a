"""`trainyard scheduler`: lint the Volcano scheduler's configuration."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from trainyard.checks.report import Format
from trainyard.cli.findings import answer

_KEYS = {name: name for name in ("path", "message", "fix", "rule")}
_STACK = re.compile(r"^config:", re.MULTILINE)


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(help="The Volcano scheduler's configuration.", no_args_is_help=True)
    group.command("check", epilog="Example: trainyard scheduler check stacks/Pulumi.production.yaml")(_check)
    group.command("show", epilog="Example: trainyard scheduler show stacks/Pulumi.production.yaml")(_show)
    app.add_typer(group, name="scheduler")


def _check(
    file: Annotated[typer.FileText, typer.Argument(help="Stack settings, volcano-scheduler.conf, or its ConfigMap")],
    output: Annotated[Format, typer.Option("-o", "--output", help="Format")] = Format.TEXT,
) -> None:
    """Find settings that Volcano ignores, replaces with defaults, or crashes on; exit 1 if there are errors."""
    from trainyard.scheduling.scheduler.configuration_lint import lint
    from trainyard.scheduling.scheduler.stack_configuration import check_stack
    from trainyard.settings.stack_loader import load_stack

    text = file.read()
    found = check_stack(load_stack(Path(file.name))) if _STACK.search(text) else lint(text)
    findings = [replace(finding, file=file.name) for finding in found]
    answer(findings, output, tool="trainyard scheduler check", keys=_KEYS, files=[file.name])


def _show(
    file: Annotated[Path, typer.Argument(help="Stack settings, such as stacks/Pulumi.local.yaml")],
) -> None:
    """Print the scheduler configuration of a stack, with the reason for each line."""
    from trainyard.scheduling.scheduler.stack_configuration import configuration
    from trainyard.settings.stack_loader import load_stack

    typer.echo(configuration(load_stack(file)), nl=False)
