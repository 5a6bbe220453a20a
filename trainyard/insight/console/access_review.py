"""Access reviews: what a user may list and watch, for viewers whom a proxy has authenticated."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from trainyard.insight.console.shown_kinds import SHOWN_KINDS
from trainyard.kube.client import Client
from trainyard.kube.kinds import PODS
from trainyard.kube.resource import Resource
from trainyard.kube.reviews import User, is_allowed
from trainyard.kube.training_kinds import TRAIN_JOBS

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

    async def granted(self, viewer: User, namespaces: Collection[str]) -> Granted:
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

    async def confirmed(self, viewer: User, granted: Granted) -> Granted:
        """Return what a viewer still may read of what was granted.

        Raises
        ------
        ApiError, TransportError
            The API server rejects a review, or does not answer.
        """
        everywhere, inside = await asyncio.gather(
            self._allowed(viewer, ((kind, "") for kind in granted.everywhere)), self._allowed(viewer, granted.inside)
        )
        return Granted(frozenset(kind for kind, _ in everywhere), frozenset(inside))

    async def _allowed(self, viewer: User, wanted: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
        pairs = list(wanted)
        found = await asyncio.gather(*(self._may_read(viewer, SHOWN_KINDS[kind], each) for kind, each in pairs))
        return {pair for pair, allowed in zip(pairs, found, strict=True) if allowed}

    async def _may_read(self, viewer: User, resource: Resource, namespace: str) -> bool:
        for verb in _VERBS:
            attributes = {"group": resource.group, "resource": resource.plural, "verb": verb}
            if namespace:
                attributes["namespace"] = namespace
            async with self._slots:
                if not await is_allowed(self._client, viewer, {"resourceAttributes": attributes}):
                    return False
        return True
