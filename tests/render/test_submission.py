"""Updates that are read from files get the verdict of the webhook: what needs no rendering depends on no runtime."""

from __future__ import annotations

import pytest

from tests.render.builders import runtime, train_job, trainer
from trainyard.api import Body, Runtime, TrainJob
from trainyard.checks.finding import Finding
from trainyard.jobs.render.result import RenderContext
from trainyard.jobs.render.submission import SentRuntime, Submission, read_runtime, submitted

VALID, INVALID = runtime(trainer()), runtime(trainer(replicas=2))


def document(of: TrainJob | Runtime, **metadata: object) -> Body:
    body = of.body()
    return {"apiVersion": of.api_version, "kind": of.kind, **body, "metadata": {**body["metadata"], **metadata}}


def sent(job: Body, of: Runtime, before: Submission[SentRuntime] | None = None) -> Submission[SentRuntime]:
    found = read_runtime(document(of))
    return submitted(
        job,
        lambda kind, name: found,
        lambda broken: [Finding("spec.runtimeRef", "broken")],
        RenderContext(),
        before=before,
    )


@pytest.mark.parametrize(
    ("changed", "allowed"),
    [
        (document(train_job(), labels={"a": "b"}), True),
        (document(train_job(suspend=True)), True),
        (document(train_job(suspend=True), labels={"kueue.x-k8s.io/queue-name": "q"}), False),
        (document(train_job(labels={"a": "b"})), False),
    ],
    ids=["metadata", "suspend", "queue", "spec"],
)
def test_an_update_that_needs_no_rendering_is_accepted_on_an_invalid_runtime(changed: Body, allowed: bool) -> None:
    stored = sent(document(train_job()), VALID)
    assert stored.objects
    update = sent(changed, INVALID, stored)
    assert (update.errors == ()) is allowed
    assert update.objects == ()
    assert sent(changed, VALID, stored).objects


def test_a_suspended_job_is_not_resumed_on_an_invalid_runtime() -> None:
    stored = sent(document(train_job(suspend=True)), VALID)
    assert [error.message for error in sent(document(train_job()), INVALID, stored).errors] == ["broken"]
    assert TrainJob.from_body(stored.body).spec == train_job(suspend=True).spec
