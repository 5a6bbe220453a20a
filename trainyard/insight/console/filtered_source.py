"""State that several viewers share, of which each sees the part that SubjectAccessReviews grant.

The state is filtered before any page is built from it, so that no page, plan or update can show more. What is granted
is reviewed at each turn, and what is not at every second one: with many namespaces, these are most reviews by far, and
the others must not wait for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from trainyard.cluster_state.body_fields import namespace_of
from trainyard.cluster_state.cluster_index import kind_of
from trainyard.cluster_state.observed import Observed
from trainyard.errors import TrainyardError
from trainyard.insight.console.access_review import NOTHING, AccessReviews, Granted
from trainyard.insight.console.recorded_source import StateSource
from trainyard.insight.console.shown_kinds import SHOWN_KINDS
from trainyard.kube.reviews import User

_SHORTEST: Final = 1.0
_REFRESH_SECONDS: Final = 60.0
_REVIEW_SECONDS: Final = 25.0
"""Seconds between two reviews of what a viewer may read."""
_RETRY_SECONDS: Final = 5.0
"""Seconds of a review of what was granted, and until the next one if it has failed."""
_SEARCH_SECONDS: Final = 20.0
"""Seconds of a review of all namespaces."""
_GRANTED_SECONDS: Final = 40.0
"""Seconds after which nothing is granted without a newer review: with a page's own age, less than a minute."""
_LOG = logging.getLogger(__name__)


class SourceHub:
    """One source with several followers.

    Parameters
    ----------
    name
        Name of the source.
    open_source
        Returns the source; the hub starts and closes it.
    """

    def __init__(self, name: str, open_source: Callable[[], StateSource]) -> None:
        self.name = name
        self.observed: Observed | None = None
        self._open_source = open_source
        self._source: StateSource | None = None
        self._followers: set[asyncio.Event] = set()
        self._task: asyncio.Task[None] | None = None

    @property
    def fault(self) -> str:
        """Why the state may be old; empty: it is not."""
        return self._source.fault if self._source is not None else ""

    @property
    def confirmed(self) -> datetime.datetime | None:
        """Time at which the state was known to be current."""
        return self._source.confirmed if self._source is not None else None

    async def start(self) -> None:
        """Read the first state, and keep it up to date; a second call does nothing."""
        if self._task is not None:
            return
        source = self._open_source()
        try:
            await source.start()
        except BaseException:
            await source.close()
            raise
        self._source, self.observed = source, source.observed()
        self._task = asyncio.create_task(self._follow(source))

    async def close(self) -> None:
        """Stop."""
        if self._task is not None and self._source is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await self._source.close()

    def follow(self, news: asyncio.Event) -> None:
        """Set an event with each newer state, until `leave`."""
        self._followers.add(news)

    def leave(self, news: asyncio.Event) -> None:
        """Stop to set an event."""
        self._followers.discard(news)

    async def _follow(self, source: StateSource) -> None:
        while True:
            await asyncio.sleep(_SHORTEST)
            try:
                await source.changed()
                self.observed = source.observed()
            except Exception:
                _LOG.exception("the state could not be read")
                continue
            for news in self._followers:
                news.set()


class FilteredSource:
    """State for one viewer.

    Parameters
    ----------
    hub
        The whole state.
    viewer
        The viewer.
    reviews
        Reviews of what it may read.
    namespaces
        Namespaces beside those in which the state has objects.
    """

    def __init__(self, hub: SourceHub, viewer: User, reviews: AccessReviews, namespaces: tuple[str, ...]) -> None:
        self._hub = hub
        self._viewer = viewer
        self._reviews = reviews
        self._namespaces = namespaces
        self._granted = NOTHING
        self._reviewed = float("-inf")
        self._news = asyncio.Event()
        self._lost = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.losses = 0
        self.name = hub.name
        self.requests = 0
        self.confirmed: datetime.datetime | None = None

    @property
    def fault(self) -> str:
        """Why the state may be old; empty: it is not."""
        return self._hub.fault

    async def start(self) -> None:
        """Review what the viewer may read, again and again until `close`."""
        await self._search()
        self._hub.follow(self._news)
        self._task = asyncio.create_task(self._review_often())

    async def close(self) -> None:
        """Stop."""
        self._hub.leave(self._news)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def changed(self) -> None:
        """Wait until the state, or what may be read of it, has changed; at most a minute."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REFRESH_SECONDS):
                await self._news.wait()

    async def lost(self) -> None:
        """Wait until the viewer has lost a right."""
        await self._lost.wait()

    def observed(self) -> Observed:
        """Return the part of the state that the viewer may read."""
        self._news.clear()
        self._lost.clear()
        whole = self._hub.observed
        assert whole is not None  # noqa: S101 - the hub is started first
        self.confirmed = self._hub.confirmed
        granted = self._granted
        shown = tuple(each for each in whole.objects if granted.allows(kind_of(each), namespace_of(each)))
        return Observed(whole.now, shown, whole.unread | (SHOWN_KINDS.keys() - granted.everywhere))

    async def logs(self, namespace: str, pod: str, container: str) -> str:
        """Raise an error: the console's own account may not read logs."""
        raise TrainyardError(
            "Logs are not shown to viewers of a proxy", fix=f"kubectl logs {pod} -c {container} -n {namespace}"
        )

    async def _search(self) -> None:
        """Review all namespaces."""
        whole = self._hub.observed
        found = {namespace_of(each) for each in (whole.objects if whole else ())} - {""}
        await self._take(self._reviews.granted(self._viewer, sorted(found.union(self._namespaces))), _SEARCH_SECONDS)

    async def _renew(self) -> None:
        """Review what was granted."""
        await self._take(self._reviews.confirmed(self._viewer, self._granted), _RETRY_SECONDS)

    async def _take(self, review: Awaitable[Granted], seconds: float) -> None:
        """Await a review, and grant what it says; it is as old as its start."""
        begun = time.monotonic()
        async with asyncio.timeout(seconds):
            granted = await review
        self._reviewed = begun
        self._grant(granted)

    async def _review_often(self) -> None:
        wait, searches = _REVIEW_SECONDS, False
        while True:
            await asyncio.sleep(wait)
            try:
                await self._renew()
                if searches:
                    await self._search()
                wait = _REVIEW_SECONDS
            except Exception as error:  # any: without reviews, nothing may be shown
                _LOG.warning("what %r may read could not be reviewed: %s", self._viewer.name, error)
                wait = _RETRY_SECONDS
                if time.monotonic() - self._reviewed >= _GRANTED_SECONDS:
                    self._grant(NOTHING)
            searches = not searches

    def _grant(self, granted: Granted) -> None:
        if granted != self._granted:
            if not granted.covers(self._granted):
                self.losses += 1
                self._lost.set()
            self._granted = granted
            self._news.set()
