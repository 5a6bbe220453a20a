"""`trainyard snapshot`: record a cluster for a person without access to it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.cli.common import ClusterStack, Kubeconfig, KubeconfigContext, reader_of

if TYPE_CHECKING:
    from trainyard.cluster_state.observed import Observed


_EPILOG = "Example: trainyard snapshot save cluster.json --stack production"


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(help="Recorded state of a cluster, without secrets.", no_args_is_help=True)
    group.callback()(_group)
    group.command("save", epilog=_EPILOG)(_save)
    app.add_typer(group, name="snapshot")


def _group() -> None:
    """Keep Typer from replacing the group with its only command."""


def _save(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write, as JSON; only its owner can read it.")],
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", help="Record only the jobs of this namespace; by default of all."),
    ] = None,
    stack: ClusterStack = None,
    kubeconfig: Kubeconfig = None,
    context: KubeconfigContext = None,
) -> None:
    """Record jobs, pods, queues, nodes, fabric and events; no Secrets, ConfigMaps, commands or environment values.

    `trainyard explain`, `queues show` and `queues plan live` take the file with --from; `topology check` takes it as it
    is.
    """
    from trainyard.cluster_state.cluster_snapshot import read_cluster, write_snapshot

    async def read() -> Observed:
        async with reader_of(stack, kubeconfig, context) as client:
            return await read_cluster(client, namespace)

    observed = asyncio.run(read())
    size = write_snapshot(observed, file, namespace)
    typer.echo(f"{file}: {len(observed.objects)} objects, {size / 1e6:.1f} MB")
    if observed.unread:
        names = ", ".join(sorted(kind.partition(".")[0] for kind in observed.unread))
        typer.echo(f"Not recorded in full (no permission): {names}", err=True)
