"""Suspending works whatever became of what the job was made from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.faults.bench import RefusedError
from tests.faults.conftest import Replica, exhaustive
from tests.faults.proxy import on
from tests.faults.scene import Scene, poked_and_quiet, runtime
from tests.support import awaited
from trainyard.api.constants import PLATFORM_NAME, TOPOLOGY_FEATURE
from trainyard.kube.kinds import CONFIG_MAPS, PRIORITY_CLASSES
from trainyard.kube.resource import Resource
from trainyard.kube.training_kinds import JOB_SETS, PLATFORMS, POD_GROUPS, TRAINING_RUNTIMES

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("shared")]
NOTES = "faults.trainyard.dev/rendered-by"


def snapshot_edited(scene: Scene) -> None:
    """Another image in the ConfigMap that the job is rendered from."""
    body = scene.find(CONFIG_MAPS, "job-runtime-snapshot")
    assert body is not None
    data = {key: text.replace("image:1", "image:2") for key, text in body["data"].items()}
    assert data != body["data"]
    scene.api.patch(CONFIG_MAPS, "job-runtime-snapshot", scene.namespace, {"data": data})


def snapshot_unreadable(scene: Scene) -> None:
    body = scene.find(CONFIG_MAPS, "job-runtime-snapshot")
    assert body is not None
    data = dict.fromkeys(body["data"], "{[not: yaml")
    scene.api.patch(CONFIG_MAPS, "job-runtime-snapshot", scene.namespace, {"data": data})


def snapshot_and_runtime_deleted(scene: Scene) -> None:
    scene.api.delete(CONFIG_MAPS, "job-runtime-snapshot", scene.namespace)
    scene.api.delete(TRAINING_RUNTIMES, "torch", scene.namespace)


def priority_class_deleted(scene: Scene) -> None:
    scene.api.delete(PRIORITY_CLASSES, scene.namespace)


def pod_group_deleted_and_taken(scene: Scene) -> None:
    """A PodGroup of another owner has the job's name."""
    awaited("the name for another owner", lambda: taken(scene, POD_GROUPS))


def taken(scene: Scene, resource: Resource) -> bool:
    """Delete what has the job's name and take the name, unless the controller is quicker."""
    if scene.find(resource, "job") is not None:
        scene.api.delete(resource, "job", scene.namespace)
    try:
        scene.foreign(resource)
    except RefusedError as error:
        if error.answer.status != 409:
            raise
        return False
    return True


def topology_deleted(scene: Scene) -> None:
    """The fabric no longer has the tier that the job's runtime names."""
    scene.api.patch(PLATFORMS, PLATFORM_NAME, None, {"spec": {"tiers": [{"name": "spine", "tier": 3}]}})


def rendered_by_another_version(scene: Scene) -> None:
    """The stored JobSet has what this version would not write."""
    metadata = {"annotations": {NOTES: "another version"}, "labels": {NOTES: "another"}}
    scene.api.patch(
        JOB_SETS, "job", scene.namespace, {"metadata": metadata, "spec": {"network": {"enableDNSHostnames": True}}}
    )


FAULTS: dict[str, Callable[[Scene], None]] = {
    each.__name__: each
    for each in (
        snapshot_edited,
        snapshot_unreadable,
        snapshot_and_runtime_deleted,
        priority_class_deleted,
        pod_group_deleted_and_taken,
        topology_deleted,
        rendered_by_another_version,
    )
}


@pytest.fixture
def fabric(scene: Scene) -> Iterator[None]:
    """A Platform whose fabric has racks."""
    kind = {"apiVersion": PLATFORMS.api_version, "kind": PLATFORMS.kind}
    spec = {"schedulerFeatures": [TOPOLOGY_FEATURE], "tiers": [{"name": "rack", "tier": 1}]}
    scene.api.create(PLATFORMS, {**kind, "metadata": {"name": PLATFORM_NAME}, "spec": spec})
    yield
    scene.api.delete(PLATFORMS, PLATFORM_NAME)


