"""Jobs of a scenario whose pods a controller creates: the objects, with what the scheduler reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.simulate.fake_world import scenario
from trainyard.local.simulate.controlled_jobs import controlled_job

QUEUE = "scheduling.volcano.sh/queue-name"
GROUPS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-min-member")


def body(folder: Path, **settings: Any) -> dict[str, Any]:
    loaded = scenario(
        folder,
        queues={"vision": {}},
        priorityClasses={"urgent": {"value": 7}},
        jobs={"one": {"queue": "vision", "perPod": {"cpu": "2"}, "priorityClass": "urgent", **settings}},
    )
    resource, made = controlled_job(loaded.jobs["one"], "one-x")
    assert (made["apiVersion"], made["kind"]) == (resource.api_version, resource.kind)
    assert made["metadata"] == {"name": "one-x", "namespace": "default"}
    return made


def test_a_job_leaves_its_group_to_the_controller_of_volcano(tmp_path: Path) -> None:
    made = body(tmp_path, kind="job", pods=3)
    assert (made["apiVersion"], made["spec"]["parallelism"], made["spec"]["completions"]) == ("batch/v1", 3, 3)
    template = made["spec"]["template"]
    assert template["metadata"]["annotations"][QUEUE] == "vision"
    assert not set(GROUPS) & template["metadata"]["annotations"].keys()
    assert (template["spec"]["schedulerName"], template["spec"]["priorityClassName"]) == ("volcano", "urgent")


@pytest.mark.parametrize(("written", "least"), [({}, 3), ({"minMember": 1}, 1)])
def test_a_volcano_job_starts_with_min_available_of_its_replicas(
    tmp_path: Path, written: dict[str, int], least: int
) -> None:
    made = body(tmp_path, kind="vcjob", pods=3, **written)
    assert made["apiVersion"] == "batch.volcano.sh/v1alpha1"
    spec = made["spec"]
    assert (spec["minAvailable"], spec["queue"], spec["priorityClassName"]) == (least, "vision", "urgent")
    (task,) = spec["tasks"]
    assert task["replicas"] == 3
    assert task["template"]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}
