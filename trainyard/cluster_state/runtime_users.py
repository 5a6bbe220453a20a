"""TrainJobs of a live cluster by runtime, and their runtime snapshots."""

from __future__ import annotations

from trainyard.api.constants import SNAPSHOT_SUFFIX
from trainyard.jobs.runtimes.changes.impact import Recorded
from trainyard.kube.client import Client
from trainyard.kube.kinds import CONFIG_MAPS
from trainyard.kube.training_kinds import TRAIN_JOBS


async def read_users(client: Client) -> Recorded:
    """Read the TrainJobs of a cluster, and the names of those with a snapshot."""
    jobs = await client.list(TRAIN_JOBS)
    config_maps = [body["metadata"] for body in await client.list(CONFIG_MAPS)] if jobs else []
    snapshots = frozenset(
        f"{each['namespace']}/{each['name'].removesuffix(SNAPSHOT_SUFFIX)}"
        for each in config_maps
        if each["name"].endswith(SNAPSHOT_SUFFIX)
    )
    return Recorded(tuple(jobs), snapshots)
