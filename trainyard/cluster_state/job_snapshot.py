"""State of a live cluster for the explanation of one job: of the jobs of its namespace, those that it needs.

Nodes, queues, PodGroups and unfinished pods of the whole cluster decide where and when a gang starts. TrainJobs,
JobSets, Jobs and Volcano Jobs only count for the job itself and for gangs ahead of it, and are most of a large cluster.
"""

from __future__ import annotations

import asyncio
import datetime
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from trainyard.api.constants import GROUP_NAME_ANNOTATION, JOB_SET_NAME_LABEL
from trainyard.cluster_state.body_fields import Body, mapping, name_of, namespace_of, sequence, text
from trainyard.cluster_state.cluster_index import kind_of
from trainyard.cluster_state.cluster_snapshot import CLUSTER_KINDS, JOB_KINDS, UNFINISHED, Reader, unique
from trainyard.cluster_state.observed import Kind, Observed
from trainyard.jobs.render.dns import is_subdomain
from trainyard.kube.client import Client
from trainyard.kube.kinds import JOBS, PODS
from trainyard.kube.resource import Object, Resource
from trainyard.kube.training_kinds import JOB_SETS, TRAIN_JOBS, VOLCANO_JOBS

_RUNNERS: Final = {
    Kind.TRAIN_JOB: TRAIN_JOBS,
    Kind.JOB_SET: JOB_SETS,
    Kind.JOB: JOBS,
    Kind.VOLCANO_JOB: VOLCANO_JOBS,
}
"""Kinds that own pods, directly or not."""
_MOST_OTHERS: Final = 64
"""Owners of other gangs that are read one by one; of more, all of the namespace are."""
_LONGEST_LABEL: Final = 63
_FINISHED: Final = ("Succeeded", "Failed")


async def read_job(client: Client, reference: str, namespace: str) -> Observed:
    """Read what the explanation of one job needs; it is equal to that of all jobs of its namespace.

    Parameters
    ----------
    client
        API client. What its user may not list in all namespaces is read in `namespace`, and recorded as unread.
    reference
        ``NAME`` or ``KIND/NAME``.
    namespace
        Its namespace.
    """
    reader = _JobReader(client, namespace)
    shared = [reader.read(resource, kind, None) for resource, kind in CLUSTER_KINDS]
    own = [reader.read(resource, kind, namespace) for resource, kind in JOB_KINDS if kind not in _RUNNERS]
    named = reader.with_owners(reference.rpartition("/")[2])
    pods, job, *others = await asyncio.gather(reader.pods(), named, *shared, *own, *reader.platform())
    groups = [each for bodies in others for each in bodies if kind_of(each) == Kind.POD_GROUP]
    ahead = await reader.owners_of(_waiting([each for each in pods if namespace_of(each) == namespace], groups))
    # Objects below another one count in the order of their names, as in a list.
    found = unique([pods, sorted([*ahead, *job], key=name_of), *others])
    return Observed(datetime.datetime.now(datetime.UTC), tuple(found), frozenset(reader.unread))


class _JobReader(Reader):
    def __init__(self, client: Client, namespace: str) -> None:
        super().__init__(client, namespace)
        self._own = namespace

    async def pods(self) -> list[Object]:
        """Return the unfinished pods of all namespaces, and the finished ones of the job's."""
        phases = [self.read(PODS, Kind.POD, self._own, f"status.phase={phase}") for phase in _FINISHED]
        everywhere, *finished = await asyncio.gather(self.read(PODS, Kind.POD, None, UNFINISHED), *phases)
        return [*everywhere, *sorted((pod for pods in finished for pod in pods), key=name_of)]

    async def with_owners(self, name: str) -> list[Object]:
        """Return what has a name, all objects above it, and the JobSet and the Jobs below them."""
        if not is_subdomain(name):  # Nothing can have it, and the API server would reject the selector.
            return []
        found: list[Object] = []
        seen: set[tuple[str, str]] = set()
        level = {(kind, name) for kind in (*_RUNNERS, Kind.POD)}
        while level:
            seen |= level
            read = await asyncio.gather(*(self._named(kind, each) for kind, each in sorted(level)))
            bodies = [body for each in read for body in each]
            found += bodies
            # The JobSet of a TrainJob has its name.
            below = {(Kind.JOB_SET, name_of(body)) for body in bodies if kind_of(body) == Kind.TRAIN_JOB}
            level = ({owner for body in bodies for owner in _owners(body)} | below) - seen
        return [*found, *await self._jobs_of({each for kind, each in seen if kind == Kind.JOB_SET})]

    async def owners_of(self, pods: Sequence[Body]) -> list[Object]:
        """Return the JobSets with their Jobs, the Jobs and the Volcano Jobs of pods."""
        sets = {label for pod in pods if (label := text(pod, "metadata", "labels", JOB_SET_NAME_LABEL))}
        owners = {owner for pod in pods for owner in _owners(pod)} | {(Kind.JOB_SET, each) for each in sets}
        if len(owners) > _MOST_OTHERS:
            kinds = [(resource, kind) for kind, resource in _RUNNERS.items() if kind != Kind.TRAIN_JOB]
            every = await asyncio.gather(*(self.read(resource, kind, self._own) for resource, kind in kinds))
            return [body for bodies in every for body in bodies]
        read = await asyncio.gather(*(self._named(kind, each) for kind, each in sorted(owners)), self._jobs_of(sets))
        return [body for bodies in read for body in bodies]

    async def _named(self, kind: str, name: str) -> list[Object]:
        resource: Resource = PODS if kind == Kind.POD else _RUNNERS[kind]
        return await self.read(resource, kind, self._own, f"metadata.name={name}")

    async def _jobs_of(self, job_sets: Iterable[str]) -> list[Object]:
        names = ",".join(sorted(name for name in job_sets if len(name) <= _LONGEST_LABEL))
        if not names:
            return []
        return await self.read(JOBS, Kind.JOB, self._own, labels=f"{JOB_SET_NAME_LABEL} in ({names})")


def _owners(body: Body) -> set[tuple[str, str]]:
    found = {(kind_of(each), text(each, "name")) for each in sequence(body, "metadata", "ownerReferences")}
    return {(kind, name) for kind, name in found if kind in _RUNNERS}


def _waiting(pods: Iterable[Body], groups: Iterable[Body]) -> list[Body]:
    """Return the pods of the gangs that are not wholly placed; the owners of others are not looked at."""
    known = {(namespace_of(each), name_of(each)) for each in groups}
    members: defaultdict[tuple[str, str], list[Body]] = defaultdict(list)
    for pod in pods:
        group = (namespace_of(pod), text(pod, "metadata", "annotations", GROUP_NAME_ANNOTATION))
        if group in known:
            members[group].append(pod)
    return [pod for found in members.values() if not _is_placed(found) for pod in found]


def _is_placed(pods: Iterable[Body]) -> bool:
    living = [pod for pod in pods if text(pod, "status", "phase") not in _FINISHED]
    living = [pod for pod in living if not mapping(pod, "metadata").get("deletionTimestamp")]
    return bool(living) and all(text(pod, "spec", "nodeName") for pod in living)
