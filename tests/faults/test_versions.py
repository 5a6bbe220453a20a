"""Jobs that another controller made - upstream's, or another version of this one - go on, running or suspended."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.faults.conftest import Launch, Replica, exhaustive
from tests.faults.history import conditions
from tests.faults.scene import Scene, poked_and_quiet
from tests.support import ROOT, awaited
from trainyard.controller.status import is_recorded
from trainyard.kube.kinds import CONFIG_MAPS
from trainyard.kube.training_kinds import JOB_SETS, POD_GROUPS, TRAIN_JOBS

pytestmark = pytest.mark.cluster
OURS = "trainyard.dev/"
LABEL = "trainyard.dev/train-job"
FORMER = "4257e11c5b68bb715f91e51156e58c8cd0b5c1a1"
"""A version whose controller runs with the same requirements."""


def aged(scene: Scene, name: str = "job") -> None:
    """Make the job's objects look as upstream's controller leaves them: no label, mark or note of ours; a TTL."""
    for resource in (JOB_SETS, POD_GROUPS):
        body = scene.find(resource, name)
        if body is None:
            continue
        metadata = body["metadata"]
        notes = {
            field: {key: None for key in metadata.get(field) or {} if key.startswith(OURS)}
            for field in ("labels", "annotations")
        }
        spec = {"ttlSecondsAfterFinished": 3600} if resource is JOB_SETS else {}
        scene.api.patch(resource, name, scene.namespace, {"metadata": notes, "spec": spec})
    scene.api.patch(TRAIN_JOBS, name, scene.namespace, {"status": {"jobSet": None}}, subresource="status")


def inherited(scene: Scene, launch: Launch, *, suspended: bool = False, **options: Any) -> Replica:
    """Return a controller that has just found a job of another one."""
    scene.runtime(gang=True, spec_template={"ttlSecondsAfterFinished": 3600})
    replica = launch()
    scene.running(**options)
    if suspended:
        scene.change(suspend=True)
        scene.suspended()
        scene.condition("Suspended")
        scene.play(suspended=1)
    replica.controller.kill()
    aged(scene)
    return replica


def test_a_running_job_is_taken_over_as_it_runs(scene: Scene, launch: Launch) -> None:
    replica = inherited(scene, launch)
    replica.controller.start()
    taken = scene.job_set(probe=lambda body: "ttlSecondsAfterFinished" not in body["spec"])
    assert taken["metadata"]["labels"][LABEL]
    scene.awaited_job(
        "job", lambda body: (body["status"].get("jobSet") or {}).get("uid") == taken["metadata"]["uid"], "mark"
    )
    poked_and_quiet(scene, replica.proxy)
    scene.play(outcome="Completed")
    scene.condition("Complete")
    scene.job_set(probe=lambda body: body["spec"].get("ttlSecondsAfterFinished") == 3600)
    assert len(scene.history.uids("JobSet", "job")) == 1


@exhaustive
def test_a_suspended_job_is_taken_over_and_resumes(scene: Scene, launch: Launch) -> None:
    replica = inherited(scene, launch, suspended=True)
    replica.controller.start()
    scene.change(suspend=False)
    scene.suspended(value=False)
    scene.awaited_job("job", lambda body: not conditions(body).get("Suspended"), "the resume")
    assert len(scene.history.uids("JobSet", "job")) == 1
    poked_and_quiet(scene, replica.proxy)


@exhaustive
def test_a_job_suspended_without_a_controller_is_stopped_at_the_start(scene: Scene, launch: Launch) -> None:
    replica = inherited(scene, launch)
    scene.change(suspend=True)
    replica.controller.start()
    scene.suspended()
    scene.condition("Suspended")


@exhaustive
def test_a_job_of_another_controller_that_ended_meanwhile_is_complete(scene: Scene, launch: Launch) -> None:
    replica = inherited(scene, launch)
    scene.play(outcome="Completed")
    replica.controller.start()
    scene.condition("Complete")
    poked_and_quiet(scene, replica.proxy)


def test_a_job_of_another_controller_whose_jobset_is_gone_does_not_run_again(scene: Scene, launch: Launch) -> None:
    """It has no mark of ours; its pod counts tell that it ran."""
    replica = inherited(scene, launch)
    scene.api.delete(JOB_SETS, "job", scene.namespace)
    replica.controller.start()
    scene.condition("Failed", reason="JobSetMissing")
    poked_and_quiet(scene, replica.proxy)
    assert len(scene.history.uids("JobSet", "job")) == 1


def test_a_job_that_loses_its_label_while_it_runs_still_stops_and_ends(scene: Scene, shared: Replica) -> None:
    """Users who may edit JobSets can take the label off: the filtered watch then says that it was deleted."""
    scene.runtime(gang=True)
    scene.running()
    scene.api.patch(JOB_SETS, "job", scene.namespace, {"metadata": {"labels": {LABEL: None}}})
    scene.change(suspend=True)
    scene.suspended()
    scene.condition("Suspended")
    assert not conditions(scene.job()).get("Failed")
    scene.play(outcome="Failed")
    scene.condition("Failed", reason="FailedJobs", timeout=62)
    assert len(scene.history.uids("JobSet", "job")) == 1


def test_a_job_rendered_by_another_version_is_remade_on_resume_with_a_reason(scene: Scene, launch: Launch) -> None:
    """The digest is another one: what was frozen then would be rendered differently now."""
    scene.runtime()
    replica = launch()
    scene.running()
    scene.change(suspend=True)
    scene.suspended()
    scene.play(suspended=1)
    replica.controller.kill()
    data = (scene.find(CONFIG_MAPS, "job-runtime-snapshot") or {})["data"]
    data = {key: text.replace("image:1", "image:2") for key, text in data.items()}
    scene.api.patch(CONFIG_MAPS, "job-runtime-snapshot", scene.namespace, {"data": data})
    notes = {"trainyard.dev/frozen-digest": "of-another-version"}
    scene.api.patch(JOB_SETS, "job", scene.namespace, {"metadata": {"annotations": notes}})
    scene.change(suspend=False)
    replica.controller.start()
    scene.job_set(probe=lambda body: "image:2" in str(body["spec"]) and not body["spec"].get("suspend"))
    poked_and_quiet(scene, replica.proxy)
    scene.history.catch_up()
    assert len(scene.history.uids("JobSet", "job")) == 2


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program as it was at a recorded commit."""
    folder = tmp_path_factory.mktemp("former")
    archive = subprocess.run(["git", "archive", FORMER], cwd=ROOT, capture_output=True)
    if archive.returncode:
        pytest.skip(f"commit {FORMER} is not in this clone")
    subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)
    return folder


