"""`trainyard queues`: check the queue tree."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.cli.common import text_of
from trainyard.cli.findings import CheckFormat

if TYPE_CHECKING:
    from trainyard.queues import Finding

__all__ = ["register"]

_FURTHER = ("queue_plan", "queue_show")
"""Modules of this package whose `register` adds commands to the group."""


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(help="The queue tree: shares of the cluster by tenant.", no_args_is_help=True)
    group.callback()(_group)
    group.command("check")(_check)
    for name in _FURTHER:
        importlib.import_module(f"trainyard.cli.{name}").register(group)
    app.add_typer(group, name="queues")


def _group() -> None:
    pass


def _check(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Stack settings, or Volcano Queue manifests; - for stdin.")
    ],
    output: Annotated[CheckFormat, typer.Option("-o", "--output", help="Format.")] = CheckFormat.TEXT,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings are a reason to exit 1 too.")] = False,
    volcano_version: Annotated[
        str | None, typer.Option("--volcano-version", help="Prove for this version of Volcano.")
    ] = None,
    plugin: Annotated[
        list[str] | None,
        typer.Option("--plugin", help="Prove for this plug-in: hierarchy, capacity, proportion; may be repeated."),
    ] = None,
    scheduler: Annotated[
        Path | None, typer.Option("--scheduler", help="Prove for this volcano-scheduler.conf, or its ConfigMap.")
    ] = None,
    fabric: Annotated[
        Path | None, typer.Option("--fabric", help="Stack settings whose fabric manifests are proved against.")
    ] = None,
) -> None:
    """Find what Volcano would refuse, or accept and mishandle; exit 1 where there is an error."""
    from trainyard.settings import load_stack
    from trainyard.stack_checks import Wanted, check_files

    wanted = Wanted(volcano_version, tuple(plugin or ()), text_of(str(scheduler)) if scheduler else None)
    stack = load_stack(fabric) if fabric is not None else None
    _answer(check_files({name: text_of(name) for name in files}, wanted, stack), output, strict=strict)


def _answer(findings: list[Finding], output: CheckFormat, *, strict: bool) -> None:
    from trainyard.queues import Severity

    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    fine = not (findings if strict else errors)
    if output is CheckFormat.JSON:
        typer.echo(json.dumps({"ok": fine, "results": [finding.as_json() for finding in findings]}, indent=2))
    else:
        for finding in findings:
            typer.echo(f"{finding.severity.value}: {finding} [{finding.rule}]")
        warnings = len(findings) - len(errors)
        typer.echo(f"{len(errors)} errors, {warnings} warnings" if findings else "The queue tree is sound.")
    raise typer.Exit(0 if fine else 1)
