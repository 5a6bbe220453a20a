"""Quickstart: control plane, Pulumi program, smoke job, and a summary page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rich.console import RenderableType

from trainyard.cluster_state.platform import LivePlatform, read_platform
from trainyard.cluster_state.train_jobs import finished_condition, gang_nodes, run_train_job
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.resource import Object
from trainyard.local.cluster import cluster_name, provider
from trainyard.local.cluster.provider import ClusterAccess, Provider
from trainyard.platform.admission import wait_for_tenants
from trainyard.platform.deploy.operations import up
from trainyard.platform.quickstart.smoke import accelerator, smoke_job
from trainyard.platform.quickstart.summary import ProcessLine, SmokeReport, summary
from trainyard.progress import Progress
from trainyard.settings.stack import StackSettings

SMOKE_PATIENCE = 180.0


@dataclass(frozen=True)
class InstalledPlatform:
    """Result of a quickstart.

    Parameters
    ----------
    changed
        Whether anything was started, changed or submitted.
    page
        The summary page.
    """

    changed: bool
    page: RenderableType


def quickstart(settings: StackSettings, stack: str, *, config_file: Path, progress: Progress) -> InstalledPlatform:
    """Start a cluster, apply a stack, and run a smoke TrainJob; idempotent.

    Parameters
    ----------
    settings
        The stack's settings.
    stack
        Name of the stack.
    config_file
        The stack's settings file.
    progress
        Receives each step.

    Raises
    ------
    TrainyardError
        A step failed; the next run continues there.
    """
    name = cluster_name(settings, stack)
    source = provider(settings.cluster, name)
    was_healthy = _running(source)
    access = source.up(settings.fabric, progress)
    result = up(settings, stack, config_file, progress)
    wait_for_tenants(access, settings, progress)
    with progress.step("Smoke TrainJob") as step:
        report, view = asyncio.run(_run_smoke_job(access, settings, step.update))
        step.done(f"{report.name} complete" if report.ran else f"{report.name} was already complete")
    changed = not was_healthy or result.changed or report.ran
    status = source.status()
    page = summary(
        cluster=name,
        kubeconfig=access.kubeconfig,
        processes=[ProcessLine(p.name, p.version, p.address, p.health) for p in status.processes],
        queues=view.queues,
        hyper_nodes=view.hyper_nodes,
        accelerator=accelerator(settings),
        job=report,
        stack=stack,
    )
    return InstalledPlatform(changed, page)


def _running(source: Provider) -> bool:
    status = source.status()
    return status.healthy and any(process.pid for process in status.processes)


async def _run_smoke_job(
    access: ClusterAccess, settings: StackSettings, report: Callable[[str], None]
) -> tuple[SmokeReport, LivePlatform]:
    try:
        async with Client.from_kubeconfig(access.kubeconfig, access.context) as client:
            job, ran = await run_train_job(client, smoke_job(settings), patience=SMOKE_PATIENCE, report=report)
            nodes = await gang_nodes(client, job)
            view = await read_platform(client)
    except (ApiError, TransportError) as error:
        raise TrainyardError(f"The cluster does not answer: {error}", fix="see `trainyard cluster status`") from error
    return SmokeReport(_key(job), tuple(job["status"]["conditions"]), nodes, _seconds(job), ran), view


def _key(job: Object) -> str:
    return f"{job['metadata']['namespace']}/{job['metadata']['name']}"


def _seconds(job: Object) -> float:
    condition = finished_condition(job)
    ended = condition["lastTransitionTime"] if condition else job["metadata"]["creationTimestamp"]
    return (
        datetime.fromisoformat(ended) - datetime.fromisoformat(job["metadata"]["creationTimestamp"])
    ).total_seconds()