@pytest.mark.parametrize("gang", [True, pytest.param(False, marks=exhaustive)], ids=["gang", "plain"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_running_job_stops_whatever_became_of_what_it_was_made_from(
    scene: Scene, shared: Replica, request: pytest.FixtureRequest, fault: str, gang: bool
) -> None:
    pod = {}
    if fault == "priority_class_deleted":
        scene.api.create(
            PRIORITY_CLASSES,
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": scene.namespace},
                "value": 1,
            },
        )
        pod = {"priorityClassName": scene.namespace}
    body = runtime(gang=gang, **pod)
    if fault == "topology_deleted":
        if not gang:
            pytest.skip("only a gang has a topology")
        request.getfixturevalue("fabric")
        body["spec"]["podGroupPolicy"] = {"volcano": {"networkTopology": {"mode": "hard", "highestTierName": "rack"}}}
    scene.create(TRAINING_RUNTIMES, body)
    scene.running()
    FAULTS[fault](scene)
    since = len(shared.proxy.calls)
    scene.change(suspend=True)
    # JobSet's webhook refuses every change of a running JobSet but this.
    scene.suspended()
    scene.condition("Suspended", timeout=10)
    applied = [
        call
        for call in shared.proxy.writes(since=since)
        if call.plural == "jobsets" and call.namespace == scene.namespace
    ]
    assert [list(call.body["spec"]) for call in applied] == [["suspend"]], list(map(str, applied))
    assert all(call.body["metadata"].get("uid") for call in applied)
    if fault == "topology_deleted":
        scene.change(suspend=False)
        scene.awaited_event('the fabric has no tier "rack"')
        assert scene.job_set()["spec"]["suspend"]


def test_stopping_is_the_first_thing_that_is_written(scene: Scene, shared: Replica) -> None:
    scene.runtime(gang=True)
    scene.running()
    since = len(shared.proxy.calls)
    scene.change(suspend=True)
    scene.suspended()
    first = next(call for call in shared.proxy.writes(since=since) if call.namespace == scene.namespace)
    assert (first.plural, first.target) == ("jobsets", "job")
    assert first.body["spec"] == {"suspend": True}
    poked_and_quiet(scene, shared.proxy)


def test_a_job_stops_while_everything_but_jobset_is_refused(scene: Scene, shared: Replica) -> None:
    scene.runtime(gang=True)
    scene.running()
    others = on(("configmaps", "secrets", "podgroups", "events"), namespace=scene.namespace)
    with shared.proxy.answering(others, 500, "InternalError", "failed calling webhook"):
        scene.change(suspend=True)
        scene.suspended()
        scene.condition("Suspended", timeout=10)


def test_a_job_that_was_stopped_goes_on_though_its_runtime_changed(scene: Scene, shared: Replica) -> None:
    scene.runtime()
    scene.running()
    scene.change(suspend=True)
    before = scene.suspended()
    scene.play(suspended=1)
    changed = json.loads(json.dumps(runtime()["spec"]).replace("image:1", "image:2"))
    scene.api.patch(TRAINING_RUNTIMES, "torch", scene.namespace, {"spec": changed})
    scene.change(suspend=False)
    after = scene.suspended(value=False)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert "image:1" in json.dumps(after["spec"])
    scene.play("job", "Completed")
    scene.condition("Complete")
    poked_and_quiet(scene, shared.proxy)


def test_a_stopped_job_whose_frozen_part_changed_is_remade_with_the_reason_recorded(scene: Scene) -> None:
    scene.runtime()
    scene.running()
    scene.change(suspend=True)
    before = scene.suspended()
    scene.play(suspended=1)
    snapshot_edited(scene)
    scene.change(suspend=False)
    scene.job_set(probe=lambda body: body["metadata"]["uid"] != before["metadata"]["uid"])
    after = scene.suspended(value=False)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert "image:2" in json.dumps(after["spec"])
    scene.play("job", "Completed")
    scene.condition("Complete")


def test_a_stopped_job_with_active_pods_resumes_as_it_is_and_says_so(scene: Scene) -> None:
    scene.runtime()
    scene.running()
    scene.change(suspend=True)
    before = scene.suspended()
    snapshot_edited(scene)
    scene.change(suspend=False)
    after = scene.suspended(value=False)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert "image:1" in json.dumps(after["spec"])
    scene.awaited_event("the JobSet resumes unchanged: ")
    assert "immutable fields, and node still has running pods" in scene.events()


def test_suspend_and_resume_in_a_hurry_end_as_the_last_change_asks(scene: Scene, shared: Replica) -> None:
    scene.runtime(gang=True)
    scene.running()
    for number in range(12):
        scene.change(suspend=number % 2 == 0)
    scene.change(suspend=True)
    scene.suspended()
    scene.condition("Suspended", timeout=20)
    scene.play()
    scene.change(suspend=False)
    scene.suspended(value=False)
    poked_and_quiet(scene, shared.proxy)
