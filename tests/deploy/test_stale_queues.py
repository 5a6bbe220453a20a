"""Retries of an operation: only for a queue whose deleted children Volcano's webhook still has in its cache."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pulumi.automation.errors import CommandError

from tests.deploy.test_events import QUEUE, diagnostic, event
from trainyard.platform.deploy import stale_queues
from trainyard.platform.deploy.engine_events import EventLog
from trainyard.platform.deploy.engine_run import EngineRun

STALE = (
    'admission webhook "validatequeue.volcano.sh" denied the request: queue research can not be deleted because it has '
    "1 child queues: language"
)


class FailingStack:
    """A stack whose removal fails with some messages, one an attempt, and then succeeds."""

    def __init__(self, events: EventLog, messages: Iterator[str]) -> None:
        self._events, self._messages = events, messages
        self.attempts = 0

    def destroy(self, **options: Any) -> None:
        self.attempts += 1
        message = next(self._messages, "")
        changes = {"delete": 2}
        self._events(event(summary_event=SimpleNamespace(resource_changes=changes)))
        if message:
            self._events(event(diagnostic_event=diagnostic(message, QUEUE)))
            self._events(event(res_op_failed_event=SimpleNamespace(metadata=SimpleNamespace(urn=QUEUE))))
            raise CommandError(SimpleNamespace(stdout="", stderr="", code=255))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stale_queues, "_RETRY_SECONDS", 0.0)


def destroyed(*messages: str) -> tuple[FailingStack, EventLog]:
    events = EventLog()
    stack = FailingStack(events, iter(messages))
    run = EngineRun(stack, events, lambda line: None)  # type: ignore[arg-type]
    try:
        stale_queues.retry_stale_queues(run, stack.destroy)
    except CommandError:
        return stack, events
    assert events.findings == []
    return stack, events


def test_a_stale_cache_of_the_webhook_is_retried_and_the_counts_add_up() -> None:
    stack, events = destroyed(STALE, STALE)
    assert (stack.attempts, events.counts) == (3, {"delete": 6})


@pytest.mark.parametrize("messages", [["forbidden"], [STALE, "forbidden"]])
def test_another_failure_is_reported_at_once(messages: list[str]) -> None:
    stack, events = destroyed(*messages, STALE)
    assert stack.attempts == len(messages)
    assert [finding.message for finding in events.findings] == ["forbidden"]


def test_a_queue_that_keeps_its_children_is_reported() -> None:
    stack, events = destroyed(*[STALE] * 10)
    assert (stack.attempts, len(events.findings)) == (stale_queues._ATTEMPTS, 1)
