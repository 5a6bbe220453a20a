"""`trainyard explain`: why a job waits or failed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.checks.printable_text import json_text
from trainyard.cli.common import ClusterStack, Kubeconfig, KubeconfigContext, Output, reader_of, recorded_state

if TYPE_CHECKING:
    from trainyard.cluster_state.observed import Observed


_EPILOG = (
    "Examples: trainyard explain train -n vision; trainyard explain pod/train-node-0-0-x7k2p -n vision; "
    "trainyard explain train -n vision --from cluster.json"
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("explain", epilog=_EPILOG)(_explain)


def _explain(
    job: Annotated[
        str,
        typer.Argument(
            metavar="JOB", help="A TrainJob, or trainjob/NAME, jobset/NAME, vcjob/NAME, job/NAME, pod/NAME."
        ),
    ],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Its namespace.")] = "default",
    output: Annotated[Output, typer.Option("-o", "--output", help="Format.")] = Output.TEXT,
    from_: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="File of `trainyard snapshot save`, instead of a cluster."),
    ] = None,
    stack: ClusterStack = None,
    kubeconfig: Kubeconfig = None,
    context: KubeconfigContext = None,
) -> None:
    """Explain why a job waits or failed: the cause with its numbers, the fix, and what was looked at.

    Exit code 0: the cause is known, or the job runs or completed; 1: it waits or failed for an unknown reason.
    """
    from trainyard.insight.explain.explanation import UNKNOWN, as_text, explain

    with _without_collection():
        observed = recorded_state(from_) if from_ is not None else _live(job, namespace, stack, kubeconfig, context)
        explanation = explain(observed, job, namespace)
    typer.echo(json_text(explanation.as_json()) if output is Output.JSON else as_text(explanation))
    if explanation.cause == UNKNOWN:
        raise typer.Exit(1)


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Pause cyclic garbage collection: nothing of a large cluster that is read once is garbage before the end."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _live(job: str, namespace: str, stack: str | None, kubeconfig: Path | None, context: str | None) -> Observed:
    from trainyard.cluster_state.job_snapshot import read_job

    async def read() -> Observed:
        async with reader_of(stack, kubeconfig, context) as client:
            return await read_job(client, job, namespace)

    return asyncio.run(read())
