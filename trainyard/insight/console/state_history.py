"""Bounded history in memory: changes of the states of jobs, and the devices in use over time."""

from __future__ import annotations

import datetime
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from trainyard.insight.console.views.job_page import TimelineEntry
from trainyard.insight.console.views.platform_view import PlatformView
from trainyard.insight.explain.job_state import ExplainedState

_CHANGES: Final = 20_000
_SAMPLES: Final = 720
_STYLES: Final = {ExplainedState.RUNNING: "running", ExplainedState.FAILED: "failed", ExplainedState.COMPLETE: "other"}


@dataclass(frozen=True)
class Sample:
    """Numbers at one instant: devices in use and free, in units of one resource, and waiting jobs."""

    when: datetime.datetime
    used: int
    free: int
    waiting: int


class StateHistory:
    """Ring of changes and samples; the oldest are dropped.

    Parameters
    ----------
    changes, samples
        How many are kept.
    """

    def __init__(self, changes: int = _CHANGES, samples: int = _SAMPLES) -> None:
        self._changes: deque[tuple[str, TimelineEntry]] = deque(maxlen=changes)
        self._states: dict[str, ExplainedState] = {}
        self.samples: deque[Sample] = deque(maxlen=samples)

    def __len__(self) -> int:
        return len(self._changes)

    def observe(self, view: PlatformView) -> None:
        """Record what has changed since the last instant; jobs of the first one have no change."""
        first = not self.samples
        states = {row.identity: row.state for row in view.jobs}
        for key, state in states.items():
            before = self._states.get(key)
            if before is state or first:
                continue
            lost = before is ExplainedState.RUNNING and state is ExplainedState.WAITING
            text = "taken back or restarted: waits again" if lost else f"{before or 'new'} → {state}"
            style = "failed" if lost else _STYLES.get(state, "waiting")
            self._changes.append((key, TimelineEntry(view.now, text, style, state)))
        self._states = states
        device = next((each for each in view.devices if each.resource == view.resource), None)
        waiting = sum(state is ExplainedState.WAITING for state in states.values())
        self.samples.append(Sample(view.now, device.used if device else 0, device.free if device else 0, waiting))

    def steps(self, identity: str) -> tuple[TimelineEntry, ...]:
        """Return the changes of the job of a `JobRow.identity`, oldest first."""
        return tuple(step for found, step in list(self._changes) if found == identity)

    def by_job(self, identities: Collection[str]) -> dict[str, tuple[TimelineEntry, ...]]:
        """Return the changes of several jobs, as `steps` does for one."""
        found: dict[str, list[TimelineEntry]] = {each: [] for each in identities}
        for identity, step in list(self._changes):
            if identity in found:
                found[identity].append(step)
        return {identity: tuple(steps) for identity, steps in found.items()}
