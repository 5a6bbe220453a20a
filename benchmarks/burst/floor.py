"""A client that only writes: for each TrainJob the objects that the controller creates, from a template.

It renders nothing, asks no server and remembers nothing, so what it takes is what the API server takes.

    python -m benchmarks.burst.floor --kubeconfig FILE
"""

from __future__ import annotations

import argparse
import asyncio
import copy
from pathlib import Path
from typing import Any

import yaml

from benchmarks.recording import ROOT
from trainyard.api import ClusterTrainingRuntime, TrainJob, parse
from trainyard.controller.job_sets import as_created
from trainyard.jobs.render.pipeline import render
from trainyard.jobs.render.result import RenderContext, Rendered
from trainyard.kube.client import Client
from trainyard.kube.informer import Informer
from trainyard.kube.kinds import CONFIG_MAPS
from trainyard.kube.resource import Object
from trainyard.kube.store import StoreChange
from trainyard.kube.training_kinds import JOB_SETS, POD_GROUPS, TRAIN_JOBS

RUNTIME = ROOT / "runtimes" / "torch-distributed" / "1.0.yaml"
_RESOURCES = {resource.kind: resource for resource in (CONFIG_MAPS, POD_GROUPS, JOB_SETS)}
_WORKERS = 16


def main() -> None:
    """Write until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    asyncio.run(_run(parser.parse_args().kubeconfig))


async def _run(kubeconfig: Path) -> None:
    queue: asyncio.Queue[Object] = asyncio.Queue()
    async with Client.from_kubeconfig(kubeconfig) as client:
        informer = Informer(client, TRAIN_JOBS)
        informer.subscribe(lambda change: _added(queue, change))
        template: list[Object] = []
        async with asyncio.TaskGroup() as group:
            group.create_task(informer.run())
            for _ in range(_WORKERS):
                group.create_task(_write(client, queue, template))


def _added(queue: asyncio.Queue[Object], change: StoreChange) -> None:
    if change.old is None and change.new is not None:
        queue.put_nowait(change.new)


async def _write(client: Client, queue: asyncio.Queue[Object], template: list[Object]) -> None:
    while True:
        train_job = await queue.get()
        if not template:
            template += _rendered(train_job)
        for body in template:
            stored = await client.create(_RESOURCES[body["kind"]], _of(body, train_job))
        metadata = train_job["metadata"]
        patch = {
            "metadata": {"resourceVersion": metadata["resourceVersion"]},
            "status": {"jobSet": {"uid": stored["metadata"]["uid"]}},
        }
        await client.merge_patch(
            TRAIN_JOBS, metadata["name"], patch, namespace=metadata["namespace"], subresource="status"
        )


def _rendered(train_job: Object) -> list[Object]:
    runtime = parse(ClusterTrainingRuntime, yaml.safe_load(RUNTIME.read_text()))
    result = render(parse(TrainJob, train_job), runtime, RenderContext())
    assert isinstance(result, Rendered)
    return [as_created(body, train_job) if body["kind"] == JOB_SETS.kind else body for body in result.objects]


def _of(body: Object, train_job: Object) -> Object:
    """Return an object of the template with the names of a TrainJob."""
    found: dict[str, Any] = copy.copy(body)
    metadata = train_job["metadata"]
    suffix = "-runtime-snapshot" if body["kind"] == CONFIG_MAPS.kind else ""
    owner = {**body["metadata"]["ownerReferences"][0], "name": metadata["name"], "uid": metadata["uid"]}
    found["metadata"] = {**body["metadata"], "name": metadata["name"] + suffix, "ownerReferences": [owner]}
    return found


if __name__ == "__main__":
    main()
