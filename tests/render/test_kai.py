"""KAI: scheduler and queue of the pods; the PodGroup is made by KAI's own grouper."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.builders import (
    initializer,
    objects,
    only,
    patch,
    pods,
    replicated_job,
    runtime,
    train_job,
    trainer,
    verdict,
)
from trainyard.api import TrainJob

QUEUE = "kai.scheduler/queue"
LEAST = "kai.scheduler/batch-min-member"
WAIT = [{"name": "dataset-initializer", "status": "Complete"}]


def gang(*jobs: Any, queue: str | None = "research", torch: Any = None, **spec: Any) -> Any:
    policy = {"queue": queue} if queue else {}
    return runtime(*(jobs or (trainer(),)), mlPolicy={"torch": torch or {}}, podGroupPolicy={"kai": policy}, **spec)


def labelled(queue: str | None) -> TrainJob:
    body = {**train_job().body(), "metadata": {"name": "job", "namespace": "team", "labels": {QUEUE: queue}}}
    return TrainJob.from_body(body) if queue else train_job()


def test_pods_name_scheduler_and_queue_and_no_pod_group_is_made() -> None:
    rendered = objects(train_job(), gang(initializer(), trainer()))
    assert "PodGroup" not in rendered
    for template in pods(train_job(), gang(initializer(), trainer())).values():
        assert template["spec"]["schedulerName"] == "kai-scheduler"
        assert template["metadata"]["labels"] == {QUEUE: "research"}
    assert "annotations" not in rendered["JobSet"]["metadata"]


@pytest.mark.parametrize(
    ("patched", "own", "pod", "policy", "queue"),
    [
        (None, None, None, "policy", "policy"),
        (None, None, "pod", "policy", "pod"),
        (None, "job", "pod", "policy", "job"),
        ("patch", "job", "pod", "policy", "patch"),
        (None, None, None, None, None),
    ],
)
def test_the_queue_is_the_job_sets_then_the_train_jobs_then_the_pods_then_the_policys(
    patched: str | None, own: str | None, pod: str | None, policy: str | None, queue: str | None
) -> None:
    of = gang(trainer(pod_metadata={"labels": {QUEUE: pod}} if pod else None), queue=policy)
    job = labelled(own)
    if patched:
        spec = {**job.body()["spec"], "runtimePatches": [patch(metadata={"labels": {QUEUE: patched}})]}
        job = TrainJob.from_body({**job.body(), "spec": spec})
    template = pods(job, of)["node"]
    assert template.get("metadata", {}).get("labels", {}).get(QUEUE) == queue


def test_without_a_queue_the_default_of_kai_is_reported() -> None:
    assert "default-queue" in only(verdict(train_job(), gang(queue=None)).warnings).message


def test_pods_in_different_queues_are_warned_about() -> None:
    other = replicated_job("log", pod_metadata={"labels": {QUEUE: "other"}})
    assert "other, research" in only(verdict(train_job(), gang(trainer(), other)).warnings).message


@pytest.mark.parametrize("queue", ["Upper", "a/b", "-a", "a_b"])
def test_a_queue_that_cannot_be_is_refused(queue: str) -> None:
    assert "is not a KAI queue name" in only(verdict(train_job(), gang(queue=queue)).errors).message


def test_jobs_that_wait_for_each_other_need_not_all_be_there() -> None:
    of = gang(initializer(), trainer(dependsOn=WAIT))
    assert objects(train_job(), of)["JobSet"]["metadata"]["annotations"] == {LEAST: "1"}
    assert "not all of them together" in only(verdict(train_job(), of).warnings).message
    named = gang(initializer(), trainer(dependsOn=WAIT), template={"metadata": {"annotations": {LEAST: "2"}}})
    assert objects(train_job(), named)["JobSet"]["metadata"]["annotations"] == {LEAST: "2"}


def test_an_elastic_job_starts_with_its_least_pods() -> None:
    of = gang(torch={"elasticPolicy": {"minNodes": 2, "maxNodes": 8}})
    job = objects(train_job(), of)["JobSet"]["spec"]["replicatedJobs"][0]
    assert job["template"]["metadata"]["annotations"] == {LEAST: "2"}


def test_a_placement_in_no_topology_is_refused() -> None:
    level = "kai.scheduler/topology-required-placement"
    alone = gang(template={"metadata": {"annotations": {level: "rack"}}})
    assert only(verdict(train_job(), alone).errors).path == f"spec.annotations[{level}]"
    both = gang(template={"metadata": {"annotations": {level: "rack", "kai.scheduler/topology": "fabric"}}})
    assert verdict(train_job(), both).allowed
    of_step = trainer()
    of_step["template"]["metadata"]["annotations"] = {level: "rack"}
    assert only(verdict(train_job(), gang(of_step)).errors).path == f"spec.runtimeRef[{level}]"


def test_another_scheduler_stays_and_is_warned_about() -> None:
    of = gang(trainer(pod={"schedulerName": "kai-2"}))
    assert pods(train_job(), of)["node"]["spec"]["schedulerName"] == "kai-2"
    assert "kai-2" in only(verdict(train_job(), of).warnings).message
