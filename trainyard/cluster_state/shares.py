"""Shares of a cluster: the queue tree with its limits; what queues use, deserve and can give back.

Used amounts are the requests of placed pods, as the scheduler counts them in each cycle. It writes the sum to
``Queue.status.allocated`` at the end of the cycle, which is then behind, so that counts only where pods are unknown.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from trainyard.cluster_state.body_fields import Body, mapping, name_of, text
from trainyard.cluster_state.cluster_index import ClusterIndex
from trainyard.cluster_state.gang_bodies import amounts_of, valid_quantities, well_formed
from trainyard.cluster_state.observed import Kind, Observed
from trainyard.errors import TrainyardError
from trainyard.scheduling.queues.amounts import Amounts
from trainyard.scheduling.queues.effective_limits import flattened, limits
from trainyard.scheduling.queues.queue import DEFAULT, Queue
from trainyard.scheduling.queues.queued_gangs import QueuedJob, read_jobs
from trainyard.scheduling.queues.snapshot import Snapshot, snapshot_of_cluster
from trainyard.scheduling.queues.tree import QueueTree
from trainyard.scheduling.queues.usage import QueueUsage, queue_usage

_READ: Final = (Kind.PRIORITY_CLASS, Kind.POD_GROUP, Kind.POD)
_MALFORMED: Final = (TypeError, ValueError, AttributeError, KeyError)


class Shares:
    """The queues of a cluster and their gangs.

    Parameters
    ----------
    index
        Index of the cluster.
    """

    def __init__(self, index: ClusterIndex) -> None:
        self._index = index
        self._error: TrainyardError | None = None
        try:
            self.snapshot = snapshot_of_cluster(self._queues, self._nodes)
        except TrainyardError as error:
            self._error = error
            self.snapshot = Snapshot(QueueTree({}))

    @classmethod
    def required(cls, observed: Observed) -> Shares:
        """Return the shares of a cluster whose queues form a tree.

        Raises
        ------
        TrainyardError
            If they form none.
        """
        shares = cls(ClusterIndex(observed))
        if shares._error is not None:
            raise shares._error
        return shares

    @property
    def fault(self) -> str:
        """Why the queues form no tree; empty: they do."""
        return "" if self._error is None else self._error.message.removeprefix("the cluster: ")

    @property
    def _queues(self) -> list[Body]:
        """The queues, with a status as `snapshot_of_cluster` reads it."""
        return [{**body, "status": {"state": text(body, "status", "state")}} for body in self._index.of(Kind.QUEUE)]

    @property
    def _nodes(self) -> list[dict[str, Any]]:
        """The nodes with valid quantities, as `snapshot_of_cluster` reads them."""
        found = []
        for body in self._index.of(Kind.NODE):
            valid = valid_quantities(mapping(body, "status", "allocatable"))
            found.append({"spec": mapping(body, "spec"), "status": {"allocatable": valid}})
        return found

    @cached_property
    def tree(self) -> QueueTree:
        """The queues, ``default`` included."""
        tree = self.snapshot.tree
        return tree if DEFAULT in tree.queues else tree.with_queue(DEFAULT, Queue())

    @property
    def has_tree(self) -> bool:
        """Whether the scheduler reads the edges of the tree, as plug-in capacity does; assumed if it is unknown."""
        return self._index.features is None or self.knows_tree

    @property
    def knows_tree(self) -> bool:
        """Whether the enabled features say that the scheduler reads the edges of the tree."""
        return "capacity" in (self._index.features or ())

    @cached_property
    def limits(self) -> dict[str, Amounts]:
        """Effective limit by queue."""
        return limits(self.tree if self.has_tree else flattened(self.tree), self.snapshot.capacity)

    @cached_property
    def jobs(self) -> list[QueuedJob]:
        """Running and waiting gangs."""
        bodies = [body for kind in _READ for body in self._index.of(kind)]
        pods = self._index.knows(Kind.POD)
        with contextlib.suppress(*_MALFORMED):
            found = read_jobs(bodies, pods=pods)
            if all(isinstance(job.queue, str) for job in found):
                return found
        return read_jobs(map(well_formed, bodies), pods=pods)

    @cached_property
    def by_name(self) -> dict[str, QueuedJob]:
        """Gangs by namespace and name."""
        return {job.name: job for job in self.jobs}

    @cached_property
    def usage(self) -> dict[str, QueueUsage]:
        """Usage by queue, as `trainyard queues show` prints it."""
        snapshot = Snapshot(self.tree, self.snapshot.capacity, node=self.snapshot.node)
        return {each.queue: each for each in queue_usage(snapshot, self.jobs, self.states, self._allocated)}

    @cached_property
    def _allocated(self) -> dict[str, Amounts]:
        """What the scheduler counts, of queues whose gangs are not all known."""
        if self._index.knows(Kind.POD_GROUP) and self._index.knows(Kind.POD):
            return {}
        counted = {name_of(body): body.get("status") for body in self._index.of(Kind.QUEUE)}
        return {
            name: amounts_of(status["allocated"])
            for name, status in counted.items()
            if isinstance(status, Mapping) and "allocated" in status
        }

    @cached_property
    def states(self) -> dict[str, str]:
        """State by queue."""
        return {name_of(body): text(body, "status", "state") for body in self._index.of(Kind.QUEUE)}

    @cached_property
    def waiting(self) -> dict[str, list[QueuedJob]]:
        """Waiting gangs by queue, in the scheduler's order."""
        found: defaultdict[str, list[QueuedJob]] = defaultdict(list)
        for job in self.jobs:
            if not job.running:
                found[job.queue].append(job)
        for jobs in found.values():
            jobs.sort(key=lambda job: (-job.priority, job.created, job.name))
        return found

    def chain(self, queue: str) -> list[str]:
        """Return a queue and the queues above it, without root."""
        if queue not in self.tree.queues:
            return []
        return [queue, *(self.tree.ancestors(queue) if self.has_tree else ())]

    def used(self, queue: str) -> Amounts:
        """Return what a queue and the queues below it use."""
        found = self.usage.get(queue)
        return found.used if found is not None else {}
