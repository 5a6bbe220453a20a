"""`trainyard runtimes new, release, alias, deprecate, retire`: the life cycle of a runtime."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.checks.printable_text import json_text
from trainyard.cli.check import policy_program, stack_of
from trainyard.cli.common import KubeconfigContext, Output
from trainyard.cli.runtimes import Stack, StackFile, places_of
from trainyard.data import configured_folder
from trainyard.errors import TrainyardError

if TYPE_CHECKING:
    from trainyard.jobs.runtimes.folder import CatalogFolder
    from trainyard.jobs.runtimes.release.version_lifecycle import LifecycleStep


Folder = Annotated[
    Path | None,
    typer.Option("--folder", help="Catalog folder to change; by default runtimes/ of this project."),
]
_Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the runtime.")]
_Version = Annotated[str, typer.Argument(metavar="VERSION", help="Version (MAJOR.MINOR).")]
_Form = Annotated[Output, typer.Option("-o", "--output", help="Format.")]


def register(group: typer.Typer) -> None:
    """Add the commands."""
    group.command(
        "new", epilog="Example: trainyard runtimes new torch-vision --from torch-distributed@1.0 --owner vision"
    )(_new)
    group.command(
        "release", epilog='Example: trainyard runtimes release torch-vision 1.1 --changes "PyTorch 2.9" --alias'
    )(_release)
    group.command("alias", epilog="Example: trainyard runtimes alias torch-vision 1.0")(_alias)
    group.command(
        "deprecate", epilog="Example: trainyard runtimes deprecate torch-vision 1.0 --remove-after 2027-03-31"
    )(_deprecate)
    group.command("retire", epilog="Example: trainyard runtimes retire torch-vision 1.0 --jobs jobs.yaml")(_retire)


def folder_of(folder: Path | None, *, new: bool = False) -> CatalogFolder:
    """Return the folder to change; with ``new``, an empty one if it does not exist."""
    from trainyard.jobs.runtimes.folder import CatalogFolder, read_folder

    root = folder or configured_folder("runtimes")
    return CatalogFolder(root, {}) if new and folder and not folder.exists() else read_folder(root)


def _today() -> datetime.date:
    return datetime.datetime.now(datetime.UTC).date()


def _write_step(step: LifecycleStep, output: Output) -> None:
    from trainyard.jobs.runtimes.folder import write_folder

    files = write_folder(step.before, step.after)
    if output is Output.JSON:
        typer.echo(json_text({"done": list(step.said), "files": [str(file) for file in files]}))
    else:
        for line in step.said:
            typer.echo(line)
        for file in files:
            typer.echo(f"  {'wrote' if file.exists() else 'removed'} {file}")


def _new(
    name: _Name,
    version: Annotated[
        str | None, typer.Option("--version", help="Version (MAJOR.MINOR); by default the next one.")
    ] = None,
    source: Annotated[str | None, typer.Option("--from", metavar="NAME[@VERSION]", help="Version to copy.")] = None,
    framework: Annotated[
        str | None, typer.Option("--framework", help="Copy the basic runtime of this framework.")
    ] = None,
    image: Annotated[str | None, typer.Option("--image", help="Image of the training nodes.")] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", help="Default number of nodes.")] = None,
    gang: Annotated[str | None, typer.Option("--gang", help="Gang scheduler, such as volcano, or none.")] = None,
    tier: Annotated[
        int | None, typer.Option("--tier", help="Highest tier of the fabric that the gang may span; 1 is a rack.")
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Owner of the runtime.")] = None,
    summary: Annotated[str | None, typer.Option("--summary", help="Short description.")] = None,
    changes: Annotated[str | None, typer.Option("--changes", help="Changelog entry of the version.")] = None,
    folder: Folder = None,
    stack: Stack = None,
    config_file: StackFile = None,
    output: _Form = Output.TEXT,
) -> None:
    """Create a working draft of a new runtime, or of the next version of one."""
    from trainyard.jobs.runtimes.runtime_scaffold import NewRuntime, known_runtimes, new_version

    own = folder_of(folder, new=True)
    known = known_runtimes(own, places_of(None, stack, config_file))
    wanted = NewRuntime(name, version, source, framework, image, nodes, gang, tier, owner, summary, changes)
    _write_step(new_version(own, wanted, known), output)


def _release(
    name: _Name,
    version: _Version,
    changes: Annotated[
        str | None, typer.Option("--changes", help="Changelog entry; by default the text in the index.")
    ] = None,
    alias: Annotated[bool, typer.Option("--alias", help="Move the alias (the name without version) to it.")] = False,
    folder: Folder = None,
    stack: Stack = None,
    config_file: StackFile = None,
    output: _Form = Output.TEXT,
) -> None:
    """Check a version and release it: its spec becomes immutable, and its hash is recorded."""
    from trainyard.jobs.runtimes.release.version_lifecycle import find_runtime, release

    own = folder_of(folder)
    name = find_runtime(own, name).name
    step = release(own, name, version, today=_today(), changes=changes, alias=alias)
    _validate_release(step, name, stack, config_file)
    _write_step(step, output)


def _validate_release(step: LifecycleStep, name: str, stack: str | None, config_file: Path | None) -> None:
    from contextlib import ExitStack

    from trainyard.policy.check.runner import open_rule_set
    from trainyard.policy.check.runtime_catalog import require_valid

    with ExitStack() as ends:
        rule_set = open_rule_set(ends, stack_of(stack, config_file)[0], program=policy_program)
        warnings = require_valid(rule_set, step.after, name)
    for each in warnings:
        typer.echo(f"warning: {each.object} {each.path}: {each.message} ({each.fix})", err=True)


def _alias(name: _Name, version: _Version, folder: Folder = None, output: _Form = Output.TEXT) -> None:
    """Move the alias of a runtime (its name without version) to another version."""
    from trainyard.jobs.runtimes.release.version_lifecycle import move_alias

    _write_step(move_alias(folder_of(folder), name, version), output)


def _deprecate(
    name: _Name,
    version: _Version,
    remove_after: Annotated[
        datetime.datetime | None,
        typer.Option("--remove-after", formats=["%Y-%m-%d"], help="Guaranteed until this day."),
    ] = None,
    undo: Annotated[bool, typer.Option("--withdraw", help="Withdraw the deprecation.")] = False,
    folder: Folder = None,
    output: _Form = Output.TEXT,
) -> None:
    """Deprecate a version, or withdraw its deprecation."""
    from trainyard.jobs.runtimes.release.version_lifecycle import deprecate, withdraw

    if (remove_after is None) is not undo:
        raise TrainyardError("The date of the removal is missing", fix="add either --remove-after or --withdraw")
    own = folder_of(folder)
    if remove_after is None:
        step = withdraw(own, name, version)
    else:
        step = deprecate(own, name, version, remove_after=remove_after.date(), today=_today())
    _write_step(step, output)


def _retire(
    name: _Name,
    version: _Version,
    jobs: Annotated[
        list[str] | None,
        typer.Option("--jobs", help="File of `kubectl get trainjobs -A -o yaml`; may be repeated; - for stdin."),
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", help="Kubeconfig of the cluster with the TrainJobs.")
    ] = None,
    context: KubeconfigContext = None,
    folder: Folder = None,
    output: _Form = Output.TEXT,
) -> None:
    """Remove a version whose deprecation period has ended and that no TrainJob uses."""
    from trainyard.cli.runtimes_impact import recorded_in
    from trainyard.jobs.runtimes.changes.impact import RuntimeEffect, reached
    from trainyard.jobs.runtimes.release.version_lifecycle import find_runtime, retire

    own = folder_of(folder)
    runtime = find_runtime(own, name)
    if not jobs and kubeconfig is None:
        raise TrainyardError(
            "No TrainJobs are given, so the users of the version are unknown",
            fix="set --kubeconfig for a cluster, or --jobs for a recorded list",
        )
    found = reached(recorded_in(jobs, kubeconfig, context), runtime.names_of(version))
    users = [each.job for each in found if each.effect is not RuntimeEffect.OVER]
    _write_step(retire(own, name, version, today=_today(), users=users), output)
