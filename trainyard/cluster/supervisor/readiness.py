"""Readiness of one container, by the rules of a kubelet's readiness probe."""

from __future__ import annotations

__all__ = ["Readiness"]


class Readiness:
    """Whether a container is ready, from the answers to its probes.

    A container becomes ready with its first good answer, and unready after several bad ones in a row: one slow answer
    of a busy program takes no replica away. Until it is ready it is probed as often as somebody asks, because people
    wait for a start.
    """

    def __init__(self) -> None:
        self.ready = False
        self._probed_at = 0.0
        self._failures = 0

    def due(self, now: float, period: float) -> bool:
        """Tell whether the next probe is due.

        Parameters
        ----------
        now
            Monotonic time in seconds.
        period
            Seconds between two probes of a ready container.
        """
        return not self.ready or now - self._probed_at >= period

    def observe(self, now: float, *, answered: bool, failures: int) -> None:
        """Take in the answer to a probe.

        Parameters
        ----------
        answered
            Whether the container said that it is ready.
        failures
            Bad answers in a row after which it is not.
        """
        self._probed_at = now
        self._failures = 0 if answered else self._failures + 1
        self.ready = answered or (self.ready and self._failures < failures)

    def reset(self) -> None:
        """Forget everything: the process does not run."""
        self.ready, self._failures = False, 0
