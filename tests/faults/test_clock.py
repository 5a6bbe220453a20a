"""A wall clock that jumps, forward or back, ends no job before its time, no lead and no process."""

from __future__ import annotations

import datetime
import time

import pytest

from tests.faults.bench import HOME
from tests.faults.clock import Clock
from tests.faults.conftest import Launch, Replica, exhaustive
from tests.faults.history import conditions
from tests.faults.scene import Scene, poked_and_quiet
from tests.support import awaited
from trainyard.kube.leader import LEASES
from trainyard.kube.training_kinds import TRAIN_JOBS

pytestmark = pytest.mark.cluster
HOUR = 3600


def written_at(scene: Scene, name: str) -> datetime.datetime:
    entries = (scene.job(name) or {})["status"]["conditions"]
    return max(datetime.datetime.fromisoformat(each["lastTransitionTime"]) for each in entries)


def test_a_clock_that_goes_back_ends_nothing(scene: Scene, launch: Launch, clock: Clock) -> None:
    scene.runtime(gang=True)
    replica = launch(modules=clock.modules)
    scene.running(activeDeadlineSeconds=HOUR)
    clock.jump(-2 * HOUR)
    scene.change(suspend=True)
    scene.suspended()
    scene.condition("Suspended")
    assert written_at(scene, "job") < datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    scene.play(suspended=1)
    clock.jump(0)
    scene.change(suspend=False)
    scene.suspended(value=False)
    scene.awaited_job("job", lambda body: not conditions(body).get("Suspended"), "the resume")
    poked_and_quiet(scene, replica.proxy)
    assert not conditions(scene.job())
    assert replica.controller.alive


@exhaustive
def test_a_deadline_that_a_wrong_clock_saw_pass_stays_passed(scene: Scene, launch: Launch, clock: Clock) -> None:
    scene.runtime()
    replica = launch(modules=clock.modules)
    scene.running(activeDeadlineSeconds=HOUR)
    clock.jump(2 * HOUR)
    scene.api.patch(TRAIN_JOBS, "job", scene.namespace, {"metadata": {"annotations": {"example.com/look": "1"}}})
    scene.condition("Failed", reason="DeadlineExceeded")
    clock.jump(0)
    poked_and_quiet(scene, replica.proxy)
    scene.condition("Failed", reason="DeadlineExceeded")


@exhaustive
def test_a_lead_goes_by_no_wall_clock(scene: Scene, launch: Launch, clock: Clock) -> None:
    election = {"leaderElection": {"enabled": True, "leaseSeconds": 8, "renewSeconds": 6, "retrySeconds": 1}}
    scene.api.delete(LEASES, "trainer.kubeflow.org", HOME)
    first: Replica = launch("first", configuration=election, modules=clock.modules)
    scene.runtime()
    scene.running()
    launch("second", configuration=election)

    def spec() -> dict[str, str]:
        lease = scene.api.get(LEASES, "trainer.kubeflow.org", HOME)
        return dict((lease or {}).get("spec") or {})

    leader = spec()["holderIdentity"]
    for offset in (HOUR, -HOUR):
        clock.jump(offset)
        before, started = spec()["renewTime"], time.monotonic()
        awaited(
            "renewals under the wrong clock",
            lambda before=before, started=started: spec()["renewTime"] != before and time.monotonic() > started + 9,
        )
        assert spec()["holderIdentity"] == leader
    assert first.controller.alive
