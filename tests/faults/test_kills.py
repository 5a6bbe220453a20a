"""A controller that is killed after any of its writes goes on where it was: one JobSet, one end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.faults.conftest import Launch, Replica, exhaustive
from tests.faults.history import conditions
from tests.faults.proxy import Call, on
from tests.faults.scene import Scene, poked_and_quiet, runtime, shipped
from tests.faults.test_versions import inherited
from tests.support import awaited
from trainyard.kube.kinds import CONFIG_MAPS
from trainyard.kube.training_kinds import JOB_SETS, POD_GROUPS, TRAINING_RUNTIMES

pytestmark = pytest.mark.cluster
FINALIZER = "trainer.kubeflow.org/resource-in-use"
Body = dict[str, Any]


@contextmanager
def dying(scene: Scene, replica: Replica) -> Iterator[list[Call]]:
    """Kill the controller after each write about the namespace; the answer is lost.

    A write that was executed before and is only repeated does not kill it again, or it would never get past it.
    """
    deaths: list[Call] = []
    seen: set[str] = set()

    def fatal(call: Call) -> bool:
        return call.write and call.namespace == scene.namespace and call.plural != "events" and _kind(call) not in seen

    def kill(call: Call) -> None:
        seen.add(_kind(call))
        deaths.append(call)
        replica.controller.kill()

    with replica.proxy.calling(fatal, kill):
        yield deaths


def _kind(call: Call) -> str:
    """Name a write by what it does."""
    return f"{call.method} {call.plural}/{call.subresource} {call.target} {call.body}"


def until(replica: Replica, what: str, probe: Callable[[], Any], *, timeout: float = 120) -> Any:
    """Wait for something, starting the controller again whenever it was killed."""

    def step() -> Any:
        if not replica.controller.alive:
            replica.controller.start(ready=False)
        return probe()

    return awaited(what, step, timeout=timeout)


def life(scene: Scene, replica: Replica) -> None:
    """Take a TrainJob through everything that can happen to it."""

    def job_set(probe: Callable[[Body], Any]) -> Callable[[], Any]:
        return lambda: (body := scene.find(JOB_SETS, "job")) is not None and probe(body)

    def condition(kind: str) -> Callable[[], Any]:
        return lambda: conditions(scene.job()).get(kind)

    scene.submit()
    until(replica, "the JobSet", job_set(lambda body: True))
    scene.play(active=1)
    until(replica, "the pod counts", lambda: ((scene.job() or {}).get("status") or {}).get("jobsStatus"))
    scene.change(suspend=True)
    until(replica, "the JobSet's end of work", job_set(lambda body: body["spec"].get("suspend")))
    until(replica, "Suspended", condition("Suspended"))
    scene.play(suspended=1)
    scene.change(suspend=False)
    until(replica, "the JobSet's work", job_set(lambda body: not body["spec"].get("suspend")))
    until(replica, "Resumed", lambda: not conditions(scene.job()).get("Suspended"))
    scene.play(outcome="Completed")
    until(replica, "Complete", condition("Complete"))
    until(replica, "the TTL", job_set(lambda body: body["spec"].get("ttlSecondsAfterFinished") == 3600))
    until(replica, "the end of the PodGroup", lambda: scene.find(POD_GROUPS, "job") is None)


def finished(scene: Scene, replica: Replica) -> None:
    """Check what is true of every life that ended."""
    if not replica.controller.alive:
        replica.controller.start()
    poked_and_quiet(scene, replica.proxy)
    scene.history.catch_up()
    assert len(scene.history.uids("JobSet", "job")) == 1


def test_a_controller_killed_after_each_write_of_a_gang(scene: Scene, launch: Launch) -> None:
    scene.runtime(gang=True, spec_template={"ttlSecondsAfterFinished": 3600})
    replica = launch()
    with dying(scene, replica) as deaths:
        life(scene, replica)
    written = {(call.method, call.plural) for call in deaths}
    assert {("POST", "configmaps"), ("POST", "podgroups"), ("POST", "jobsets"), ("PATCH", "trainjobs")} <= written
    finished(scene, replica)


@exhaustive
def test_a_controller_killed_after_each_write_of_a_job_with_keys_and_hosts(scene: Scene, launch: Launch) -> None:
    spec = shipped("mpi-openmpi")["spec"]
    spec["template"]["spec"]["ttlSecondsAfterFinished"] = 3600
    scene.create(TRAINING_RUNTIMES, {"metadata": {"name": "torch"}, "spec": spec})
    replica = launch()
    with dying(scene, replica) as deaths:
        life(scene, replica)
    assert ("POST", "secrets") in {(call.method, call.plural) for call in deaths}
    finished(scene, replica)


def test_a_controller_killed_while_it_remakes_a_jobset(scene: Scene, launch: Launch) -> None:
    scene.runtime(gang=True)
    replica = launch()
    scene.running()
    scene.change(suspend=True)
    scene.suspended()
    scene.play(suspended=1)
    snapshot = scene.find(CONFIG_MAPS, "job-runtime-snapshot")
    assert snapshot is not None
    data = {key: text.replace("image:1", "image:2") for key, text in snapshot["data"].items()}
    scene.api.patch(CONFIG_MAPS, "job-runtime-snapshot", scene.namespace, {"data": data})
    with dying(scene, replica) as deaths:
        scene.change(suspend=False)
        until(
            replica,
            "the other JobSet",
            lambda: (body := scene.find(JOB_SETS, "job")) is not None and "image:2" in str(body["spec"]),
        )
        # The record kills the controller too, a moment after it can be read.
        until(replica, "its record", lambda: _recorded(scene) and _killed_by_record(scene, deaths))
    assert ("DELETE", "jobsets") in {(call.method, call.plural) for call in deaths}
    replica.controller.kill()
    replica.controller.start()
    poked_and_quiet(scene, replica.proxy)
    scene.history.catch_up()
    assert len(scene.history.uids("JobSet", "job")) == 2
    scene.play(outcome="Completed")
    scene.condition("Complete")


def _killed_by_record(scene: Scene, deaths: list[Call]) -> bool:
    job_set = scene.find(JOB_SETS, "job")
    uid = "" if job_set is None else job_set["metadata"]["uid"]
    return any(call.plural == "trainjobs" and uid in str(call.body) for call in deaths)


def _recorded(scene: Scene) -> bool:
    job, job_set = scene.job(), scene.find(JOB_SETS, "job")
    assert job is not None
    mark = (job.get("status") or {}).get("jobSet") or {}
    return job_set is not None and mark.get("uid") == job_set["metadata"]["uid"] and not mark.get("remake")


@exhaustive
def test_a_controller_killed_while_it_takes_a_job_over(scene: Scene, launch: Launch) -> None:
    replica = inherited(scene, launch)
    with dying(scene, replica) as deaths:
        until(replica, "the takeover", lambda: "ttlSecondsAfterFinished" not in scene.job_set()["spec"])
        until(replica, "its record", lambda: _recorded(scene) and _killed_by_record(scene, deaths))
    adopted = [call for call in deaths if (call.method, call.plural) == ("PATCH", "jobsets")]
    assert any("ttlSecondsAfterFinished" in (call.body.get("spec") or {}) for call in adopted)
    finished(scene, replica)
    scene.play(outcome="Completed")
    scene.condition("Complete")


@exhaustive
def test_a_controller_killed_while_it_ends_a_job_whose_deadline_passed(scene: Scene, launch: Launch) -> None:
    scene.runtime(gang=True)
    replica = launch()
    scene.running(activeDeadlineSeconds=2)
    with dying(scene, replica) as deaths:
        until(replica, "the deadline", lambda: conditions(scene.job()).get("Failed"))
        until(replica, "the end of the JobSet", lambda: scene.find(JOB_SETS, "job") is None)
        until(replica, "the end of the PodGroup", lambda: scene.find(POD_GROUPS, "job") is None)
    assert {("DELETE", "jobsets"), ("DELETE", "podgroups")} <= {(call.method, call.plural) for call in deaths}
    assert conditions(scene.job())["Failed"]["reason"] == "DeadlineExceeded"
    finished(scene, replica)


@exhaustive
def test_a_controller_killed_when_it_has_taken_a_finalizer_off(scene: Scene, launch: Launch) -> None:
    """A finalizer of another controller stays."""
    replica = launch()
    body = runtime("old")
    body["metadata"]["finalizers"] = [FINALIZER, "example.com/theirs"]
    scene.create(TRAINING_RUNTIMES, body)

    def finalizers() -> list[str]:
        return list((scene.find(TRAINING_RUNTIMES, "old") or {})["metadata"].get("finalizers") or ())

    with dying(scene, replica) as deaths:
        scene.api.delete(TRAINING_RUNTIMES, "old", scene.namespace)
        until(replica, "the finalizer's end", lambda: finalizers() == ["example.com/theirs"])
        awaited("the kill", lambda: not replica.controller.alive)
    assert [(call.method, call.plural) for call in deaths] == [("PATCH", "trainingruntimes")]
    replica.controller.start()
    poked_and_quiet(scene, replica.proxy)
    assert finalizers() == ["example.com/theirs"]


@exhaustive
def test_every_write_of_a_life_loses_its_answer_once(scene: Scene, launch: Launch) -> None:
    scene.runtime(gang=True, spec_template={"ttlSecondsAfterFinished": 3600})
    replica = launch()
    seen: set[str] = set()

    def once(call: Call) -> bool:
        if not (call.write and call.namespace == scene.namespace and call.plural != "events"):
            return False
        kind = f"{call.method} {call.plural}/{call.subresource} {call.target} {call.body}"
        return kind not in seen and not seen.add(kind)  # type: ignore[func-returns-value]

    with replica.proxy.losing_answers(once) as lost:
        life(scene, replica)
        assert lost.hits >= 6
    finished(scene, replica)


def test_kills_in_the_middle_of_a_burst_lose_and_double_nothing(scene: Scene, launch: Launch) -> None:
    jobs = [f"burst-{number}" for number in range(40)]
    scene.runtime(gang=True)
    replica = launch()
    created = on("jobsets", namespace=scene.namespace)
    for name in jobs:
        scene.submit(name)
    for _ in range(3):
        kills: list[Call] = []

        def kill(call: Call, kills: list[Call] = kills) -> None:
            kills.append(call)
            if len(kills) == 4:
                replica.controller.kill()

        with replica.proxy.calling(created, kill, deliver=True):
            awaited(
                "the kill", lambda: not replica.controller.alive or len(scene.api.list(JOB_SETS, scene.namespace)) >= 40
            )
        if not replica.controller.alive:
            replica.controller.start()
    for name in jobs:
        scene.job_set(name)
    poked_and_quiet(scene, replica.proxy)
    scene.history.catch_up()
    assert {name: len(scene.history.uids("JobSet", name)) for name in jobs} == dict.fromkeys(jobs, 1)
