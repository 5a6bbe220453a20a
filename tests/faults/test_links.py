"""Links and servers that are slow, silent, overloaded, away, or forgot what they said."""

from __future__ import annotations

import time

import pytest

from tests.faults.bench import Bench
from tests.faults.conftest import Launch, Replica, exhaustive
from tests.faults.proxy import Call, on
from tests.faults.scene import Scene, poked_and_quiet
from tests.support import awaited
from trainyard.kube.training_kinds import JOB_SETS, TRAIN_JOBS

pytestmark = pytest.mark.cluster
EVERYTHING = on()


def anything(call: Call) -> bool:
    return True


@exhaustive
def test_silent_connections_are_found_within_45_seconds(scene: Scene, launch: Launch) -> None:
    """Nothing is closed and nothing is answered any more on the connections there are; new ones work."""
    scene.runtime()
    replica = launch()
    scene.running("before")
    assert replica.proxy.silence() > 0
    silent = time.monotonic()
    scene.submit()
    scene.job_set(timeout=60)
    assert time.monotonic() - silent < 48
    scene.play("before", "Completed")
    scene.condition("Complete", "before", timeout=max(1.0, silent + 48 - time.monotonic()))
    assert replica.controller.alive


def test_a_slow_link_only_takes_longer(scene: Scene, shared: Replica) -> None:
    scene.runtime(gang=True)
    with shared.proxy.delaying(anything, 0.7):
        scene.running()
        scene.change(suspend=True)
        scene.suspended()
        scene.condition("Suspended")
    poked_and_quiet(scene, shared.proxy)


def test_connections_that_are_cut_again_and_again_lose_nothing(scene: Scene, shared: Replica) -> None:
    scene.runtime(gang=True)
    for number in range(6):
        scene.submit(f"job-{number}")
        shared.proxy.cut()
    for number in range(6):
        scene.job_set(f"job-{number}", timeout=60)
    poked_and_quiet(scene, shared.proxy)


def test_an_overloaded_server_is_asked_again_and_not_more_often(scene: Scene, shared: Replica) -> None:
    scene.runtime(gang=True)
    names = [f"job-{number}" for number in range(10)]
    with shared.proxy.answering(anything, 429, "TooManyRequests", retry_after=1) as storm:
        for name in names:
            scene.submit(name)
        awaited("the storm to be felt", lambda: storm.hits >= 10)
        started, before = time.monotonic(), storm.hits
        awaited("some seconds of it", lambda: time.monotonic() > started + 5)
        # One request a second for each job that is worked on, and a few watches.
        assert storm.hits - before < 5 * 30
    for name in names:
        scene.job_set(name, timeout=62)
    poked_and_quiet(scene, shared.proxy)
    scene.history.catch_up()
    assert {name: len(scene.history.uids("JobSet", name)) for name in names} == dict.fromkeys(names, 1)


def test_history_that_the_server_forgot_is_listed_again(scene: Scene, control_plane: Bench, launch: Launch) -> None:
    """While the watches hang, jobs end and go, etcd is compacted, and the API server starts again."""
    scene.runtime(gang=True)
    replica = launch()
    scene.running("ends")
    scene.running("goes")
    scene.running("stays")
    with replica.proxy.paused_watches("trainjobs", "jobsets", "podgroups"):
        scene.play("ends", "Completed")
        scene.api.delete(TRAIN_JOBS, "goes", scene.namespace)
        scene.submit("comes")
        scene.change("stays", suspend=True)
        control_plane.compact()
        control_plane.restart("kube-apiserver", grace=0.0)
        scene.api.session = control_plane.api.session
    scene.condition("Complete", "ends", timeout=60)
    scene.job_set("comes")
    scene.suspended("stays")
    awaited("the end of the deleted job's JobSet", lambda: scene.find(JOB_SETS, "goes") is None)
    poked_and_quiet(scene, replica.proxy)


@exhaustive
@pytest.mark.parametrize("program", ["kube-apiserver", "etcd"])
def test_a_server_killed_in_the_middle_of_a_burst_loses_nothing(
    scene: Scene, control_plane: Bench, launch: Launch, program: str
) -> None:
    scene.runtime(gang=True)
    replica = launch()
    names = [f"job-{number}" for number in range(30)]
    for name in names:
        scene.submit(name)
    control_plane.restart(program, grace=0.0)
    scene.api.session = control_plane.api.session
    for name in names:
        scene.job_set(name, timeout=90)
    poked_and_quiet(scene, replica.proxy)
    scene.history.catch_up()
    assert {name: len(scene.history.uids("JobSet", name)) for name in names} == dict.fromkeys(names, 1)


def test_an_idle_controller_asks_nothing(scene: Scene, shared: Replica) -> None:
    """At the fixpoint there are watches and nothing else: no write, and no read either."""
    scene.runtime(gang=True)
    scene.running()
    poked_and_quiet(scene, shared.proxy)
    since, started = len(shared.proxy.calls), time.monotonic()
    awaited("some idle seconds", lambda: time.monotonic() > started + 4)
    asked = [call for call in shared.proxy.calls[since:] if not call.watch]
    assert [str(call) for call in asked if call.status != 404] == [], "kinds that are not served are looked for again"
