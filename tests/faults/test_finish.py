"""A job runs once: whatever is deleted, lost or killed, it has one JobSet, and none once it ended."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from tests.faults.conftest import Launch, Replica, exhaustive
from tests.faults.history import conditions
from tests.faults.proxy import on
from tests.faults.scene import Scene, poked_and_quiet, within
from tests.support import awaited
from trainyard.kube.kinds import CONFIG_MAPS
from trainyard.kube.training_kinds import CLUSTER_TRAINING_RUNTIMES, JOB_SETS, POD_GROUPS, TRAIN_JOBS, TRAINING_RUNTIMES

pytestmark = pytest.mark.cluster
FINALIZER = "trainer.kubeflow.org/resource-in-use"


def marked(scene: Scene) -> str:
    """Wait until the JobSet's uid is recorded on the TrainJob, and return it."""
    uid = scene.job_set()["metadata"]["uid"]

    def recorded(body: dict[str, Any]) -> bool:
        status = body.get("status") or {}
        return bool((status.get("jobSet") or {}).get("uid") == uid)

    scene.awaited_job("job", recorded, "the mark")
    return str(uid)


@pytest.mark.parametrize("outcome", ["Completed", "Failed"])
def test_a_job_that_ended_stays_ended_without_its_jobset(scene: Scene, shared: Replica, outcome: str) -> None:
    scene.runtime(gang=True)
    scene.running()
    scene.play(outcome=outcome)
    kind = {"Completed": "Complete"}.get(outcome, outcome)
    before = scene.condition(kind)
    scene.api.delete(JOB_SETS, "job", scene.namespace)
    poked_and_quiet(scene, shared.proxy)
    assert scene.find(JOB_SETS, "job") is None
    assert scene.condition(kind) == before


def test_a_job_whose_jobset_was_deleted_fails_and_does_not_run_twice(scene: Scene, shared: Replica) -> None:
    scene.runtime()
    scene.running()
    scene.api.delete(JOB_SETS, "job", scene.namespace)
    scene.condition("Failed", reason="JobSetMissing")
    poked_and_quiet(scene, shared.proxy)
    assert len(scene.history.uids("JobSet", "job")) == 1


def test_a_suspended_job_whose_jobset_was_deleted_fails_too(scene: Scene, shared: Replica) -> None:
    scene.runtime()
    scene.running()
    scene.change(suspend=True)
    scene.suspended()
    scene.condition("Suspended")
    scene.api.delete(JOB_SETS, "job", scene.namespace)
    scene.condition("Failed", reason="JobSetMissing")
    scene.change(suspend=False)
    poked_and_quiet(scene, shared.proxy)
    assert scene.find(JOB_SETS, "job") is None


def test_a_jobset_deleted_before_any_pod_ran_is_not_made_again(scene: Scene, shared: Replica) -> None:
    scene.runtime()
    scene.submit()
    marked(scene)
    scene.api.delete(JOB_SETS, "job", scene.namespace)
    scene.condition("Failed", reason="JobSetMissing")
    poked_and_quiet(scene, shared.proxy)


def test_a_jobset_deleted_while_the_controller_is_away_is_missed_at_its_return(scene: Scene, launch: Launch) -> None:
    scene.runtime()
    replica = launch()
    scene.running()
    replica.controller.kill()
    scene.api.delete(JOB_SETS, "job", scene.namespace)
    replica.controller.start()
    scene.condition("Failed", reason="JobSetMissing")


def test_a_job_made_without_ttl_gets_it_once_its_end_is_recorded(scene: Scene, shared: Replica) -> None:
    """JobSet's controller deletes by its own clock: before the end is recorded on the TrainJob it must not."""
    scene.runtime(spec_template={"ttlSecondsAfterFinished": 3600})
    scene.running()
    assert "ttlSecondsAfterFinished" not in scene.job_set()["spec"]
    scene.play(outcome="Completed")
    scene.condition("Complete")
    scene.job_set(probe=lambda body: body["spec"].get("ttlSecondsAfterFinished") == 3600)
    versions = scene.history.versions("TrainJob", "job")
    ended = next(int(body["metadata"]["resourceVersion"]) for body in versions if "Complete" in conditions(body))
    scene.history.catch_up()
    for body in scene.history.versions("JobSet", "job"):
        if "ttlSecondsAfterFinished" in body["spec"]:
            assert int(body["metadata"]["resourceVersion"]) > ended
    poked_and_quiet(scene, shared.proxy)


def test_an_end_that_came_while_the_controller_was_away_is_recorded(scene: Scene, launch: Launch) -> None:
    scene.runtime(spec_template={"ttlSecondsAfterFinished": 0})
    replica = launch()
    scene.running()
    replica.controller.kill()
    scene.play(outcome="Completed")
    assert "ttlSecondsAfterFinished" not in scene.job_set()["spec"]
    replica.controller.start()
    scene.condition("Complete")
    scene.job_set(probe=lambda body: body["spec"].get("ttlSecondsAfterFinished") == 0)
    poked_and_quiet(scene, replica.proxy)


def test_the_podgroup_of_a_job_that_ended_is_deleted(scene: Scene, shared: Replica) -> None:
    scene.runtime(gang=True)
    for name, outcome in (("done", "Completed"), ("lost", "Failed")):
        scene.running(name)
        scene.awaited(POD_GROUPS, name)
        scene.play(name, outcome)
        awaited("the end of the PodGroup", lambda name=name: scene.find(POD_GROUPS, name) is None)
    poked_and_quiet(scene, shared.proxy)


