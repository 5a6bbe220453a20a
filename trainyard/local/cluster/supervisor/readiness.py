"""Readiness of one container, by the rules of a kubelet's readiness probe."""

from __future__ import annotations


class Readiness:
    """Readiness of a container from the results of its probes.

    A container becomes ready with the first success, and unready after several consecutive failures, so that one slow
    response of a busy program does not remove a replica. Until it is ready it is probed in every reconciliation, so
    that starts are fast.
    """

    def __init__(self) -> None:
        self.ready = False
        self._probed_at = 0.0
        self._failures = 0

    def due(self, now: float, period: float) -> bool:
        """Return whether the next probe is due.

        Parameters
        ----------
        now
            Monotonic time in seconds.
        period
            Seconds between two probes of a ready container.
        """
        return not self.ready or now - self._probed_at >= period

    def observe(self, now: float, *, answered: bool, failures: int) -> None:
        """Record the result of a probe.

        Parameters
        ----------
        answered
            Whether the probe succeeded.
        failures
            Consecutive failures after which the container is unready.
        """
        self._probed_at = now
        self._failures = 0 if answered else self._failures + 1
        self.ready = answered or (self.ready and self._failures < failures)

    def reset(self) -> None:
        """Reset: the process does not run."""
        self.ready, self._failures = False, 0
