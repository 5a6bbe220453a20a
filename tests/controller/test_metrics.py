from __future__ import annotations

from trainyard.controller.metrics import Blocked, Metrics
from trainyard.kube.client import Client
from trainyard.kube.credentials import Connection
from trainyard.kube.event_recorder import EventRecorder
from trainyard.kube.informer import Informer
from trainyard.kube.training_kinds import TRAIN_JOBS


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


async def test_events_that_are_not_written_and_errors_of_informers_are_counted() -> None:
    client = Client(Connection("http://127.0.0.1:1"))
    recorder, informer = EventRecorder(client, component="test"), Informer(client, TRAIN_JOBS)
    metrics = Metrics()
    metrics.watch_events(recorder)
    metrics.watch_informers([informer])
    recorder.dropped, recorder.limited, informer.errors = 3, 2, 1
    value = metrics.registry.get_sample_value
    assert value("trainyard_events_not_written_total", {"reason": "dropped"}) == 3
    assert value("trainyard_events_not_written_total", {"reason": "limited"}) == 2
    assert value("trainyard_informer_errors_total", {"resource": str(TRAIN_JOBS)}) == 1
    await client.close()
