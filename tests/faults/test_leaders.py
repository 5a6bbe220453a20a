"""Two replicas: one acts, whatever the other one is doing, has seen, or is still sending."""

from __future__ import annotations

import time

import pytest

from tests.faults.bench import HOME
from tests.faults.conftest import Launch, Replica, exhaustive
from tests.faults.history import conditions
from tests.faults.proxy import on
from tests.faults.scene import Scene, poked_and_quiet
from tests.support import awaited
from trainyard.kube.leader import LEASES
from trainyard.kube.training_kinds import JOB_SETS

pytestmark = pytest.mark.cluster
LEASE = "trainer.kubeflow.org"
ELECTION = {"leaderElection": {"enabled": True, "leaseSeconds": 8, "renewSeconds": 6, "retrySeconds": 1}}


def holder(scene: Scene) -> str:
    lease = scene.api.get(LEASES, LEASE, HOME)
    return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")


def leads(scene: Scene, replica: Replica) -> bool:
    return f"_{replica.controller.pid}_" in holder(scene)


def pair(scene: Scene, launch: Launch) -> tuple[Replica, Replica]:
    """Start two replicas; the first one leads."""
    scene.api.delete(LEASES, LEASE, HOME)
    first = launch("first", configuration=ELECTION)
    awaited("the first replica's lead", lambda: leads(scene, first))
    second = launch("second", configuration=ELECTION)
    return first, second


def test_a_killed_leader_is_followed_by_the_other_replica(scene: Scene, launch: Launch) -> None:
    first, second = pair(scene, launch)
    scene.runtime(gang=True)
    scene.running()
    first.controller.kill()
    scene.play(outcome="Completed")
    scene.condition("Complete", timeout=40)
    assert leads(scene, second)
    poked_and_quiet(scene, second.proxy)


@exhaustive
def test_a_stopped_leader_hands_over_at_once(scene: Scene, launch: Launch) -> None:
    first, second = pair(scene, launch)
    scene.runtime()
    assert first.controller.stop() == 0
    scene.submit()
    scene.job_set(timeout=40)
    assert leads(scene, second)
    assert scene.api.get(LEASES, LEASE, HOME)


def test_a_paused_leader_writes_nothing_when_it_goes_on(scene: Scene, launch: Launch) -> None:
    first, second = pair(scene, launch)
    scene.runtime(gang=True)
    scene.running()
    scene.submit("waiting", suspend=True)
    scene.job_set("waiting")
    first.controller.pause()
    try:
        scene.play(outcome="Completed")
        scene.change("waiting", suspend=False)
        awaited("the second replica's lead", lambda: leads(scene, second), timeout=60)
        scene.condition("Complete")
        scene.suspended("waiting", value=False)
        scene.api.delete(JOB_SETS, "job", scene.namespace)
        since = len(first.proxy.calls)
    finally:
        first.controller.resume()
    first.controller.wait_ended(60)
    assert [
        str(call) for call in first.proxy.writes(since=since) if call.status < 400 and call.namespace == scene.namespace
    ] == []
    poked_and_quiet(scene, second.proxy)
    assert scene.find(JOB_SETS, "job") is None


def test_a_write_that_arrives_after_the_lead_was_lost_changes_nothing(scene: Scene, launch: Launch) -> None:
    """The link holds the old leader's patches back until the new leader has acted on a later change."""
    first, second = pair(scene, launch)
    scene.runtime()
    scene.running()
    late = on(("jobsets", "trainjobs"), method="PATCH", namespace=scene.namespace)
    with first.proxy.holding(late) as held:
        scene.change(suspend=True)
        awaited("the old leader's patch", lambda: held.hits > 0)
        with first.proxy.answering(on("leases", method="PUT"), 500, "InternalError"):
            awaited("the second replica's lead", lambda: leads(scene, second), timeout=60)
            scene.suspended()
            scene.condition("Suspended")
            scene.play(suspended=1)
            scene.change(suspend=False)
            scene.suspended(value=False)
            scene.awaited_job("job", lambda body: not conditions(body).get("Suspended"), "the resume")
    poked_and_quiet(scene, second.proxy)
    assert not scene.job_set()["spec"].get("suspend")
    assert not conditions(scene.job())


def test_a_replica_whose_watches_hang_does_not_act_on_what_it_saw(scene: Scene, launch: Launch) -> None:
    """It knows of a TrainJob without a JobSet; by the time it leads, the job has ended and its JobSet is gone."""
    first, second = pair(scene, launch)
    scene.runtime(gang=True)
    scene.submit("before")
    scene.job_set("before")
    with second.proxy.paused_watches("jobsets", "podgroups"):
        scene.submit()
        scene.job_set()
        scene.play(active=1)
        scene.awaited_job("job", lambda body: (body.get("status") or {}).get("jobsStatus"), "pod counts")
        with second.proxy.paused_watches("trainjobs"):
            scene.play(outcome="Completed")
            scene.condition("Complete")
            scene.api.delete(JOB_SETS, "job", scene.namespace)
            scene.api.delete(JOB_SETS, "before", scene.namespace)
            scene.condition("Failed", "before", reason="JobSetMissing")
            first.controller.kill()
            awaited("the second replica's lead", lambda: leads(scene, second), timeout=60)
        scene.submit("after")
        scene.job_set("after", timeout=60)
        assert scene.find(JOB_SETS, "job") is None
        assert scene.find(JOB_SETS, "before") is None
    poked_and_quiet(scene, second.proxy)
    assert scene.find(JOB_SETS, "job") is None


@exhaustive
def test_a_leader_that_cannot_renew_ends_before_another_may_lead(scene: Scene, launch: Launch) -> None:
    first, second = pair(scene, launch)
    scene.runtime()
    with first.proxy.answering(on("leases", method="PUT"), 500, "InternalError", "etcd is away"):
        first.controller.wait_ended(40)
        ended = time.monotonic()
    awaited("the second replica's lead", lambda: leads(scene, second), timeout=40)
    assert time.monotonic() - ended < 30
    scene.submit()
    scene.job_set()


@exhaustive
def test_the_lease_is_renewed_while_everything_else_is_slow(scene: Scene, launch: Launch) -> None:
    """Hundreds of requests hang: the lease does not wait behind them."""
    first, second = pair(scene, launch)
    scene.runtime()
    everything = on(("jobsets", "configmaps", "trainjobs"), namespace=scene.namespace)
    before = holder(scene)
    with first.proxy.holding(everything) as held:
        for number in range(150):
            scene.submit(f"job-{number}")
        awaited("requests that hang", lambda: held.hits >= 10)
        started = time.monotonic()
        awaited("a few leases' time", lambda: time.monotonic() > started + 20)
        assert holder(scene) == before
    for number in range(150):
        scene.job_set(f"job-{number}", timeout=90)
    assert first.controller.alive
    assert second.controller.alive
