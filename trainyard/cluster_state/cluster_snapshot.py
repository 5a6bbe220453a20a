"""Snapshot of a live cluster: what explanations, queue plans and the fabric need, without secrets."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Coroutine, Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Final

import orjson

from trainyard.atomic_write import atomic_write
from trainyard.cluster_state.observed import Kind, Observed, resource_of
from trainyard.cluster_state.platform_programs import DEPLOYMENTS as PLATFORM_DEPLOYMENTS
from trainyard.cluster_state.platform_programs import LEASES as PLATFORM_LEASES
from trainyard.cluster_state.recorded_file import recorded
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.event_recorder import EVENTS
from trainyard.kube.kinds import (
    DEPLOYMENTS,
    JOBS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
)
from trainyard.kube.leader import LEASES
from trainyard.kube.resource import Object, Resource
from trainyard.kube.training_kinds import (
    CLUSTER_TRAINING_RUNTIMES,
    HYPER_NODES,
    JOB_SETS,
    PLATFORMS,
    POD_GROUPS,
    QUEUES,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    VOLCANO_JOBS,
    WORKLOADS,
)

MAX_OBJECTS: Final = 100_000
"""Objects of one kind in a snapshot; of more, none is recorded, and the kind is unread."""
MAX_EVENTS: Final = 20_000
"""Events in a snapshot: the newest."""

JOB_KINDS: Final = (
    *((TRAIN_JOBS, Kind.TRAIN_JOB), (TRAINING_RUNTIMES, Kind.RUNTIME), (JOB_SETS, Kind.JOB_SET), (JOBS, Kind.JOB)),
    *((VOLCANO_JOBS, Kind.VOLCANO_JOB), (EVENTS, Kind.EVENT), (PERSISTENT_VOLUME_CLAIMS, Kind.CLAIM)),
    *((RESOURCE_QUOTAS, Kind.QUOTA), (WORKLOADS, Kind.WORKLOAD)),
)
"""Kinds that are read in the namespace of the job."""
CLUSTER_KINDS: Final = (
    *((POD_GROUPS, Kind.POD_GROUP), (QUEUES, Kind.QUEUE), (NODES, Kind.NODE), (HYPER_NODES, Kind.HYPER_NODE)),
    *((PRIORITY_CLASSES, Kind.PRIORITY_CLASS), (PLATFORMS, Kind.PLATFORM)),
    (CLUSTER_TRAINING_RUNTIMES, Kind.CLUSTER_RUNTIME),
)
"""Kinds that are read in all namespaces."""
UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of unfinished pods."""


async def read_cluster(client: Client, namespace: str | None = None) -> Observed:
    """Read a cluster; for one job, `trainyard.cluster_state.job_snapshot.read_job` reads less.

    Parameters
    ----------
    client
        API client. What its user may not list in all namespaces is read in `namespace`, and recorded as unread.
    namespace
        Namespace whose jobs are read; None: all.
    """
    reader = Reader(client, namespace)
    jobs = (reader.read(resource, kind, namespace) for resource, kind in JOB_KINDS)
    shared = (reader.read(resource, kind, None) for resource, kind in CLUSTER_KINDS)
    found = await asyncio.gather(*jobs, *shared, reader.pods(), *reader.platform())
    return Observed(datetime.datetime.now(datetime.UTC), tuple(unique(found)), frozenset(reader.unread))


def write_snapshot(observed: Observed, file: Path, namespace: str | None = None) -> int:
    """Write a snapshot that only its owner can read; return its size in bytes.

    Parameters
    ----------
    observed
        The state.
    file
        The file.
    namespace
        Namespace whose jobs it is for; of pods of others it has little. None: all.

    Raises
    ------
    TrainyardError
        It cannot be written, or nothing may be read.
    """
    if not observed.objects and observed.unread:
        kinds = ", ".join(sorted(map(resource_of, observed.unread)))
        raise TrainyardError("nothing of the cluster may be read (no permission)", fix=f"ask for list on {kinds}")
    text = orjson.dumps(recorded(_bounded(observed), namespace), option=orjson.OPT_APPEND_NEWLINE)
    try:
        with atomic_write(file, 0o600) as output:
            output.write(text)
    except OSError as error:
        raise TrainyardError(f"{file} cannot be written: {error.strerror}", fix="name another file") from error
    return len(text)


class Reader:
    """Reads of one cluster.

    Parameters
    ----------
    client
        API client.
    namespace
        Namespace of the jobs; None: all.
    """

    def __init__(self, client: Client, namespace: str | None) -> None:
        self._client = client
        self._namespace = namespace
        self.unread: set[str] = set()
        """Kinds that the user may not list."""

    async def read(
        self, resource: Resource, kind: str, namespace: str | None, fields: str | None = None, labels: str | None = None
    ) -> list[Object]:
        """Return the objects of a kind; those of the job's namespace if the user may not list all.

        Parameters
        ----------
        resource, kind
            The kind.
        namespace
            Namespace; None: all.
        fields, labels
            Selectors.
        """
        try:
            return await self._client.list(resource, namespace=namespace, field_selector=fields, label_selector=labels)
        except ApiError as error:
            if error.not_found:
                return []
            if error.status != HTTPStatus.FORBIDDEN:
                raise
        self.unread.add(kind)
        own = namespace is None and kind not in (Kind.DEPLOYMENT, Kind.LEASE)
        if own and self._namespace is not None and resource.namespaced:
            return await self.read(resource, kind, self._namespace, fields, labels)
        return []

    async def pods(self) -> list[Object]:
        """Return the unfinished pods of all namespaces, and the finished ones of the job's."""
        own = self.read(PODS, Kind.POD, self._namespace)
        if self._namespace is None:
            return await own
        everywhere, finished = await asyncio.gather(self.read(PODS, Kind.POD, None, UNFINISHED), own)
        return [*everywhere, *finished]

    def platform(self) -> list[Coroutine[None, None, list[Object]]]:
        """Return reads of the Deployments and Leases of the platform."""
        reads = [(DEPLOYMENTS, Kind.DEPLOYMENT, name) for name in PLATFORM_DEPLOYMENTS]
        reads += [(LEASES, Kind.LEASE, name) for names in PLATFORM_LEASES.values() for name in names]
        return [self.read(resource, kind, None, f"metadata.name={name}") for resource, kind, name in reads]


def unique(lists: Iterable[Iterable[Object]]) -> Iterable[Object]:
    """Return the objects of several lists, each once."""
    found: dict[tuple[str, str, str, str], Object] = {}
    for body in (each for bodies in lists for each in bodies):
        metadata = body["metadata"]
        found[(body["apiVersion"], body["kind"], metadata.get("namespace") or "", metadata["name"])] = body
    return found.values()


def _bounded(observed: Observed) -> Observed:
    """Return the state without kinds of too many objects, and without old events."""
    by_kind: dict[tuple[str, str], list[Object]] = {}
    for body in observed.objects:
        by_kind.setdefault((str(body.get("apiVersion")), str(body.get("kind"))), []).append(dict(body))
    unread, kept = set(observed.unread), list[Object]()
    for (api_version, kind), bodies in by_kind.items():
        group = api_version.rpartition("/")[0]
        if kind == Kind.EVENT:
            kept += sorted(bodies, key=lambda body: str(body.get("lastTimestamp") or body.get("eventTime") or ""))[
                -MAX_EVENTS:
            ]
        elif len(bodies) > MAX_OBJECTS:
            unread.add(f"{kind}.{group}" if group else kind)
        else:
            kept += bodies
    return Observed(observed.now, tuple(kept), frozenset(unread))
