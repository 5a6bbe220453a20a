"""`trainyard queues plan`: effect of a queue tree change on tenants and their jobs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainyard.checks.printable_text import json_text
from trainyard.cli.common import KubeconfigContext, PlanFormat, client_of, recorded_state, settings_of, text_of
from trainyard.errors import TrainyardError

if TYPE_CHECKING:
    from trainyard.scheduling.queues.plan import Plan
    from trainyard.scheduling.queues.snapshot import Snapshot


_LIVE = "live"


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command(
        "plan", epilog="Example: trainyard queues plan live stacks/Pulumi.production.yaml --stack production"
    )(_plan)


def _plan(
    old: Annotated[str, typer.Argument(metavar="OLD", help="Stack settings or Queue manifests; `live` for a cluster.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Stack settings or Queue manifests; - for stdin.")],
    jobs: Annotated[
        list[str] | None,
        typer.Option("--jobs", help="File with PodGroups, Pods and PriorityClasses from `kubectl get … -o yaml`."),
    ] = None,
    from_: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="File of `trainyard snapshot save`, instead of the live cluster."),
    ] = None,
    output: Annotated[PlanFormat, typer.Option("-o", "--output", help="Format.")] = PlanFormat.TEXT,
    stack: Annotated[str, typer.Option("--stack", "-s", help="Stack of the live cluster.")] = "local",
    kubeconfig: Annotated[Path | None, typer.Option("--kubeconfig", help="Kubeconfig of the live cluster.")] = None,
    context: KubeconfigContext = None,
) -> None:
    """Show the gained and lost shares of tenants, and the jobs that would start, wait or be evicted."""
    from trainyard.scheduling.queues.plan_report import as_json, as_markdown, as_text
    from trainyard.scheduling.queues.snapshot import snapshot_of_file
    from trainyard.stack_checks import stack_scheduling

    if from_ is not None and old != _LIVE:
        raise TrainyardError(f"--from records a cluster, and OLD is {old}", fix="write `live` for OLD")
    after = snapshot_of_file(text_of(new), new, stack_scheduling)
    if old == _LIVE:
        found = _live(after, from_, stack, kubeconfig, context)
    else:
        found = _recorded(snapshot_of_file(text_of(old), old, stack_scheduling, valid=False), after, jobs or [])
    if output is PlanFormat.JSON:
        typer.echo(json_text(as_json(found)))
    else:
        typer.echo((as_markdown if output is PlanFormat.MARKDOWN else as_text)(found))


def _live(after: Snapshot, from_: Path | None, stack: str, kubeconfig: Path | None, context: str | None) -> Plan:
    from trainyard.cluster_state.plan import live_plan, plan_from
    from trainyard.cluster_state.shares import Shares

    if from_ is not None:
        return plan_from(Shares.required(recorded_state(from_)), after)

    async def read() -> Plan:
        async with client_of(kubeconfig, context, None if kubeconfig else settings_of(stack), stack) as client:
            return await live_plan(client, after)

    return asyncio.run(read())


def _recorded(before: Snapshot, after: Snapshot, files: list[str]) -> Plan:
    from trainyard.scheduling.queues.plan import plan
    from trainyard.scheduling.queues.queue_manifests import kubernetes_objects
    from trainyard.scheduling.queues.queued_gangs import read_jobs

    jobs = read_jobs(body for file in files for body in kubernetes_objects(file, text_of(file)))
    return plan(
        before.tree,
        after.tree,
        jobs=jobs,
        capacity=before.capacity or after.capacity,
        capacity_after=after.capacity,
        tenants={**before.tenants, **after.tenants},
        node=before.node or after.node,
        node_after=after.node,
        scheduling=after.scheduling or before.scheduling,
    )
