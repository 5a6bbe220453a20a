"""`trainyard queues`: check the queue tree."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated

import typer

from trainyard.checks.report import Format
from trainyard.cli.common import text_of
from trainyard.cli.findings import answer

_SUBCOMMAND_MODULES = ("queue_plan", "queue_show")
"""Modules of this package whose `register` adds commands to the group."""

_KEYS = {"queue": "object", **{name: name for name in ("rule", "severity", "path", "message", "fix")}}


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(help="The queue tree: shares of the cluster by tenant.", no_args_is_help=True)
    group.callback()(_group)
    group.command("check", epilog="Example: trainyard queues check stacks/Pulumi.production.yaml --strict")(_check)
    for name in _SUBCOMMAND_MODULES:
        importlib.import_module(f"trainyard.cli.{name}").register(group)
    app.add_typer(group, name="queues")


def _group() -> None:
    pass


def _check(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Stack settings, or Volcano Queue manifests; - for stdin.")
    ],
    output: Annotated[Format, typer.Option("-o", "--output", help="Format.")] = Format.TEXT,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 also for warnings.")] = False,
    volcano_version: Annotated[
        str | None, typer.Option("--volcano-version", help="Version of Volcano to check for.")
    ] = None,
    plugin: Annotated[
        list[str] | None,
        typer.Option("--plugin", help="Plug-in to check for: hierarchy, capacity, proportion; may be repeated."),
    ] = None,
    scheduler: Annotated[
        Path | None, typer.Option("--scheduler", help="volcano-scheduler.conf, or its ConfigMap, to check for.")
    ] = None,
    fabric: Annotated[
        Path | None, typer.Option("--fabric", help="Stack settings with the fabric to check manifests against.")
    ] = None,
) -> None:
    """Find queues that Volcano would reject, or accept and mishandle; exit 1 if there are errors."""
    from trainyard.settings.stack_loader import load_stack
    from trainyard.stack_checks import CheckOptions, check_files

    options = CheckOptions(volcano_version, tuple(plugin or ()), text_of(str(scheduler)) if scheduler else None)
    stack = load_stack(fabric) if fabric is not None else None
    findings = check_files({name: text_of(name) for name in files}, options, stack)
    answer(findings, output, tool="trainyard queues check", keys=_KEYS, files=files, strict=strict)
