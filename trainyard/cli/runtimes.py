"""`trainyard runtimes`: the catalog, and the life cycle of its runtimes."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.checks.printable_text import json_text
from trainyard.checks.report import Format
from trainyard.cli.check import policy_program, stack_of, validator_program
from trainyard.cli.common import ManifestOutput, Output, PlanFormat

if TYPE_CHECKING:
    from trainyard.jobs.runtimes.catalog import Catalog, Runtime


_SUBCOMMAND_MODULES = ("runtimes_lifecycle", "runtimes_impact")
"""Modules of this package whose `register` adds commands to the group."""

Folders = Annotated[
    list[Path] | None,
    typer.Option("--folder", help="Catalog folder; may be repeated. By default the shipped one and the stack's."),
]
Python = Annotated[
    list[Path] | None,
    typer.Option("--python", help="Python file whose RUNTIMES are added to the catalog; may be repeated."),
]
Stack = Annotated[str | None, typer.Option("--stack", "-s", help="Stack with the settings; local by default.")]
StackFile = Annotated[Path | None, typer.Option("--config-file", help="Settings file instead of the stack's own.")]


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(help="Training runtimes: versioned, released, deprecated, retired.", no_args_is_help=True)
    group.command("list", epilog="Example: trainyard runtimes list")(_list)
    group.command("show", epilog="Example: trainyard runtimes show torch-distributed")(_show)
    group.command("check", epilog="Example: trainyard runtimes check --against origin/main")(_check)
    group.command("diff", epilog="Example: trainyard runtimes diff torch-vision@1.0 torch-vision@1.1 --job job.yaml")(
        _diff
    )
    for name in _SUBCOMMAND_MODULES:
        importlib.import_module(f"trainyard.cli.{name}").register(group)
    app.add_typer(group, name="runtimes")


def places_of(folders: list[Path] | None, stack: str | None, config_file: Path | None) -> list[Path]:
    """Return the given folders, else the shipped one and the stack's."""
    from trainyard.policy.stack_objects import runtime_catalogs

    return folders or runtime_catalogs(stack_of(stack, config_file)[0])


def authored_in(python: list[Path] | None) -> list[Runtime]:
    """Return the runtimes authored in Python files."""
    from trainyard.jobs.runtimes.authoring import read_authored

    return [runtime for file in python or () for runtime in read_authored(file)]


def catalog_of(
    folders: list[Path] | None, python: list[Path] | None, stack: str | None, config_file: Path | None
) -> Catalog:
    """Return the catalog selected by the options."""
    from trainyard.jobs.runtimes.catalog_loader import load_catalog

    return load_catalog(places_of(folders, stack, config_file), authored=authored_in(python))


def _list(
    folder: Folders = None,
    python: Python = None,
    stack: Stack = None,
    config_file: StackFile = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="Format.")] = Output.TEXT,
) -> None:
    """List the runtimes with versions, states and owners."""
    from trainyard.jobs.runtimes.listing import list_json, list_text

    found = catalog_of(folder, python, stack, config_file)
    typer.echo(json_text(list_json(found)) if output is Output.JSON else list_text(found))


def _show(
    name: Annotated[str, typer.Argument(metavar="NAME[@VERSION]", help="A runtime, or one of its versions.")],
    folder: Folders = None,
    python: Python = None,
    stack: Stack = None,
    config_file: StackFile = None,
    output: Annotated[
        ManifestOutput, typer.Option("-o", "--output", help="Output format; yaml prints only the object.")
    ] = ManifestOutput.TEXT,
) -> None:
    """Show a runtime: owner, changelog, hash and the installed object."""
    from trainyard.jobs.runtimes.listing import Reference, show_json, show_text
    from trainyard.manifests.text_edits import dumped

    found = Reference(catalog_of(folder, python, stack, config_file), name)
    if output is ManifestOutput.JSON:
        typer.echo(json_text(show_json(found)))
    elif output is ManifestOutput.YAML:
        typer.echo(dumped(found.version.manifest()), nl=False)
    else:
        typer.echo(show_text(found))


def _check(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="Runtimes; by default all.")] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="REV", help="Also reject changes that are not allowed since REV."),
    ] = None,
    folder: Folders = None,
    python: Python = None,
    stack: Stack = None,
    config_file: StackFile = None,
    form: Annotated[Format, typer.Option("--format", "-o", "--output", help="Format of the report.")] = Format.TEXT,
) -> None:
    """Check the catalog: unchanged releases, and every rule on a job of every version; exit 1 if there are errors."""
    from contextlib import ExitStack

    from trainyard.cli.findings import show
    from trainyard.policy.check.runner import open_rule_set
    from trainyard.policy.check.runtime_catalog import CheckScope, check_runtimes

    settings, _ = stack_of(stack, config_file)
    with ExitStack() as ends:
        rule_set = open_rule_set(ends, settings, program=policy_program, validator=validator_program)
        wanted = CheckScope.of(
            places_of(folder, stack, config_file), authored=authored_in(python), names=names or (), against=against
        )
        report = check_runtimes(rule_set, wanted)
    show(report, form)
    raise typer.Exit(1 if report.errors else 0)


def _diff(
    old: Annotated[str, typer.Argument(metavar="OLD[@VERSION]", help="A runtime or version.")],
    new: Annotated[str, typer.Argument(metavar="NEW[@VERSION]", help="The runtime or version to compare with.")],
    job: Annotated[
        Path | None, typer.Option("--job", help="File with the TrainJob to compare for; by default a minimal one.")
    ] = None,
    folder: Folders = None,
    python: Python = None,
    stack: Stack = None,
    config_file: StackFile = None,
    output: Annotated[PlanFormat, typer.Option("-o", "--output", help="Format.")] = PlanFormat.TEXT,
) -> None:
    """Show what changes for a job: images, command, environment, resources, gang, ordering, volumes, other fields."""
    from trainyard.cli.common import text_of
    from trainyard.jobs.runtimes.changes.diff import compare, read_job
    from trainyard.jobs.runtimes.changes.diff_report import as_json, as_markdown, as_text
    from trainyard.jobs.runtimes.listing import Reference

    catalog = catalog_of(folder, python, stack, config_file)
    before, after = Reference(catalog, old).version, Reference(catalog, new).version
    wanted = read_job(text_of(str(job)), str(job)) if job else None
    changes = compare(before.manifest(), after.manifest(), wanted)
    titles = before.object_name, after.object_name
    if output is PlanFormat.JSON:
        typer.echo(json_text(as_json(*titles, changes)))
    else:
        typer.echo((as_markdown if output is PlanFormat.MARKDOWN else as_text)(*titles, changes))
