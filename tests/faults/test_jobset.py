"""With JobSet's own controller and webhooks: its refusals, its clock, and its absence."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

from tests.compatibility.servers import jobset
from tests.faults.bench import Bench
from tests.faults.conftest import Launch, exhaustive
from tests.faults.history import conditions
from tests.faults.scene import Scene, within
from tests.support import awaited
from trainyard.kube.kinds import CONFIG_MAPS, MUTATING_WEBHOOKS, PODS, VALIDATING_WEBHOOKS
from trainyard.kube.training_kinds import JOB_SETS, TRAIN_JOBS
from trainyard.settings.versions import supported_versions

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("manager")]
AGAIN = 62.0
"""Seconds after which every rejection has been retried."""
AWAY = 150.0
"""Seconds without JobSet's webhook."""


@pytest.fixture(scope="module")
def manager(control_plane: Bench) -> Iterator[psutil.Process]:
    """JobSet's manager with its webhooks."""
    before = set(psutil.Process().children())
    with jobset(control_plane.server, supported_versions("jobset")[0]):
        (process,) = set(psutil.Process().children()) - before
        yield process
    api = control_plane.api
    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        for body in api.list(resource):
            if body["metadata"]["name"].startswith("jobset-"):
                api.delete(resource, body["metadata"]["name"])


@contextmanager
def hanging(process: psutil.Process) -> Iterator[None]:
    """Let a process hang."""
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


def pods(scene: Scene) -> list[str]:
    """Return the pods that are not going away, by name."""
    found = scene.api.list(PODS, scene.namespace)
    return [body["metadata"]["name"] for body in found if not body["metadata"].get("deletionTimestamp")]


def removed(scene: Scene) -> None:
    """Let pods that are going away go, as a kubelet would."""
    for body in scene.api.list(PODS, scene.namespace):
        if body["metadata"].get("deletionTimestamp"):
            path = PODS.path(namespace=scene.namespace, name=body["metadata"]["name"])
            scene.api.session.request("DELETE", path, {"kind": "DeleteOptions", "gracePeriodSeconds": 0})


def run(scene: Scene, count: int = 2) -> list[str]:
    """Wait for the pods and let them run."""
    names = awaited("the pods", lambda: found if len(found := pods(scene)) == count else None)
    for name in names:
        scene.api.patch(PODS, name, scene.namespace, {"status": {"phase": "Running"}}, subresource="status")
    return names


def succeed(scene: Scene) -> None:
    """Let the pods end well."""
    for name in pods(scene):
        scene.api.patch(PODS, name, scene.namespace, {"status": {"phase": "Succeeded"}}, subresource="status")


def stopped(scene: Scene) -> None:
    """Wait until no pod is left."""

    def none() -> bool:
        removed(scene)
        return not scene.api.list(PODS, scene.namespace)

    awaited("the end of the pods", none)


def counts(job_set: dict[str, Any]) -> list[dict[str, int]]:
    return list((job_set.get("status") or {}).get("replicatedJobsStatus") or ())


def edit_snapshot(scene: Scene) -> None:
    body = scene.find(CONFIG_MAPS, "job-runtime-snapshot")
    assert body is not None
    data = {key: text.replace("image:1", "image:2") for key, text in body["data"].items()}
    scene.api.patch(CONFIG_MAPS, "job-runtime-snapshot", scene.namespace, {"data": data})


def test_a_job_stops_resumes_ends_and_its_jobset_goes_by_its_ttl(scene: Scene, launch: Launch) -> None:
    scene.runtime(spec_template={"ttlSecondsAfterFinished": 1})
    replica = launch()
    scene.submit()
    run(scene)
    edit_snapshot(scene)
    scene.change(suspend=True)
    scene.suspended()
    stopped(scene)
    scene.condition("Suspended")
    snapshot = scene.find(CONFIG_MAPS, "job-runtime-snapshot")
    assert snapshot is not None
    data = {key: text.replace("image:2", "image:1") for key, text in snapshot["data"].items()}
    scene.api.patch(CONFIG_MAPS, "job-runtime-snapshot", scene.namespace, {"data": data})
    scene.change(suspend=False)
    run(scene)
    succeed(scene)
    scene.condition("Complete")
    awaited("the JobSet's end by its TTL", lambda: scene.find(JOB_SETS, "job") is None)
    stopped(scene)
    assert len(scene.history.uids("JobSet", "job")) == 1
    scene.api.patch(TRAIN_JOBS, "job", scene.namespace, {"metadata": {"annotations": {"example.com/look": "1"}}})
    replica.controller.kill()
    replica.controller.start()
    scene.submit("after")
    scene.job_set("after")
    assert scene.find(JOB_SETS, "job") is None