@exhaustive
def test_the_podgroup_of_a_job_that_ended_long_ago_is_deleted(scene: Scene, launch: Launch) -> None:
    """An earlier version left it: nothing but the start of this one brings the job up."""
    scene.runtime(gang=True)
    replica = launch()
    scene.running()
    group = scene.awaited(POD_GROUPS, "job")
    replica.controller.kill()
    scene.play(outcome="Completed")
    condition = {"type": "Complete", "status": "True", "reason": "AllJobsCompleted", "message": "played"}
    condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    patch = {"status": {"conditions": [condition]}}
    scene.api.patch(TRAIN_JOBS, "job", scene.namespace, patch, subresource="status")
    scene.api.patch(POD_GROUPS, "job", scene.namespace, {"metadata": {"labels": {"trainyard.dev/train-job": None}}})
    assert group["metadata"]["uid"]
    replica.controller.start()
    awaited("the end of the PodGroup", lambda: scene.find(POD_GROUPS, "job") is None)


def test_a_deadline_that_passed_ends_the_job_and_its_pods(scene: Scene, shared: Replica) -> None:
    scene.runtime(gang=True)
    scene.running(activeDeadlineSeconds=2)
    scene.condition("Failed", reason="DeadlineExceeded")
    awaited("the end of the JobSet", lambda: scene.find(JOB_SETS, "job") is None)
    awaited("the end of the PodGroup", lambda: scene.find(POD_GROUPS, "job") is None)
    poked_and_quiet(scene, shared.proxy)


def test_the_longest_deadline_there_can_be_harms_nothing(scene: Scene, shared: Replica) -> None:
    scene.runtime()
    scene.running(activeDeadlineSeconds=2**63 - 1)
    scene.change(suspend=True)
    scene.suspended()
    scene.condition("Suspended")
    scene.play()
    scene.change(suspend=False)
    scene.suspended(value=False)
    poked_and_quiet(scene, shared.proxy)


def test_the_answer_to_a_create_is_lost_and_there_is_one_jobset(scene: Scene, shared: Replica) -> None:
    scene.runtime(gang=True)
    lost = on(("jobsets", "podgroups", "configmaps"), method="POST", namespace=scene.namespace)
    with shared.proxy.losing_answers(lost, times=3) as fault:
        scene.running()
        assert fault.hits == 3
    poked_and_quiet(scene, shared.proxy)


@pytest.mark.parametrize("resource", [TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIMES], ids=str)
def test_the_finalizer_of_an_older_controller_is_taken_off(scene: Scene, shared: Replica, resource: object) -> None:
    namespaced = resource is TRAINING_RUNTIMES
    chosen = TRAINING_RUNTIMES if namespaced else CLUSTER_TRAINING_RUNTIMES
    where = scene.namespace if namespaced else None
    body = {**scene.runtime("template"), "apiVersion": chosen.api_version, "kind": chosen.kind}
    name = scene.namespace
    metadata = {"name": name, "finalizers": [FINALIZER, "example.com/theirs"]}
    body["metadata"] = metadata | ({"namespace": where} if where else {})
    scene.api.create(chosen, body)
    scene.api.delete(chosen, name, where)
    try:
        awaited(
            "the finalizer's end",
            lambda: (scene.api.get(chosen, name, where) or {})["metadata"].get("finalizers") == ["example.com/theirs"],
            timeout=15,
        )
    finally:
        scene.api.patch(chosen, name, where, {"metadata": {"finalizers": None}})


def test_a_job_deleted_and_applied_again_goes_on_within_a_second_of_the_old_objects(
    scene: Scene, shared: Replica
) -> None:
    """The old JobSet goes only when the test lets it, as one does whose pods take their time."""
    scene.runtime(gang=True)
    scene.running()
    hold = {"metadata": {"finalizers": ["example.com/slow"]}}
    old = scene.api.patch(JOB_SETS, "job", scene.namespace, hold)["metadata"]["uid"]
    scene.api.delete(TRAIN_JOBS, "job", scene.namespace)
    scene.job_set(probe=lambda body: body["metadata"].get("deletionTimestamp"))
    scene.submit()
    scene.awaited_event("JobSet job exists")
    awaited("the end of the old PodGroup", lambda: not _owned_by_another(scene))
    scene.api.patch(JOB_SETS, "job", scene.namespace, {"metadata": {"finalizers": None}})
    with within(1):
        new = scene.job_set(probe=lambda body: body["metadata"]["uid"] != old)
    assert new["metadata"]["ownerReferences"][0]["uid"] == (scene.job() or {})["metadata"]["uid"]


def _owned_by_another(scene: Scene) -> bool:
    job, group = scene.job(), scene.find(POD_GROUPS, "job")
    assert job is not None
    if group is None:
        return False
    with contextlib.suppress(LookupError):
        return bool(group["metadata"]["ownerReferences"][0]["uid"] != job["metadata"]["uid"])
    return False


def test_a_snapshot_made_for_an_earlier_job_of_the_name_is_not_used(scene: Scene, shared: Replica) -> None:
    scene.runtime()
    scene.running()
    scene.api.patch(
        CONFIG_MAPS, "job-runtime-snapshot", scene.namespace, {"metadata": {"finalizers": ["example.com/slow"]}}
    )
    scene.api.delete(TRAIN_JOBS, "job", scene.namespace)
    awaited("the end of the JobSet", lambda: scene.find(JOB_SETS, "job") is None)
    scene.submit()
    scene.awaited_event("snapshot")
    scene.api.patch(CONFIG_MAPS, "job-runtime-snapshot", scene.namespace, {"metadata": {"finalizers": None}})
    with within(1):
        scene.job_set()
