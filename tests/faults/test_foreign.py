"""Objects of another owner with the name of a job's own: never taken over, never in the way of stopping."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faults.conftest import Replica
from tests.faults.history import conditions
from tests.faults.scene import Scene, foreign_content, poked_and_quiet, shipped
from tests.support import awaited
from trainyard.kube.kinds import CONFIG_MAPS, SECRETS
from trainyard.kube.resource import Resource
from trainyard.kube.training_kinds import JOB_SETS, POD_GROUPS, TRAIN_JOBS, TRAINING_RUNTIMES

pytestmark = pytest.mark.cluster
LABEL = "trainyard.dev/train-job"
CHILDREN = {
    "JobSet": (JOB_SETS, "job"),
    "PodGroup": (POD_GROUPS, "job"),
    "snapshot": (CONFIG_MAPS, "job-runtime-snapshot"),
    "host file": (CONFIG_MAPS, "job-mpi-hostfile"),
    "keys": (SECRETS, "job-mpi-ssh-auth"),
}


def mpi(scene: Scene) -> None:
    """The shipped runtime with every kind of child, as a runtime of the namespace named torch."""
    body = shipped("mpi-openmpi")
    scene.create(TRAINING_RUNTIMES, {"metadata": {"name": "torch"}, "spec": body["spec"]})


def untouched(scene: Scene, resource: Resource, before: dict[str, Any]) -> None:
    assert scene.find(resource, before["metadata"]["name"]) == before


@pytest.mark.parametrize("child", CHILDREN)
def test_an_object_that_was_there_before_is_left_alone_and_named(scene: Scene, shared: Replica, child: str) -> None:
    resource, name = CHILDREN[child]
    before = scene.foreign(resource, name)
    mpi(scene)
    scene.submit()
    scene.awaited_event({"snapshot": "snapshot"}.get(child, f"{resource.kind} {name}"))
    untouched(scene, resource, before)
    poked_and_quiet(scene, shared.proxy)
    untouched(scene, resource, before)
    assert child == "JobSet" or scene.find(JOB_SETS, "job") is None


@pytest.mark.parametrize("child", ["JobSet", "PodGroup"])
def test_an_object_that_no_watch_has_delivered_yet_is_left_alone(scene: Scene, shared: Replica, child: str) -> None:
    resource, name = CHILDREN[child]
    scene.runtime(gang=True)
    with shared.proxy.paused_watches("jobsets", "podgroups"):
        before = scene.foreign(resource, name)
        scene.submit()
        scene.awaited_event(f"{resource.kind} {name}")
        untouched(scene, resource, before)
    poked_and_quiet(scene, shared.proxy)
    untouched(scene, resource, before)


@pytest.mark.settles_slowly
@pytest.mark.parametrize("child", ["JobSet", "PodGroup"])
def test_an_object_that_only_claims_to_be_ours_is_left_alone(scene: Scene, shared: Replica, child: str) -> None:
    """It has the label, and an owner reference to a TrainJob of the name that is not this one."""
    resource, name = CHILDREN[child]
    owner = {"apiVersion": TRAIN_JOBS.api_version, "kind": "TrainJob", "name": "job", "controller": True}
    another = scene.create(CONFIG_MAPS, {"metadata": {"name": "another"}})["metadata"]["uid"]
    metadata = {
        "name": name,
        "labels": {LABEL: "job"},
        "ownerReferences": [{**owner, "uid": another}],
    }
    scene.runtime(gang=True)
    # The garbage collector knows that this owner does not exist, and may remove the object at any time.
    scene.create(resource, {**foreign_content(resource), "metadata": metadata})
    body = scene.find(resource, name)
    scene.submit()
    job_uid = (scene.job() or {})["metadata"]["uid"]
    if body is not None:
        awaited(
            "the object's end or an Event about it",
            lambda: scene.find(resource, name) != body or f"{resource.kind} {name}" in scene.events(),
        )
    scene.job_set(probe=lambda found: found["metadata"]["ownerReferences"][0]["uid"] == job_uid, timeout=70)


def test_a_running_job_keeps_its_jobset_when_the_owner_reference_is_taken_away(scene: Scene, shared: Replica) -> None:
    """A user orphaned it: it is foreign now, is not changed, and the job does not run a second time."""
    scene.runtime()
    scene.running()
    scene.api.patch(JOB_SETS, "job", scene.namespace, {"metadata": {"ownerReferences": None}})
    before = scene.job_set()
    poked_and_quiet(scene, shared.proxy)
    assert scene.job_set()["metadata"]["uid"] == before["metadata"]["uid"]
    assert len(scene.history.uids("JobSet", "job")) == 1


def test_a_foreign_podgroup_is_not_deleted_when_the_job_ends(scene: Scene, shared: Replica) -> None:
    scene.runtime()
    before = scene.foreign(POD_GROUPS)
    scene.running()
    scene.play(outcome="Completed")
    scene.condition("Complete")
    poked_and_quiet(scene, shared.proxy)
    untouched(scene, POD_GROUPS, before)


def test_a_foreign_jobset_is_not_deleted_with_a_deadline(scene: Scene, shared: Replica) -> None:
    scene.runtime()
    before = scene.foreign(JOB_SETS)
    scene.submit(activeDeadlineSeconds=2)
    scene.condition("Failed", reason="DeadlineExceeded")
    poked_and_quiet(scene, shared.proxy)
    untouched(scene, JOB_SETS, before)


def test_the_end_of_a_foreign_jobset_is_not_the_jobs(scene: Scene, shared: Replica) -> None:
    scene.runtime()
    scene.foreign(JOB_SETS)
    scene.submit()
    scene.awaited_event("JobSet job")
    scene.play(outcome="Completed")
    poked_and_quiet(scene, shared.proxy)
    assert set(conditions(scene.job())) == {"Blocked"}
    assert "jobsStatus" not in ((scene.job() or {}).get("status") or {})


@pytest.mark.settles_slowly
def test_keys_of_an_earlier_job_are_not_used(scene: Scene, shared: Replica) -> None:
    """The Secret of a deleted TrainJob of the name still exists, held by a finalizer."""
    mpi(scene)
    scene.submit()
    scene.job_set()
    scene.api.patch(SECRETS, "job-mpi-ssh-auth", scene.namespace, {"metadata": {"finalizers": ["example.com/slow"]}})
    old = scene.find(SECRETS, "job-mpi-ssh-auth")
    assert old is not None
    scene.api.delete(TRAIN_JOBS, "job", scene.namespace)
    awaited("the end of the JobSet", lambda: scene.find(JOB_SETS, "job") is None)
    scene.submit()
    scene.awaited_event("job-mpi-ssh-auth")
    assert scene.find(JOB_SETS, "job") is None
    scene.api.patch(SECRETS, "job-mpi-ssh-auth", scene.namespace, {"metadata": {"finalizers": None}})
    scene.job_set(timeout=70)
    new = scene.find(SECRETS, "job-mpi-ssh-auth")
    assert new is not None
    assert new["data"] != old["data"]