def test_a_ttl_cannot_run_out_while_the_controller_is_away(scene: Scene, launch: Launch) -> None:
    scene.runtime(spec_template={"ttlSecondsAfterFinished": 0})
    replica = launch()
    scene.submit()
    run(scene)
    replica.controller.kill()
    succeed(scene)
    awaited("the JobSet's end", lambda: conditions(scene.find(JOB_SETS, "job")).get("Completed"))
    replica.controller.start()
    scene.condition("Complete")
    awaited("the JobSet's end by its TTL", lambda: scene.find(JOB_SETS, "job") is None)
    assert len(scene.history.uids("JobSet", "job")) == 1


@exhaustive
def test_a_stopped_job_is_remade_where_jobset_does_not_take_the_change(scene: Scene, launch: Launch) -> None:
    scene.runtime()
    replica = launch()
    scene.submit()
    run(scene)
    scene.change(suspend=True)
    scene.suspended()
    stopped(scene)
    before = scene.job_set(probe=lambda body: not any(each.get("active") for each in counts(body)))
    edit_snapshot(scene)
    scene.change(suspend=False)
    after = scene.job_set(probe=lambda body: body["metadata"]["uid"] != before["metadata"]["uid"])
    assert "image:2" in json.dumps(after["spec"])
    run(scene)
    succeed(scene)
    scene.condition("Complete")
    assert replica.controller.alive


def test_a_resumed_job_gets_what_jobset_lets_change(scene: Scene, launch: Launch) -> None:
    """A patch that a queueing system makes while the job is held back: other nodes."""
    scene.runtime()
    launch()
    scene.submit(suspend=True)
    before = scene.suspended()
    spec = {"template": {"spec": {"nodeSelector": {"pool": "reserved"}}}}
    job = {"name": "node", "template": {"spec": spec}}
    patch = {"manager": "example.com/queue", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}}}
    scene.change(runtimePatches=[patch])
    scene.change(suspend=False)
    after = scene.suspended(value=False)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert "reserved" in json.dumps(after["spec"])
    (first, *_) = run(scene)
    body = scene.find(PODS, first)
    assert body is not None
    assert body["spec"]["nodeSelector"]["pool"] == "reserved"


@exhaustive
def test_status_is_current_while_jobsets_manager_hangs(scene: Scene, launch: Launch, manager: psutil.Process) -> None:
    scene.runtime()
    replica = launch()
    scene.submit()
    run(scene)
    scene.awaited_job("job", lambda body: (body.get("status") or {}).get("jobsStatus"), "pod counts")
    with hanging(manager):
        scene.submit("meanwhile", activeDeadlineSeconds=20)
        scene.change(suspend=True)
        scene.condition("Suspended", timeout=45)
        scene.condition("Failed", "meanwhile", reason="DeadlineExceeded", timeout=60)
    scene.suspended(timeout=62)
    stopped(scene)
    assert replica.controller.alive


@exhaustive
def test_jobs_go_on_after_jobsets_webhook_was_away_for_minutes(
    scene: Scene, launch: Launch, manager: psutil.Process
) -> None:
    """Whatever was submitted, stopped or due meanwhile is done within a minute of its return, and once."""
    scene.runtime()
    replica = launch()
    scene.submit("stopped")
    run(scene)
    scene.awaited_job("stopped", lambda body: (body.get("status") or {}).get("jobsStatus"), "pod counts")
    started = time.monotonic()
    with hanging(manager):
        scene.submit("new")
        scene.submit("withdrawn", suspend=True)
        scene.change("stopped", suspend=True)
        scene.condition("Suspended", "stopped", timeout=45)
        scene.awaited_event("failed calling webhook", "new", timeout=60)
        awaited("150 seconds without the webhook", lambda: time.monotonic() > started + AWAY, timeout=AWAY + 30)
        assert scene.find(JOB_SETS, "new") is None
    with within(AGAIN):
        scene.job_set("new", timeout=AGAIN)
        scene.suspended("withdrawn", timeout=AGAIN)
        scene.suspended("stopped", timeout=AGAIN)
    scene.history.catch_up()
    names = ("new", "withdrawn", "stopped")
    assert {name: len(scene.history.uids("JobSet", name)) for name in names} == dict.fromkeys(names, 1)
    assert not any(conditions(scene.job(name)).get("Failed") for name in names)
    assert replica.controller.alive