@exhaustive
def test_jobs_go_on_under_a_former_version_and_under_the_present_one_again(
    scene: Scene, launch: Launch, former: Path
) -> None:
    scene.runtime(gang=True, spec_template={"ttlSecondsAfterFinished": 3600})
    present, before = launch("present"), launch("former", root=former, start=False)
    names = ("runs", "waits", "stops")
    for name in names:
        scene.running(name)
    scene.change("waits", suspend=True)
    scene.suspended("waits")
    scene.condition("Suspended", "waits")
    scene.play("waits", suspended=1)
    awaited("the records", lambda: all(recorded(scene, name) for name in names))
    uids = {name: scene.job_set(name)["metadata"]["uid"] for name in names}
    present.controller.kill()

    before.controller.start()
    poked_and_quiet(scene, before.proxy)
    scene.change("waits", suspend=False)
    scene.suspended("waits", value=False)
    scene.change("stops", suspend=True)
    scene.suspended("stops")
    scene.condition("Suspended", "stops")
    scene.play("stops", suspended=1)
    scene.running("theirs")
    before.controller.kill()

    present.controller.start()
    poked_and_quiet(scene, present.proxy)
    scene.change("stops", suspend=False)
    scene.suspended("stops", value=False)
    assert {name: scene.job_set(name)["metadata"]["uid"] for name in names} == uids
    for name in (*names, "theirs"):
        scene.play(name, "Completed")
        scene.condition("Complete", name)
        scene.job_set(name, lambda body: body["spec"].get("ttlSecondsAfterFinished") == 3600)


def recorded(scene: Scene, name: str) -> bool:
    return is_recorded(scene.job(name) or {}, scene.job_set(name))


def test_a_job_handed_back_to_upstream_is_left_to_it(scene: Scene, shared: Replica) -> None:
    """Nothing of ours stays on a job's JobSet that another controller could not live with."""
    scene.runtime()
    scene.running()
    body = scene.job_set()
    assert "finalizers" not in body["metadata"]
    assert body["spec"].get("managedBy") in (None, "jobset.sigs.k8s.io/jobset-controller")
    assert not (scene.job() or {})["metadata"].get("finalizers")
