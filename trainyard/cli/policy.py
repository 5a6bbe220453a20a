"""``trainyard policy``: the admission rules, their cases and their reference."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from trainyard.checks.printable_text import json_text, printable
from trainyard.cli.check import validator_program
from trainyard.cli.common import Output, line_progress


def register(app: typer.Typer) -> None:
    """Add the group to the command line."""
    group = typer.Typer(
        name="policy",
        help="Admission rules: test their cases, add a rule, write what is generated from them.",
        no_args_is_help=True,
    )
    group.command("test", epilog="Example: trainyard policy test --rule TEN-001")(_test)
    group.command("new", epilog="Example: trainyard policy new QUA-101 short-names --family quality")(_new)
    group.command("docs", epilog="Example: trainyard policy docs --out docs/reference/rules.md")(_docs)
    app.add_typer(group)


def _test(
    kubeconfig: Annotated[
        Path | None, typer.Option(envvar="KUBECONFIG", help="Cluster for testing the cases by dry run.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="Context in the kubeconfig; by default the current one.")] = None,
    folder: Annotated[
        list[Path] | None, typer.Option(help="Additional rule folder; may be repeated.", exists=True, file_okay=False)
    ] = None,
    rule: Annotated[list[str] | None, typer.Option(help="Test only this rule; may be repeated.")] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="Output format.")] = Output.TEXT,
) -> None:
    """Run the cases of every rule on every available engine; exit 1 if a decision differs from its case."""
    from trainyard.local.cluster.toolchain import program_path
    from trainyard.policy.engines.api_validator import CEL_NOT_COMPILED, ApiValidator
    from trainyard.policy.testing.case_run import run_cases

    with ApiValidator(validator_program) as validator:
        reports = run_cases(
            folder or [],
            program=lambda: program_path("opa", progress=line_progress(Console(stderr=True))),
            kubeconfig=kubeconfig,
            context=context,
            only=rule or [],
            validator=validator,
        )
        if kubeconfig is None and not validator.available:
            typer.echo(f"note: {CEL_NOT_COMPILED}", err=True)
    if output is Output.JSON:
        typer.echo(json_text({"engines": [report.as_json() for report in reports]}, indent=None))
    else:
        for report in reports:
            typer.echo("\n".join(map(printable, report.lines())))
    if any(report.faults for report in reports):
        raise typer.Exit(1)


def _new(
    rule_id: Annotated[str, typer.Argument(metavar="ID", help="Unused id, such as QUE-003.")],
    slug: Annotated[str, typer.Argument(help="Short name for the folder, with hyphens.")],
    family: Annotated[str, typer.Option(help="Parent folder: shape, labels, tenancy, protection or your own.")],
    folder: Annotated[Path | None, typer.Option(help="Folder of rules; by default policies/ of this project.")] = None,
) -> None:
    """Create a working rule folder as a template."""
    from trainyard.data import configured_folder, data_folder
    from trainyard.policy.testing.rule_scaffold import new_rule, next_steps

    for path in new_rule(folder or configured_folder("policies"), rule_id, slug, family, known=data_folder("policies")):
        typer.echo(path)
    typer.echo("\n".join(next_steps(rule_id, data_folder("policies"))), err=True)


def _docs(
    out: Annotated[Path | None, typer.Option(help="Output file; by default standard output.")] = None,
) -> None:
    """Write the rule reference, generated from the rule folders."""
    from trainyard.data import data_folder
    from trainyard.policy.rule_reference import reference
    from trainyard.policy.rules.rule_catalog import load_rules
    from trainyard.policy.testing.case_files import load_cases

    folder = data_folder("policies")
    rules = load_rules(folder)
    page = reference(rules, load_cases(folder, rules))
    if out is None:
        typer.echo(page, nl=False)
    else:
        out.write_text(page)
