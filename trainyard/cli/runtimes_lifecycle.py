"""`trainyard runtimes new, release, alias, deprecate, retire`: the life cycle of a runtime."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.cli.check import policy_program, stack_of
from trainyard.cli.common import Output
from trainyard.cli.runtimes import Stack, StackFile, places_of
from trainyard.data import project_root
from trainyard.problem import TrainyardError

if TYPE_CHECKING:
    from trainyard.runtimes.folder import CatalogueFolder
    from trainyard.runtimes.release.lifecycle import Step

__all__ = ["Folder", "folder_of", "register"]

Folder = Annotated[
    Path | None,
    typer.Option("--folder", help="Catalogue folder that is changed; runtimes/ of this project by default."),
]
_Name = Annotated[str, typer.Argument(metavar="NAME", help="The runtime.")]
_Version = Annotated[str, typer.Argument(metavar="VERSION", help="MAJOR.MINOR.")]
_Form = Annotated[Output, typer.Option("-o", "--output", help="Format.")]


def register(group: typer.Typer) -> None:
    """Add the commands."""
    group.command("new")(_new)
    group.command("release")(_release)
    group.command("alias")(_alias)
    group.command("deprecate")(_deprecate)
    group.command("retire")(_retire)


def folder_of(folder: Path | None, *, new: bool = False) -> CatalogueFolder:
    """Return the folder that is changed; an empty one where it may be new and is not there."""
    from trainyard.runtimes.folder import CatalogueFolder, read_folder

    root = folder or project_root() / "runtimes"
    return CatalogueFolder(root, {}) if new and folder and not folder.exists() else read_folder(root)


def _today() -> datetime.date:
    return datetime.datetime.now(datetime.UTC).date()


def _done(step: Step, output: Output) -> None:
    from trainyard.runtimes.folder import write_folder

    files = write_folder(step.before, step.after)
    if output is Output.JSON:
        typer.echo(json.dumps({"done": list(step.said), "files": [str(file) for file in files]}, indent=2))
    else:
        for line in step.said:
            typer.echo(line)
        for file in files:
            typer.echo(f"  {'wrote' if file.exists() else 'removed'} {file}")


def _new(
    name: _Name,
    version: Annotated[str | None, typer.Option("--version", help="MAJOR.MINOR; the next one by default.")] = None,
    source: Annotated[str | None, typer.Option("--from", metavar="NAME[@VERSION]", help="Version to copy.")] = None,
    framework: Annotated[
        str | None, typer.Option("--framework", help="Copy the plainest runtime of this framework.")
    ] = None,
    image: Annotated[str | None, typer.Option("--image", help="Image of the training nodes.")] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", help="Nodes when a TrainJob names none.")] = None,
    gang: Annotated[str | None, typer.Option("--gang", help="Gang scheduler, such as volcano, or none.")] = None,
    tier: Annotated[
        int | None, typer.Option("--tier", help="Highest tier of the fabric that the gang may span; 1 is a rack.")
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Who answers for it.")] = None,
    summary: Annotated[str | None, typer.Option("--summary", help="What it is for, in a few words.")] = None,
    changes: Annotated[str | None, typer.Option("--changes", help="What the version brings.")] = None,
    folder: Folder = None,
    stack: Stack = None,
    config_file: StackFile = None,
    output: _Form = Output.TEXT,
) -> None:
    """Make a draft of a new runtime, or of the next version of one, that works as it is, to be edited."""
    from trainyard.runtimes.scaffold import NewRuntime, known_runtimes, new_version

    own = folder_of(folder, new=True)
    known = known_runtimes(own, places_of(None, stack, config_file))
    wanted = NewRuntime(name, version, source, framework, image, nodes, gang, tier, owner, summary, changes)
    _done(new_version(own, wanted, known), output)


def _release(
    name: _Name,
    version: _Version,
    changes: Annotated[
        str | None, typer.Option("--changes", help="What it brings, for the changelog; the index's text by default.")
    ] = None,
    alias: Annotated[bool, typer.Option("--alias", help="The plain name stands for it from then on.")] = False,
    folder: Folder = None,
    stack: Stack = None,
    config_file: StackFile = None,
    output: _Form = Output.TEXT,
) -> None:
    """Check a version and release it: its spec is locked by its hash, and is final."""
    from trainyard.runtimes.release.lifecycle import find_runtime, release

    own = folder_of(folder)
    name = find_runtime(own, name).name
    step = release(own, name, version, today=_today(), changes=changes, alias=alias)
    _refuse_faults(step, name, stack, config_file)
    _done(step, output)


def _refuse_faults(step: Step, name: str, stack: str | None, config_file: Path | None) -> None:
    from contextlib import ExitStack

    from trainyard.policy.check.run import opened
    from trainyard.policy.check.runtime_catalogue import refuse_faults

    with ExitStack() as ends:
        rulebook = opened(ends, stack_of(stack, config_file)[0], program=policy_program)
        warnings = refuse_faults(rulebook, step.after, name)
    for each in warnings:
        typer.echo(f"warning: {each.object} {each.path}: {each.message} ({each.fix})", err=True)


def _alias(name: _Name, version: _Version, folder: Folder = None, output: _Form = Output.TEXT) -> None:
    """Let the plain name of a runtime stand for another version."""
    from trainyard.runtimes.release.lifecycle import move_alias

    _done(move_alias(folder_of(folder), name, version), output)


def _deprecate(
    name: _Name,
    version: _Version,
    remove_after: Annotated[
        datetime.datetime | None,
        typer.Option("--remove-after", formats=["%Y-%m-%d"], help="Last day on which it stays for sure."),
    ] = None,
    take_back: Annotated[bool, typer.Option("--withdraw", help="Take a deprecation back.")] = False,
    folder: Folder = None,
    output: _Form = Output.TEXT,
) -> None:
    """Tell whoever uses a version that it goes, and when."""
    from trainyard.runtimes.release.lifecycle import deprecate, withdraw

    if (remove_after is None) is not take_back:
        raise TrainyardError(
            "It is not said until when the version stays", fix="add either --remove-after or --withdraw"
        )
    own = folder_of(folder)
    if remove_after is None:
        step = withdraw(own, name, version)
    else:
        step = deprecate(own, name, version, remove_after=remove_after.date(), today=_today())
    _done(step, output)


def _retire(
    name: _Name,
    version: _Version,
    jobs: Annotated[
        list[str] | None,
        typer.Option("--jobs", help="File of `kubectl get trainjobs -A -o yaml`; may be repeated; - for stdin."),
    ] = None,
    kubeconfig: Annotated[Path | None, typer.Option("--kubeconfig", help="Cluster whose TrainJobs count.")] = None,
    context: Annotated[str | None, typer.Option("--context", help="Context in the kubeconfig.")] = None,
    folder: Folder = None,
    output: _Form = Output.TEXT,
) -> None:
    """Remove a version that was deprecated for as long as promised, and that no TrainJob names any more."""
    from trainyard.cli.runtimes_impact import recorded_in
    from trainyard.runtimes.changes.impact import Effect, reached
    from trainyard.runtimes.release.lifecycle import find_runtime, retire

    own = folder_of(folder)
    runtime = find_runtime(own, name)
    if not jobs and kubeconfig is None:
        raise TrainyardError(
            "Whether a TrainJob still names it cannot be told",
            fix="name a cluster with --kubeconfig, or a recorded list with --jobs",
        )
    found = reached(recorded_in(jobs, kubeconfig, context), runtime.names_of(version))
    users = [each.job for each in found if each.effect is not Effect.OVER]
    _done(retire(own, name, version, today=_today(), users=users), output)
