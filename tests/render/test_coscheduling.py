"""Coscheduling: the PodGroup of scheduler-plugins, and which pods are labelled with it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.builders import (
    container,
    initializer,
    objects,
    only,
    pods,
    replicated_job,
    runtime,
    train_job,
    trainer,
    verdict,
)

LABEL = "scheduling.x-k8s.io/pod-group"


def gang(*jobs: Any, **policy: Any) -> Any:
    return runtime(
        *(jobs or (trainer(),)),
        mlPolicy={"torch": {}},
        podGroupPolicy={"coscheduling": {"scheduleTimeoutSeconds": 60, **policy}},
    )


def test_the_pod_group_has_members_resources_and_timeout() -> None:
    resources = {"requests": {"cpu": "500m"}, "limits": {"nvidia.com/gpu": 8}}
    of = gang(trainer(containers=[container(resources=resources)]), scheduleTimeoutSeconds=300)
    group = objects(train_job(uid="1", trainer={"numNodes": 3}), of)["PodGroup"]
    assert (group["apiVersion"], group["kind"]) == ("scheduling.x-k8s.io/v1alpha1", "PodGroup")
    assert (group["metadata"]["name"], group["metadata"]["namespace"]) == ("job", "team")
    assert group["metadata"]["ownerReferences"][0]["uid"] == "1"
    assert group["spec"] == {
        "minMember": 3,
        "minResources": {"cpu": "1500m", "nvidia.com/gpu": "24"},
        "scheduleTimeoutSeconds": 300,
    }


def test_a_step_that_must_complete_first_is_no_member() -> None:
    wait = [{"name": "dataset-initializer", "status": "Complete"}]
    of = gang(initializer(pod_metadata={"labels": {LABEL: "stray"}}), trainer(dependsOn=wait))
    templates = pods(train_job(trainer={"numNodes": 2}), of)
    assert templates["node"]["metadata"]["labels"] == {LABEL: "job"}
    assert templates["dataset-initializer"]["metadata"]["labels"] == {}
    assert objects(train_job(trainer={"numNodes": 2}), of)["PodGroup"]["spec"]["minMember"] == 2


@pytest.mark.parametrize(
    ("named", "context", "scheduler"),
    [
        (None, {}, None),
        (None, {"coscheduling_scheduler": "scheduler-plugins-scheduler"}, "scheduler-plugins-scheduler"),
        ("mine", {}, "mine"),
        ("mine", {"coscheduling_scheduler": "scheduler-plugins-scheduler"}, "mine"),
    ],
)
def test_pods_name_a_scheduler_only_where_the_runtime_or_the_configuration_does(
    named: str | None, context: dict[str, str], scheduler: str | None
) -> None:
    of = gang(trainer(pod={"schedulerName": named} if named else {}))
    assert pods(train_job(), of, **context)["node"]["spec"].get("schedulerName") == scheduler
    assert not verdict(train_job(), of, **context).warnings


def test_a_gang_split_between_schedulers_is_warned_about() -> None:
    of = gang(trainer(), replicated_job("log", pod={"schedulerName": "other"}))
    assert "default-scheduler, other" in only(verdict(train_job(), of).warnings).message
