"""Platform at one instant: its jobs, nodes and devices, computed once for all pages."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar
from urllib.parse import quote

from trainyard.cluster_state.body_fields import Body, mapping, name_of, namespace_of, text, time
from trainyard.cluster_state.cluster_index import ClusterIndex
from trainyard.cluster_state.gang_bodies import amounts_of
from trainyard.cluster_state.observed import Kind, Observed
from trainyard.insight.explain.explanation import Explanation, explain_object
from trainyard.insight.explain.job_state import ClusterView, ExplainedState, JobState
from trainyard.insight.explain.named_objects import find_named, short_kind
from trainyard.insight.explain.node_table import NodeFacts
from trainyard.scheduling.queues.amounts import Amounts, total
from trainyard.scheduling.queues.amounts import text as amount_text

UNKNOWN: Final = "unknown"
"""Text of a number that depends on something that may not be read."""

T = TypeVar("T")
_MEMO: Final = 32
_ROOTS: Final = {
    "trainjob": Kind.TRAIN_JOB,
    "jobset": Kind.JOB_SET,
    "vcjob": Kind.VOLCANO_JOB,
    "job": Kind.JOB,
    "pod": Kind.POD,
}
"""Kinds of jobs; those that have an owner are part of another one."""
_NEED_GANG: Final = frozenset({"job", "pod"})
"""Kinds that only are jobs of the platform if they have a PodGroup."""


@dataclass(frozen=True)
class Reason:
    """Why a job waits or failed, in short.

    Parameters
    ----------
    cause, title
        Identifier of the first cause, and its title.
    message
        The paragraph.
    """

    cause: str
    title: str
    message: str

    @classmethod
    def of(cls, explanation: Explanation) -> Reason | None:
        """Return the reason of an explanation, or None if it needs none."""
        if explanation.cause is None:
            return None
        title = explanation.causes[0].cause.title if explanation.causes else "Unknown reason"
        return cls(explanation.cause, title, explanation.message)


@dataclass(frozen=True)
class JobRow:
    """One job of the platform.

    Parameters
    ----------
    kind, namespace, name
        Its kind as a person writes it (``trainjob``), and its name.
    state
        Its state.
    queue
        Its queue; empty: none.
    place, ahead
        Position among the waiting gangs of its queue, from 1, and how many there are; 0: it does not wait for it.
    pods
        Pods of its gang.
    amounts
        Units by resource that it uses, or waits for.
    created
        Time of creation.
    runtime
        Name of its runtime; empty: none.
    uid
        Its UID; another job of the same name has another one.
    """

    kind: str
    namespace: str
    name: str
    state: ExplainedState
    queue: str
    place: int
    ahead: int
    pods: int
    amounts: Amounts
    created: datetime.datetime | None
    runtime: str
    uid: str = ""

    @property
    def key(self) -> str:
        """Kind, namespace and name."""
        return f"{self.kind}/{self.namespace}/{self.name}"

    @property
    def identity(self) -> str:
        """UID, or `key` if it has none."""
        return self.uid or self.key

    @property
    def path(self) -> str:
        """Path of its page."""
        return "/jobs/" + "/".join(quote(each, safe="") for each in (self.kind, self.namespace, self.name))

    @property
    def needs_reason(self) -> bool:
        """Whether it does not run for a reason."""
        return self.state in (ExplainedState.WAITING, ExplainedState.SUSPENDED, ExplainedState.FAILED)

    @property
    def devices(self) -> str:
        """Devices that it uses or waits for, as text."""
        return amounts_text({name: amount for name, amount in self.amounts.items() if is_device(name)})


@dataclass(frozen=True)
class Devices:
    """Devices of one resource.

    Parameters
    ----------
    resource
        Its name.
    used, free, lost
        Units that pods use, that new pods can use, and that neither can, because their node is not ready, is cordoned
        or does not offer them.
    known
        Whether all pods were read; otherwise only their sum is known.
    """

    resource: str
    used: int
    free: int
    lost: int
    known: bool = True

    @property
    def whole(self) -> int:
        """All units."""
        return self.used + self.free + self.lost

    def shown(self, amount: int) -> str:
        """Return units as a quantity."""
        return amount_text(self.resource, amount)

    @property
    def figures(self) -> dict[str, str]:
        """Used, free and lost units as text; all of them, if the others are unknown."""
        if not self.known:
            return {"in all": self.shown(self.whole), "used": UNKNOWN, "free": UNKNOWN}
        return {name: self.shown(getattr(self, name)) for name in ("used", "free", "lost")}


def is_device(resource: str) -> bool:
    """Return whether a resource is a device."""
    return "/" in resource


def amounts_text(amounts: Amounts) -> str:
    """Return amounts as text, such as ``8 nvidia.com/gpu``."""
    return ", ".join(f"{amount_text(name, amount)} {name}" for name, amount in sorted(amounts.items()) if amount)


def age_text(now: datetime.datetime, then: datetime.datetime | None) -> str:
    """Return the time since an instant, such as ``3 d 4 h``; empty if it is unknown."""
    if then is None:
        return ""
    seconds = max(0, int((now - then).total_seconds()))
    for size, unit, smaller, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = seconds % size // smaller
            return f"{seconds // size} {unit}" + (f" {rest} {small}" if rest else "")
    return f"{seconds} s"


class PlatformView:
    """A platform at one instant.

    Parameters
    ----------
    observed
        Recorded state of its cluster.
    reasons
        Why jobs wait or failed, by `JobRow.key`.
    """

    def __init__(self, observed: Observed, reasons: Mapping[str, Reason] | None = None) -> None:
        self.observed = observed
        self.cluster = ClusterView(observed)
        self.reasons: dict[str, Reason] = dict(reasons or {})
        self._memo: dict[object, Any] = {}
        self._lock = threading.Lock()

    def memo(self, key: object, compute: Callable[[], T]) -> T:
        """Return what a page computes once for all viewers; the newest results are kept."""
        with self._lock:
            if key not in self._memo:
                if len(self._memo) >= _MEMO:
                    del self._memo[next(iter(self._memo))]
                self._memo[key] = compute()
            found: T = self._memo[key]
            return found

    @property
    def index(self) -> ClusterIndex:
        """Its objects."""
        return self.cluster.index

    @property
    def now(self) -> datetime.datetime:
        """Time of the state."""
        return self.observed.now

    @property
    def unread(self) -> list[str]:
        """Kinds that could not be read, as a person writes them."""
        return sorted(map(short_kind, self.observed.unread))

    def unread_of(self, *kinds: str) -> str:
        """Return those of some kinds that could not be read in all namespaces, as text; empty: all were."""
        return " and ".join(f"{short_kind(kind)}s" for kind in kinds if not self.index.knows(kind))

    @cached_property
    def roots(self) -> dict[str, Body]:
        """Objects of the jobs by `JobRow.key`."""
        found = {}
        for short, kind in _ROOTS.items():
            for body in self.index.of(kind):
                if self.index.owner(body) is None and (short not in _NEED_GANG or self._has_gang(short, body)):
                    found[f"{short}/{namespace_of(body)}/{name_of(body)}"] = body
        return found

    def _has_gang(self, kind: str, body: Body) -> bool:
        if kind == "pod":
            return not self.index.gang_of(body).endswith("/") and not mapping(body, "metadata").get("ownerReferences")
        return bool(self.index.children(body, Kind.POD_GROUP))

    @cached_property
    def jobs(self) -> list[JobRow]:
        """The jobs, by namespace and name, without reasons."""
        return sorted(
            (self._row(key.partition("/")[0], body) for key, body in self.roots.items()),
            key=lambda row: (row.namespace, row.name),
        )

    @cached_property
    def by_key(self) -> dict[str, JobRow]:
        """The jobs by `JobRow.key`."""
        return {row.key: row for row in self.jobs}

    @cached_property
    def _places(self) -> dict[str, tuple[int, int]]:
        """Position and number of waiting gangs of its queue, by gang; none, if those of others may not be read."""
        if self.unread_of(Kind.POD_GROUP, Kind.PRIORITY_CLASS):
            return {}
        return {
            job.name: (position, len(jobs))
            for jobs in self.cluster.shares.waiting.values()
            for position, job in enumerate(jobs, 1)
        }

    def _row(self, kind: str, body: Body) -> JobRow:
        job_state = JobState(self.cluster, body)
        gang = job_state.gang
        state = job_state.state
        place = self._places.get(gang.name, (0, 0)) if gang is not None and state is ExplainedState.WAITING else (0, 0)
        if gang is not None:
            pods, amounts = len(gang.members), gang.request
        else:
            pods = sum(count for _, _, count in job_state.templates)
            amounts = {} if job_state.ended else total(demand.request for demand in job_state.demands)
        namespace, name = namespace_of(body), name_of(body)
        created = time(body, "metadata", "creationTimestamp")
        runtime, uid = text(body, "spec", "runtimeRef", "name"), text(body, "metadata", "uid")
        return JobRow(kind, namespace, name, state, job_state.queue, *place, pods, amounts, created, runtime, uid)

    @cached_property
    def gang_rows(self) -> dict[str, JobRow]:
        """Jobs by namespace and name of their PodGroup."""
        found = {}
        for row in self.jobs:
            gang = JobState(self.cluster, self.roots[row.key]).gang
            if gang is not None:
                found[gang.name] = row
        return found

    def explain(self, key: str) -> Explanation | None:
        """Return the explanation of a job, and keep its reason, or None if it does not exist."""
        kind, _, rest = key.partition("/")
        namespace, _, name = rest.partition("/")
        body = self.roots.get(key) or find_named(self.index, f"{kind}/{name}", namespace)
        if body is None:
            return None
        explanation = explain_object(self.cluster, body)
        reason = Reason.of(explanation)
        if reason is None:
            self.reasons.pop(key, None)
        else:
            self.reasons[key] = reason
        return explanation

    def reason(self, row: JobRow) -> Reason | None:
        """Return why a job waits or failed, if it is known."""
        return self.reasons.get(row.key) if row.needs_reason else None

    @property
    def nodes(self) -> Mapping[str, NodeFacts]:
        """Nodes by name."""
        return self.cluster.table.nodes

    @cached_property
    def devices(self) -> list[Devices]:
        """Devices of the nodes by resource."""
        sums: dict[str, list[int]] = {}
        for name, node in self.nodes.items():
            body = self.index.find(Kind.NODE, name)
            whole = amounts_of(mapping(body, "status", "capacity"))
            for resource in filter(is_device, {*node.offers, *whole}):
                used, free, lost = node_devices(node, resource, whole.get(resource, 0))
                own = sums.setdefault(resource, [0, 0, 0])
                own[0], own[1], own[2] = own[0] + used, own[1] + free, own[2] + lost
        known = self.index.knows(Kind.POD)
        return [
            Devices(resource, used, free, lost, known)
            for resource, (used, free, lost) in sorted(sums.items())
            if used or free or lost
        ]

    @cached_property
    def resource(self) -> str:
        """The resource that pages draw: the device of which there are most; cpu without devices."""
        return max(self.devices, key=lambda each: (each.whole, each.resource)).resource if self.devices else "cpu"

    @cached_property
    def racks(self) -> dict[str, str]:
        """Lowest domain by node."""
        domains = sorted(self.cluster.table.domains.values(), key=lambda each: (-each.tier, each.name))
        return {node: each.name for each in domains for node in each.nodes}


def node_devices(node: NodeFacts, resource: str, capacity: int = 0) -> tuple[int, int, int]:
    """Return the used, free and lost units of a device on a node."""
    offers = node.offers.get(resource, 0)
    free = max(0, node.free.get(resource, 0))
    missing = max(0, capacity - offers)
    if not node.ready:
        return 0, 0, offers + missing
    used = offers - free
    return (used, 0, free + missing) if node.cordoned else (used, free, missing)
