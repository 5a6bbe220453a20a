"""`trainyard runtimes impact` and `resolve`: what a change affects, and the images of the catalog."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.checks.printable_text import json_text
from trainyard.cli.check import stack_of
from trainyard.cli.common import KubeconfigContext, Output, PlanFormat, client_of, text_of
from trainyard.cli.runtimes import Folders, Python, Stack, StackFile, catalog_of
from trainyard.cli.runtimes_lifecycle import Folder, folder_of
from trainyard.errors import TrainyardError

if TYPE_CHECKING:
    from trainyard.jobs.runtimes.changes.impact import Recorded


def register(group: typer.Typer) -> None:
    """Add the commands."""
    group.command("impact", epilog="Example: trainyard runtimes impact torch-distributed@1.0 --jobs jobs.yaml")(_impact)
    group.command("resolve", epilog="Example: trainyard runtimes resolve --update")(_resolve)


def recorded_in(jobs: list[str] | None, kubeconfig: Path | None, context: str | None) -> Recorded:
    """Return the TrainJobs of recorded lists and of a cluster together."""
    from trainyard.jobs.runtimes.changes.impact import Recorded, read_recorded

    recorded = read_recorded({name: text_of(name) for name in jobs or ()})
    if kubeconfig is None:
        return recorded
    live = asyncio.run(_live(kubeconfig, context))
    return Recorded((*recorded.train_jobs, *live.train_jobs), recorded.snapshots | live.snapshots)


async def _live(kubeconfig: Path, context: str | None) -> Recorded:
    from trainyard.cluster_state.runtime_users import read_users

    async with client_of(kubeconfig, context, None, "") as client:
        return await read_users(client)


def _impact(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME[@VERSION]",
            help="A runtime (jobs that name it without version), or a version (jobs that get it).",
        ),
    ],
    jobs: Annotated[
        list[str] | None,
        typer.Option(
            "--jobs", help="File of `kubectl get trainjobs,configmaps -A -o yaml`; may be repeated; - for stdin."
        ),
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", help="Kubeconfig of the cluster with the TrainJobs.")
    ] = None,
    context: KubeconfigContext = None,
    folder: Folders = None,
    python: Python = None,
    stack: Stack = None,
    config_file: StackFile = None,
    output: Annotated[PlanFormat, typer.Option("-o", "--output", help="Format.")] = PlanFormat.TEXT,
) -> None:
    """List the TrainJobs that a change of a runtime affects; started jobs keep their snapshot."""
    from trainyard.jobs.runtimes.changes.impact import reached
    from trainyard.jobs.runtimes.changes.impact_report import as_json, as_markdown, as_text
    from trainyard.jobs.runtimes.listing import Reference

    if not jobs and kubeconfig is None:
        raise TrainyardError("No TrainJobs are given", fix="set --kubeconfig for a cluster, or --jobs for a list")
    names = Reference(catalog_of(folder, python, stack, config_file), name).object_names
    found = reached(recorded_in(jobs, kubeconfig, context), names)
    if output is PlanFormat.JSON:
        typer.echo(json_text(as_json(names, found)))
    else:
        typer.echo((as_markdown if output is PlanFormat.MARKDOWN else as_text)(names, found))


def _resolve(
    folder: Folder = None,
    stack: Stack = None,
    config_file: StackFile = None,
    update: Annotated[bool, typer.Option("--update", help="Update the digests of moved tags.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", help="Timeout of a registry in seconds.")] = 30,
    output: Annotated[Output, typer.Option("-o", "--output", help="Format.")] = Output.TEXT,
) -> None:
    """Resolve the digest of every image in registries or the stack's mirrors; exit 1 if one cannot be resolved.

    The digests are written to images.lock. Credentials are those of `docker login`.
    """
    from trainyard.jobs.runtimes.catalog import Catalog
    from trainyard.jobs.runtimes.catalog_loader import load_catalog
    from trainyard.jobs.runtimes.folder import LOCK, write_folder
    from trainyard.jobs.runtimes.images.lock import images_of, read_lock, written_lock
    from trainyard.jobs.runtimes.images.registry import Registry, docker_credentials
    from trainyard.jobs.runtimes.images.resolve import ImageResolution, Resolved, locked, resolve

    own = folder_of(folder)
    catalog: Catalog = load_catalog(own.root)
    settings, _ = stack_of(stack, config_file)
    mirrors = settings.runtimes.mirrors if settings else {}
    lock = read_lock(own)

    async def ask() -> list[Resolved]:
        async with Registry(docker_credentials(), timeout=timeout) as registry:
            return await resolve(images_of(catalog), lock, registry, mirrors=mirrors, update=update)

    results = asyncio.run(ask())
    write_folder(own, own.with_texts({LOCK: written_lock(locked(results))}))
    if output is Output.JSON:
        typer.echo(json_text({"images": [each.as_json() for each in results]}))
    else:
        for each in results:
            typer.echo(f"{each.state.value}: {each.image} {each.digest or ''}".rstrip() + f": {each.message}")
    unresolved = [each for each in results if each.state in (ImageResolution.UNRESOLVED, ImageResolution.MOVED)]
    raise typer.Exit(1 if unresolved else 0)
