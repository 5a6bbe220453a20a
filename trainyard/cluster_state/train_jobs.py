"""TrainJobs of a live cluster: submit one, wait until it has finished, and return the nodes of its pods."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from trainyard.api.constants import JOB_SET_NAME_LABEL
from trainyard.cluster_state.quotas import is_uncounted_error, wait_until_counted
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, WatchBrokenError
from trainyard.kube.client import Client
from trainyard.kube.kinds import PODS
from trainyard.kube.resource import Object
from trainyard.kube.training_kinds import TRAIN_JOBS

_QUOTA_LAG = 0.2
"""Seconds between attempts while the API server's quota cache lags."""
_FINAL = ("Complete", "Failed")


def finished_condition(job: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the terminal condition of a TrainJob; None while it has not finished."""
    conditions = job.get("status", {}).get("conditions", ())
    return next((c for c in conditions if c["type"] in _FINAL and c["status"] == "True"), None)


async def run_train_job(
    client: Client, manifest: Mapping[str, Any], *, patience: float, report: Callable[[str], None]
) -> tuple[Object, bool]:
    """Submit a TrainJob unless it exists, and wait until it has finished.

    Parameters
    ----------
    manifest
        The TrainJob.
    patience
        Seconds to wait.
    report
        Receives progress.

    Returns
    -------
    tuple
        The finished TrainJob, and whether this call submitted it.

    Raises
    ------
    TrainyardError
        It was rejected, failed, or did not finish in time; contains the last status.
    """
    name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
    job = await client.find(TRAIN_JOBS, name, namespace=namespace)
    submitted = job is None
    try:
        async with asyncio.timeout(patience):
            job = await _submitted(client, manifest, report) if job is None else job
            job = await _finished(client, job, report)
    except TimeoutError as error:
        last = _waiting_for(job) if job else "the quota of its namespace is not counted yet"
        raise TrainyardError(
            f"TrainJob {namespace}/{name} did not finish within {patience:g} s: {last}",
            fix=f"see `kubectl describe trainjob,jobset,podgroup -n {namespace}`, then run the command again",
        ) from error
    condition = finished_condition(job)
    if condition is not None and condition["type"] == "Failed":
        raise TrainyardError(
            f"TrainJob {namespace}/{name} failed: {condition.get('reason')}: {condition.get('message')}",
            fix=f"delete it (kubectl delete trainjob {name} -n {namespace}) and run the command again",
        )
    return job, submitted


async def _submitted(client: Client, manifest: Mapping[str, Any], report: Callable[[str], None]) -> Object:
    """Create the TrainJob, once the quota of its namespace is counted."""
    name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
    while True:
        try:
            return await client.create(TRAIN_JOBS, manifest)
        except ApiError as error:
            if not is_uncounted_error(error):
                raise TrainyardError(f"TrainJob {namespace}/{name} was rejected: {error}") from error
        report("waiting for the first count of its namespace's quota")
        if not await wait_until_counted(client, namespace=namespace):
            await asyncio.sleep(_QUOTA_LAG)


async def _finished(client: Client, job: Object, report: Callable[[str], None]) -> Object:
    name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
    while finished_condition(job) is None:
        report(_waiting_for(job))
        try:
            version = job["metadata"]["resourceVersion"]
            async for event in client.watch(
                TRAIN_JOBS, namespace=namespace, field_selector=f"metadata.name={name}", resource_version=version
            ):
                if event.kind == "DELETED":
                    raise TrainyardError(f"TrainJob {namespace}/{name} was deleted while it ran")
                if event.kind in ("ADDED", "MODIFIED"):
                    job = event.object
                    report(_waiting_for(job))
                    if finished_condition(job) is not None:
                        return job
        except (ApiError, WatchBrokenError):
            pass
        job = await client.get(TRAIN_JOBS, name, namespace=namespace)
    return job


def _waiting_for(job: Mapping[str, Any]) -> str:
    statuses = job.get("status", {}).get("jobsStatus", ())
    if not statuses:
        return "waiting for its JobSet"
    return ", ".join(
        f"{s['name']}: {s['active']} active, {s['ready']} ready, {s['succeeded']} succeeded" for s in statuses
    )


async def gang_nodes(client: Client, job: Mapping[str, Any]) -> dict[str, str]:
    """Return the node of each scheduled pod of a TrainJob, by pod name."""
    metadata = job["metadata"]
    pods = await client.list(
        PODS, namespace=metadata["namespace"], label_selector=f"{JOB_SET_NAME_LABEL}={metadata['name']}"
    )
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}
