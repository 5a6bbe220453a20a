"""Progress of long operations: current step, elapsed and estimated remaining time.

Operations report to a `Progress`; the command line formats it. The durations of finished steps are stored, to
estimate the remaining time of the next run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

_LONGEST = 1e6
"""Seconds; a stored duration beyond this is damaged, and is not used for estimates."""


class Step(Protocol):
    """One running step."""

    def update(self, detail: str, *, fraction: float | None = None) -> None:
        """Report the current activity and, if known, the completed fraction of the step (0 to 1)."""

    def done(self, outcome: str) -> None:
        """Set the outcome of the step ("12 programs built"), shown when it closes."""


class Progress(Protocol):
    """A sequence of steps."""

    def step(self, title: str) -> AbstractContextManager[Step]:
        """Open a step; leaving the context closes it, as failed on an exception."""


class LineProgress:
    """Progress as lines of text, for terminals and logs alike.

    Parameters
    ----------
    write
        Receives each line.
    history
        JSON file with the duration of each step, in seconds by title.
    interval
        Minimum seconds between two lines of one step.
    transient
        Receives the lines inside a step instead of ``write``, for terminals that show the latest in place.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        *,
        history: Path | None = None,
        interval: float = 5.0,
        transient: Callable[[str], None] | None = None,
    ) -> None:
        self._write = write
        self._detail = transient or write
        self._history = history
        self._interval = interval

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Open a step."""
        step = _LineStep(self._detail, self._expected(title), self._interval)
        self._write(f"▸ {title}")
        try:
            yield step
        except BaseException:
            self._write(f"✗ {title} failed after {duration(step.elapsed)}")
            raise
        outcome = f": {step.outcome}" if step.outcome else ""
        self._write(f"✓ {title}{outcome} ({duration(step.elapsed)})")
        self._remember(title, step.elapsed)

    def _expected(self, title: str) -> float | None:
        value = self._read().get(title)
        return float(value) if isinstance(value, int | float) and 0 <= value < _LONGEST else None

    def _read(self) -> dict[str, object]:
        if self._history is None:
            return {}
        try:
            document = json.loads(self._history.read_text())
        except (OSError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}

    def _remember(self, title: str, seconds: float) -> None:
        if self._history is None:
            return
        self._history.parent.mkdir(parents=True, exist_ok=True)
        self._history.write_text(json.dumps({**self._read(), title: round(seconds, 1)}))


class SilentProgress:
    """No-op progress."""

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Open a step."""
        yield _LineStep(lambda _: None, None, float("inf"))


class _LineStep:
    def __init__(self, write: Callable[[str], None], expected: float | None, interval: float) -> None:
        self._write = write
        self._expected = expected
        self._interval = interval
        self._started = self._last = time.monotonic()
        self.outcome = ""

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._started

    def update(self, detail: str, *, fraction: float | None = None) -> None:
        now = time.monotonic()
        if now - self._last < self._interval:
            return
        self._last = now
        left = None
        if fraction is not None and fraction > 0.02:
            left = self.elapsed * (1 - fraction) / fraction
        elif self._expected is not None:
            left = max(0.0, self._expected - self.elapsed)
        percent = f"{fraction:.0%} " if fraction is not None else ""
        remaining = f", about {duration(left)} left" if left is not None and left >= 1 else ""
        self._write(f"    {percent}{detail} ({duration(self.elapsed)}{remaining})")

    def done(self, outcome: str) -> None:
        self.outcome = outcome


def duration(seconds: float) -> str:
    """Format a duration: 3 s, 2 min 05 s."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"
