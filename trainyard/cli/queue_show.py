"""`trainyard queues show`: the queue tree of a file, or of a live cluster with its usage."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.checks.printable_text import json_text
from trainyard.cli.common import KubeconfigContext, Output, client_of, recorded_state, settings_of, text_of
from trainyard.errors import TrainyardError

if TYPE_CHECKING:
    from trainyard.cluster_state.shares import Shares
    from trainyard.scheduling.queues.usage import QueueUsage


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("show", epilog="Example: trainyard queues show --stack production")(_show)


def _show(
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="Stack settings or Queue manifests, instead of a cluster.")
    ] = None,
    from_: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="File of `trainyard snapshot save`, instead of a cluster."),
    ] = None,
    resource: Annotated[
        list[str] | None, typer.Option("--resource", help="Resource to show; by default the accelerators.")
    ] = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="Format.")] = Output.TEXT,
    stack: Annotated[str, typer.Option("--stack", "-s", help="Stack of the cluster.")] = "local",
    kubeconfig: Annotated[Path | None, typer.Option("--kubeconfig", help="Kubeconfig of the cluster.")] = None,
    context: KubeconfigContext = None,
) -> None:
    """Show the queue tree with guarantee, deserved share, usage, borrowed and pending amounts."""
    from trainyard.scheduling.queues.usage import draw_usage, drawn_resources

    found = _of_file(file) if file is not None else _of_cluster(from_, stack, kubeconfig, context)
    if output is Output.JSON:
        typer.echo(json_text({"queues": [each.as_json() for each in found]}))
    else:
        names = resource or drawn_resources(found)
        typer.echo("\n\n".join(draw_usage(found, name) for name in names))


def _of_file(file: str) -> list[QueueUsage]:
    from trainyard.scheduling.queues.snapshot import snapshot_of_file
    from trainyard.scheduling.queues.usage import queue_usage

    return queue_usage(snapshot_of_file(text_of(file), file), [], {})


def _of_cluster(from_: Path | None, stack: str, kubeconfig: Path | None, context: str | None) -> list[QueueUsage]:
    from trainyard.cluster_state.queues import read_shares
    from trainyard.cluster_state.shares import Shares

    async def read() -> Shares:
        async with client_of(kubeconfig, context, None if kubeconfig else settings_of(stack), stack) as client:
            return await read_shares(client)

    shares = Shares.required(recorded_state(from_)) if from_ is not None else asyncio.run(read())
    if not shares.snapshot.tree.queues:
        raise TrainyardError("The cluster has no queues", fix="install the platform with `trainyard up`")
    return list(shares.usage.values())
