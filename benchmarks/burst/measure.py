"""One controller under a burst of TrainJobs, from the first create to the last JobSet.

Nothing else acts on the objects (no JobSet controller, no webhooks), so the figure is the controller's own.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from benchmarks.control_plane import control_plane, create_namespace, create_train_jobs
from benchmarks.recording import ROOT
from trainyard.errors import TrainyardError
from trainyard.kube.client import Client
from trainyard.kube.training_kinds import JOB_SETS

NAME = "burst"
_SECONDS = 300
"""Longest wait for the last JobSet."""
_POLL_SECONDS = 1.0
"""Interval at which the controller is seen to run."""
Figures = dict[str, Any]


def contend(name: str, command: Sequence[str], jobs: int, environment: Mapping[str, str] | None = None) -> Figures:
    """Return the figures of one controller on a control plane of its own.

    Parameters
    ----------
    name
        Names the namespace.
    command
        Its command; ``{kubeconfig}`` in an argument or a variable is replaced.
    jobs
        TrainJobs in the burst.
    environment
        Variables of its process.
    """
    with control_plane(NAME) as (kubeconfig, folder), (folder / "controller.log").open("w") as log:
        arguments = [part.replace("{kubeconfig}", kubeconfig) for part in command]
        variables = {key: part.replace("{kubeconfig}", kubeconfig) for key, part in (environment or {}).items()}
        process = subprocess.Popen(arguments, cwd=ROOT, stdout=log, stderr=log, env=os.environ | variables)
        try:
            return asyncio.run(_measure(name, kubeconfig, process, folder / "controller.log", jobs))
        finally:
            process.terminate()
            process.wait(30)


async def _measure(
    namespace: str, kubeconfig: str, process: subprocess.Popen[bytes], log: Path, jobs: int
) -> dict[str, Any]:
    figures = asyncio.create_task(_figures(namespace, kubeconfig, psutil.Process(process.pid), jobs))
    while not figures.done():
        await asyncio.wait({figures}, timeout=_POLL_SECONDS)
        if process.poll() is not None:
            raise TrainyardError(f"{namespace} has ended: {_last_line(log)}", fix="start it by hand")
    return await figures


def _last_line(file: Path) -> str:
    return "".join(file.read_text().splitlines()[-1:])


async def _figures(namespace: str, kubeconfig: str, controller: psutil.Process, jobs: int) -> dict[str, Any]:
    async with Client.from_kubeconfig(kubeconfig) as client:
        await create_namespace(client, namespace)
        await create_train_jobs(client, namespace, range(1))
        await _seen(client, namespace, 1)
        before, started = sum(controller.cpu_times()[:2]), time.monotonic()
        seen = asyncio.create_task(_seen(client, namespace, jobs + 1))
        await create_train_jobs(client, namespace, range(1, jobs + 1))
        created = time.monotonic() - started
        await seen
        seconds = time.monotonic() - started
        return {
            "jobs": jobs,
            "create_seconds": round(created, 2),
            "seconds": round(seconds, 2),
            "jobs_per_second": round(jobs / seconds, 1),
            "cpu_seconds": round(sum(controller.cpu_times()[:2]) - before, 2),
            "resident_mib": round(controller.memory_info().rss / 2**20, 1),
        }


async def _seen(client: Client, namespace: str, count: int) -> None:
    page = await client.page(JOB_SETS, namespace=namespace, limit=0)
    names = {body["metadata"]["name"] for body in page.items}
    if len(names) >= count:
        return
    async for event in client.watch(
        JOB_SETS, namespace=namespace, resource_version=page.resource_version, timeout_seconds=_SECONDS
    ):
        if event.kind == "ADDED":
            names.add(event.object["metadata"]["name"])
            if len(names) >= count:
                return
    raise TrainyardError(
        f"{len(names)} of {count} JobSets were there after {_SECONDS} s",
        fix="look at what uses the cores, or measure fewer jobs",
    )
