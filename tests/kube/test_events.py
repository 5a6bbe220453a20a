from __future__ import annotations

import asyncio
import datetime

from tests.kube.fake_api import FakeApi, error
from trainyard.kube import EventRecorder

JOB = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "job", "namespace": "team", "uid": "u1", "resourceVersion": "4"},
}


class Clock:
    def __init__(self) -> None:
        self.now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

    def __call__(self) -> datetime.datetime:
        return self.now


async def write(api: FakeApi, *steps: object) -> None:
    clock = Clock()
    async with api.client() as client:
        recorder = EventRecorder(client, component="trainjob_controller", host="h", clock=clock)
        task = asyncio.create_task(recorder.run())
        for step in steps:
            if isinstance(step, datetime.timedelta):
                clock.now += step
            elif callable(step):
                step()
            else:
                recorder.warning(JOB, "Reason", str(step))
            await recorder.flush()
        task.cancel()


async def test_an_event_is_visible_to_clients_that_need_a_first_timestamp(api: FakeApi) -> None:
    await write(api, "what happened")
    [event] = api.of("events")
    assert event["apiVersion"] == "v1"
    assert event["metadata"]["namespace"] == "team"
    assert event["involvedObject"] == {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "name": "job",
        "namespace": "team",
        "uid": "u1",
        "resourceVersion": "4",
    }
    assert (event["type"], event["reason"], event["message"], event["count"]) == (
        "Warning",
        "Reason",
        "what happened",
        1,
    )
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-01T00:00:00Z"


async def test_a_repeated_event_is_counted(api: FakeApi) -> None:
    await write(api, "again", datetime.timedelta(seconds=5), "again", "again", "another")
    first, second = sorted(api.of("events"), key=lambda event: event["message"])
    assert (first["message"], first["count"], first["lastTimestamp"]) == ("again", 3, "2026-01-01T00:00:05Z")
    assert first["firstTimestamp"] == "2026-01-01T00:00:00Z"
    assert (second["message"], second["count"]) == ("another", 1)


async def test_an_event_the_server_forgot_is_written_again(api: FakeApi) -> None:
    await write(api, "again", api.objects.clear, "again", datetime.timedelta(hours=2), "again")
    assert sorted(event["count"] for event in api.of("events")) == [1, 2]


async def test_a_refused_event_is_given_up(api: FakeApi) -> None:
    api.fault = lambda fake, request: error(403, "Forbidden", "no")
    await write(api, "lost")
    assert api.of("events") == []
