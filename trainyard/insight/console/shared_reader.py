"""State that all viewers share: built once a change, explained in the background, with a version to wait for."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable
from typing import Final

from trainyard.insight.console.recorded_source import StateSource
from trainyard.insight.console.state_history import StateHistory
from trainyard.insight.console.views.platform_view import JobRow, PlatformView

MAX_VIEWERS: Final = 4
"""Pages that receive updates at the same time: browsers open at most six connections to one address."""

_LOG = logging.getLogger(__name__)
_SHORTEST: Final = 1.0
_IDLE: Final = 10.0
"""Seconds between two states, and further ones while no page is open."""
_SHARE: Final = 0.25
"""Share of a core that states and explanations of one reader may use."""
_REASONS: Final = 5.0
"""Seconds between updates of pages with further reasons."""
_OLD: Final = 30.0
"""Seconds after which a job of a newer state is explained again."""
_LONGEST_PAUSE: Final = 30.0
"""Seconds between two states at most, whatever the share: older than `_CURRENT`, a state is not shown."""
_CURRENT: Final = 60.0
_UNCHANGED: Final = 10.0
"""Seconds of a wait for a change, after which the state is known to be current."""


class TooManyViewersError(Exception):
    """The maximum number of pages receives updates already."""


class SharedReader:
    """The state of a platform for all viewers.

    Parameters
    ----------
    source
        Source of the state.
    explains
        Whether waiting jobs are explained in the background.
    share
        Returns the share of a core that states and explanations may use; None: a quarter.

    Attributes
    ----------
    fault
        Why the state could not be built again; empty: it could.
    """

    def __init__(self, source: StateSource, *, explains: bool = True, share: Callable[[], float] | None = None) -> None:
        self.source = source
        self.history = StateHistory()
        self.version = 0
        self.viewers = 0
        self.fault = ""
        self._explains = explains
        self._share = share or (lambda: _SHARE)
        self._view: PlatformView | None = None
        self._news = asyncio.Event()
        self._watched = asyncio.Event()
        self._ended = False
        self._tasks: list[asyncio.Task[None]] = []
        self._explained: dict[str, tuple[float, int]] = {}
        self._states = 0
        self._losses = 0
        self._known = float("-inf")

    @property
    def is_current(self) -> bool:
        """Whether the state was known to be current within a minute."""
        return time.monotonic() - self._known <= _CURRENT

    @property
    def view(self) -> PlatformView:
        """The newest state."""
        assert self._view is not None  # noqa: S101 - pages are served after `start`
        return self._view

    async def start(self) -> None:
        """Read the first state, and keep it up to date until `close`; a second call does nothing."""
        if self._view is not None:
            return
        await self.source.start()
        await self._build()
        self._tasks = [asyncio.create_task(self._follow())]
        if self._explains:
            self._tasks.append(asyncio.create_task(self._explain()))

    async def close(self) -> None:
        """End the background work."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.source.close()

    async def end_streams(self) -> None:
        """End the updates of all pages, so that their connections close."""
        self._ended = True
        self._publish()

    async def versions(self, after: str = "") -> AsyncGenerator[int, None]:
        """Yield the version now, unless the page has it, and each newer one, until `end_streams`.

        Parameters
        ----------
        after
            Version of the page.

        Raises
        ------
        TooManyViewersError
            There are `MAX_VIEWERS` already.
        """
        if self.viewers >= MAX_VIEWERS:
            raise TooManyViewersError
        self.viewers += 1
        self._watched.set()
        seen = after
        try:
            while not self._ended:
                if seen == str(self.version):
                    await self._news.wait()
                    continue
                seen = str(self.version)
                yield self.version
        finally:
            self.viewers -= 1
            if not self.viewers:
                self._watched.clear()

    def _publish(self) -> None:
        self.version += 1
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _build(self) -> float:
        started = time.monotonic()
        observed, losses = self.source.observed(), self.source.losses
        kept_rights = losses == self._losses
        reasons = self._view.reasons if self._view is not None and kept_rights else {}
        history = self.history if kept_rights else StateHistory()

        def build() -> PlatformView:
            view = PlatformView(observed, reasons)
            kept = {row.key for row in view.jobs if row.needs_reason}
            view.reasons = {key: reason for key, reason in view.reasons.items() if key in kept}
            history.observe(view)
            return view

        built = await asyncio.to_thread(build)
        if not kept_rights:
            self._explained = {}
        # Losses first: a thread that sees the newest state must also see that its own reasons are of other rights.
        self._losses, self.history, self._view = losses, history, built
        self.fault = ""
        self._known = started
        self._states += 1
        self._publish()
        return time.monotonic() - started

    async def _follow(self) -> None:
        duration = 0.0
        while True:
            lost = asyncio.ensure_future(self.source.lost())
            rest = asyncio.ensure_future(self._rest(duration))
            try:
                await asyncio.wait({lost, rest}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (lost, rest):
                    task.cancel()
                await asyncio.gather(lost, rest, return_exceptions=True)
            try:
                duration = await self._build()
            except Exception as error:
                _LOG.exception("the state could not be read")
                self.fault = f"a newer one could not be read: {type(error).__name__}: {error}"
                self._publish()
                duration = _IDLE

    async def _rest(self, duration: float) -> None:
        """Wait until the next state is due: a change, after a pause."""
        await asyncio.sleep(max(_SHORTEST, min(duration / self._share(), _LONGEST_PAUSE)))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_IDLE):  # wait_for of Python 3.11 ignores some cancellations
                await self._watched.wait()
        changed = asyncio.ensure_future(self.source.changed())
        try:
            while not (await asyncio.wait({changed}, timeout=_UNCHANGED))[0]:
                if not self.fault:
                    self._known = time.monotonic()
        finally:
            changed.cancel()
            await asyncio.gather(changed, return_exceptions=True)

    async def _explain(self) -> None:
        """Explain the jobs that wait, those without a reason first, with pauses for the pages."""
        news = 0.0
        while True:
            view, now = self.view, time.monotonic()
            due = (row for row in view.jobs if row.needs_reason and self._is_due(row.key, now))
            row = min(due, key=self._rank, default=None)
            if row is None:
                if news:
                    self._publish()
                    news = 0.0
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_OLD):
                        await self._news.wait()
                keys = view.by_key
                self._explained = {key: when for key, when in self._explained.items() if key in keys}
                continue
            losses = self._losses
            await asyncio.to_thread(self._explain_one, view, row.key, losses)
            spent = time.monotonic() - now
            if losses == self._losses:
                self._explained[row.key] = (time.monotonic(), self._states)
            news = news or now
            if time.monotonic() - news > _REASONS:
                self._publish()
                news = 0.0
            await asyncio.sleep(spent / self._share() - spent)

    def _explain_one(self, view: PlatformView, key: str, losses: int) -> None:
        try:
            view.explain(key)
        except Exception:
            _LOG.exception("%s could not be explained", key)
        newest = self.view
        if newest is not view and key in view.reasons and losses == self._losses:
            newest.reasons[key] = view.reasons[key]

    def _is_due(self, key: str, now: float) -> bool:
        when, states = self._explained.get(key, (0.0, -1))
        return states < 0 or (states != self._states and now - when > _OLD)

    def _rank(self, row: JobRow) -> tuple[float, str, int]:
        return self._explained.get(row.key, (0.0, -1))[0], row.queue, row.place
