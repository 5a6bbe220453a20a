"""Access reviews: what a user may list and watch, for viewers whom a proxy has authenticated."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from trainyard.console.token_review import Viewer
from trainyard.explain import Kind
from trainyard.kube import Client, Resource
from trainyard.kube.kinds import (
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    PODS,
    SUBJECT_ACCESS_REVIEWS,
    VALIDATING_WEBHOOKS,
)
from trainyard.kube.leader import LEASES
from trainyard.kube.training_kinds import TRAIN_JOBS
from trainyard.live.cluster_snapshot import CLUSTER_KINDS, JOB_KINDS

__all__ = ["NOTHING", "SHOWN_KINDS", "AccessReviews", "Granted"]

_WEBHOOKS: Final = tuple((f"{each.kind}.{each.group}", each) for each in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS))
SHOWN_KINDS: Final[Mapping[str, Resource]] = {
    **{kind: resource for resource, kind in (*JOB_KINDS, *CLUSTER_KINDS)},
    **{Kind.POD: PODS, Kind.DEPLOYMENT: DEPLOYMENTS, Kind.LEASE: LEASES},
    **dict(_WEBHOOKS),
}
"""Resource of each kind that the console reads."""
_VERBS: Final = ("list", "watch")
_CONCURRENT: Final = 16


@dataclass(frozen=True)
class Granted:
    """What a viewer may read.

    Parameters
    ----------
    everywhere
        Kinds that it may read in all namespaces, or that have none.
    inside
        Kinds with the namespaces in which it may read them.
    """

    everywhere: frozenset[str] = frozenset()
    inside: frozenset[tuple[str, str]] = frozenset()

    def allows(self, kind: str, namespace: str) -> bool:
        """Return whether an object of a kind in a namespace may be shown."""
        return kind in self.everywhere or (kind, namespace) in self.inside

    def covers(self, other: Granted) -> bool:
        """Return whether everything that another one allows is allowed."""
        return other.everywhere <= self.everywhere and all(self.allows(*each) for each in other.inside)


NOTHING: Final = Granted()


class AccessReviews:
    """Reviews of what users may read.

    Parameters
    ----------
    client
        API client that may create SubjectAccessReviews.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._slots = asyncio.Semaphore(_CONCURRENT)

    async def granted(self, viewer: Viewer, namespaces: Collection[str]) -> Granted:
        """Return what a viewer may read: all namespaces, or some of them in which it may read TrainJobs or pods.

        Raises
        ------
        ApiError, TransportError
            The API server rejects a review, or does not answer.
        """
        everywhere = await self._allowed(viewer, ((kind, "") for kind in SHOWN_KINDS))
        kinds = [kind for kind, each in SHOWN_KINDS.items() if each.namespaced and (kind, "") not in everywhere]
        first = [kind for kind in SHOWN_KINDS if SHOWN_KINDS[kind] in (TRAIN_JOBS, PODS)]
        known = await self._allowed(viewer, ((kind, each) for kind in first if kind in kinds for each in namespaces))
        readable = namespaces if set(first) - set(kinds) else {namespace for _, namespace in known}
        others = ((kind, each) for kind in kinds if kind not in first for each in sorted(readable))
        inside = known | await self._allowed(viewer, others)
        return Granted(frozenset(kind for kind, _ in everywhere), frozenset(inside))

    async def _allowed(self, viewer: Viewer, wanted: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
        pairs = list(wanted)
        found = await asyncio.gather(*(self._may_read(viewer, SHOWN_KINDS[kind], each) for kind, each in pairs))
        return {pair for pair, allowed in zip(pairs, found, strict=True) if allowed}

    async def _may_read(self, viewer: Viewer, resource: Resource, namespace: str) -> bool:
        for verb in _VERBS:
            attributes = {"group": resource.group, "resource": resource.plural, "verb": verb}
            if namespace:
                attributes["namespace"] = namespace
            spec = {"user": viewer.name, "groups": sorted(viewer.groups), "resourceAttributes": attributes}
            body = {"apiVersion": SUBJECT_ACCESS_REVIEWS.api_version, "kind": SUBJECT_ACCESS_REVIEWS.kind, "spec": spec}
            async with self._slots:
                answer = await self._client.request(
                    "POST", SUBJECT_ACCESS_REVIEWS.path(), resource=SUBJECT_ACCESS_REVIEWS, body=body
                )
            status = answer.get("status") or {}
            if status.get("allowed") is not True or status.get("denied"):
                return False
        return True
