"""What is removed from a suspended TrainJob is not on its pods when it resumes: JobSet would keep it on its Jobs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controller.harness import JOB_SETS, TRAIN_JOBS, change, settled, submit
from tests.kube.fake_api import FakeApi
from tests.render.builders import patch, pod_patch
from trainyard.controller.job_sets import as_created, resume_patch
from trainyard.controller.removed_parts import RENDERED_PARTS, lacks_parts

OWNER = {"metadata": {"name": "job"}}
SUSPENDED = {
    "type": "Suspended",
    "status": "True",
    "reason": "SuspendedJobs",
    "message": "jobset is suspended",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
TOLERATION = {"key": "gpu", "operator": "Exists"}


def patches(**spec: Any) -> list[dict[str, Any]]:
    return [patch(pod_patch(**spec))]


def rendered(metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    template = {"metadata": metadata or {}, "spec": spec}
    jobs = [{"name": "node", "template": {"spec": {"template": template}}}]
    return {"kind": "JobSet", "metadata": {"name": "job"}, "spec": {"replicatedJobs": jobs}}


@pytest.mark.parametrize(
    ("before", "after", "lacks"),
    [
        ({"nodeSelector": {"rack": "1"}}, {}, True),
        ({"nodeSelector": {"rack": "1", "a": "b"}}, {"nodeSelector": {"a": "b"}}, True),
        ({"tolerations": [TOLERATION]}, {"tolerations": [{**TOLERATION, "effect": "NoSchedule"}]}, True),
        ({"schedulingGates": [{"name": "wait"}]}, {}, True),
        ({"metadata": {"labels": {"a": "1"}}}, {}, True),
        ({"metadata": {"annotations": {"a": "1"}}}, {"metadata": {"labels": {"a": "1"}}}, True),
        ({"nodeSelector": {"rack": "1"}}, {"nodeSelector": {"rack": "2"}}, False),
        ({}, {"nodeSelector": {"rack": "1"}, "tolerations": [TOLERATION]}, False),
        ({"tolerations": [TOLERATION]}, {"tolerations": [TOLERATION, {"key": "other"}]}, False),
        ({"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": {"a": "2"}}}, False),
    ],
)
def test_removals_are_distinguished_from_changes(before: dict[str, Any], after: dict[str, Any], lacks: bool) -> None:
    stored = as_created(rendered(**before), OWNER)
    stored["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    assert lacks_parts(rendered(**after), stored) is lacks
    annotations = resume_patch(rendered(**after), stored, OWNER, changes=True)["metadata"].get("annotations", {})
    assert (RENDERED_PARTS in annotations) is not lacks


def test_what_a_webhook_added_was_not_rendered() -> None:
    stored = as_created(rendered(nodeSelector={"a": "b"}), OWNER)
    template = stored["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["spec"] = {"nodeSelector": {"a": "b", "added": "c"}, "tolerations": [TOLERATION]}
    assert not lacks_parts(rendered(nodeSelector={"a": "b"}), stored)
    assert not lacks_parts(rendered(), {**stored, "metadata": {**stored["metadata"], "annotations": {}}})


async def test_a_job_set_is_recreated_if_a_node_selector_was_removed(api: FakeApi) -> None:
    submit(api, gang=False, suspend=True, runtimePatches=patches(nodeSelector={"rack": "1"}))
    async with settled(api) as process:
        first = api.of("jobsets")[0]["metadata"]["uid"]
        change(api, JOB_SETS, "jobsets", "job", status={"conditions": [SUSPENDED]})
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"runtimePatches": None})
        await process.settle()
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"suspend": False})
        await process.settle()
        (job_set,) = api.of("jobsets")
        assert job_set["metadata"]["uid"] != first
        assert job_set["spec"]["suspend"] is False
        pod = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        assert "nodeSelector" not in pod
        reasons = [event["message"] for event in api.of("events")]
        assert any("node selectors" in reason for reason in reasons), reasons


async def test_a_job_set_is_kept_if_something_was_added_or_changed(api: FakeApi) -> None:
    submit(api, gang=False, suspend=True, runtimePatches=patches(nodeSelector={"rack": "1"}))
    async with settled(api) as process:
        first = api.of("jobsets")[0]["metadata"]["uid"]
        change(api, JOB_SETS, "jobsets", "job", status={"conditions": [SUSPENDED]})
        added = patches(nodeSelector={"rack": "2", "zone": "a"}, tolerations=[TOLERATION])
        change(api, TRAIN_JOBS, "trainjobs", "job", spec={"runtimePatches": added, "suspend": False})
        await process.settle()
        (job_set,) = api.of("jobsets")
        assert job_set["metadata"]["uid"] == first
        pod = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        assert pod["nodeSelector"] == {"rack": "2", "zone": "a"}
