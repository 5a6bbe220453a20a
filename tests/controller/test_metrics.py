from __future__ import annotations

from trainyard.controller.metrics import Blocked, Metrics


def test_blocked_train_jobs_are_counted_by_reason_with_the_age_of_the_oldest() -> None:
    metrics = Metrics()
    blocked: dict[str, tuple[int, float]] = {"PolicyDenied": (2, 40.0)}
    now = 100.0

    def provide() -> Blocked:
        return blocked

    metrics.watch_blocked(provide, clock=lambda: now)

    def sample(name: str, reason: str) -> float | None:
        return metrics.registry.get_sample_value(name, {"reason": reason})

    assert sample("trainyard_blocked_trainjobs", "PolicyDenied") == 2
    assert sample("trainyard_blocked_trainjob_oldest_seconds", "PolicyDenied") == 60
    now = 130.0
    assert sample("trainyard_blocked_trainjob_oldest_seconds", "PolicyDenied") == 90
    blocked = {"RuntimeNotFound": (1, 131.0)}
    assert sample("trainyard_blocked_trainjobs", "PolicyDenied") is None
    assert sample("trainyard_blocked_trainjobs", "RuntimeNotFound") == 1
    assert sample("trainyard_blocked_trainjob_oldest_seconds", "RuntimeNotFound") == 0
    assert b'trainyard_blocked_trainjobs{reason="RuntimeNotFound"} 1.0' in metrics.text()
