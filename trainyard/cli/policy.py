"""The command group ``trainyard policy``: the admission rules, their cases and their reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from trainyard.cli.common import Output, line_progress

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the group to the command line."""
    group = typer.Typer(
        name="policy",
        help="Admission rules: test their cases, make a new one, write their reference.",
        no_args_is_help=True,
    )
    group.command("test")(_test)
    group.command("new")(_new)
    group.command("docs")(_docs)
    app.add_typer(group)


def _test(
    kubeconfig: Annotated[
        Path | None, typer.Option(envvar="KUBECONFIG", help="Cluster whose API server judges the cases, by dry run.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="Context in the kubeconfig; its current one when absent.")] = None,
    folder: Annotated[
        list[Path] | None, typer.Option(help="Further rule folders of the team.", exists=True, file_okay=False)
    ] = None,
    rule: Annotated[list[str] | None, typer.Option(help="Only this rule; may be repeated.")] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="Form of the answer.")] = Output.TEXT,
) -> None:
    """Run every rule's cases on every engine that is available; exit 1 when one judges otherwise than its case says."""
    from trainyard.cluster.toolchain import program_path
    from trainyard.policy.testing import run_cases

    reports = run_cases(
        folder or [],
        program=lambda: program_path("opa", progress=line_progress(Console(stderr=True))),
        kubeconfig=kubeconfig,
        context=context,
        only=rule or [],
    )
    if output is Output.JSON:
        typer.echo(json.dumps({"engines": [report.as_json() for report in reports]}))
    else:
        for report in reports:
            typer.echo("\n".join(report.lines()))
    if any(report.faults for report in reports):
        raise typer.Exit(1)


def _new(
    rule_id: Annotated[str, typer.Argument(metavar="ID", help="Id that no rule has or had, such as QUE-003.")],
    slug: Annotated[str, typer.Argument(help="Few words for the folder name, joined by hyphens.")],
    family: Annotated[str, typer.Option(help="Folder above: shape, labels, tenancy, protection or your own.")],
    folder: Annotated[
        Path | None, typer.Option(help="Catalogue folder to write into; policies/ of this project when absent.")
    ] = None,
) -> None:
    """Make a rule folder that works as it is, to be edited."""
    from trainyard.data import data_folder, project_root
    from trainyard.policy.scaffold import new_rule

    for path in new_rule(folder or project_root() / "policies", rule_id, slug, family, known=data_folder("policies")):
        typer.echo(path)


def _docs(
    out: Annotated[Path | None, typer.Option(help="File to write; standard output when absent.")] = None,
) -> None:
    """Write the rule reference, generated from the rule folders."""
    from trainyard.data import data_folder
    from trainyard.policy.case_files import load_cases
    from trainyard.policy.catalogue import load_rules
    from trainyard.policy.reference import reference

    folder = data_folder("policies")
    rules = load_rules(folder)
    page = reference(rules, load_cases(folder, rules))
    if out is None:
        typer.echo(page, nl=False)
    else:
        out.write_text(page)
