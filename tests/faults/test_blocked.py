"""What blocks a job is looked at again, and its status is current meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.bench import HOME
from tests.faults.conftest import Launch, Replica, exhaustive
from tests.faults.history import conditions
from tests.faults.proxy import on
from tests.faults.scene import Scene, foreign_content, poked_and_quiet, shipped, within
from tests.support import awaited
from trainyard.controller.configuration import SERVING_SECRET
from trainyard.kube.kinds import CONFIG_MAPS, NAMESPACES, PRIORITY_CLASSES, SECRETS
from trainyard.kube.resource import Resource
from trainyard.kube.training_kinds import JOB_SETS, POD_GROUPS, TRAINING_RUNTIMES
from trainyard.policy.engines.opa.bundle import build_bundle

pytestmark = pytest.mark.cluster
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
AGAIN = 62.0
"""Seconds after which every refusal has been looked at again."""


def priority_class(name: str) -> dict[str, Any]:
    kind = {"apiVersion": PRIORITY_CLASSES.api_version, "kind": PRIORITY_CLASSES.kind}
    return {**kind, "metadata": {"name": name}, "value": 1}


@exhaustive
def test_doing_what_the_message_says_is_enough(scene: Scene, shared: Replica) -> None:
    """Nothing tells the controller of most of these: it has to look again by itself."""
    scene.runtime("plain")
    scene.runtime("gang", gang=True)
    scene.create(TRAINING_RUNTIMES, {"metadata": {"name": "mpi"}, "spec": shipped("mpi-openmpi")["spec"]})
    foreign = {
        "job-set": ("plain", JOB_SETS, ""),
        "pod-group": ("gang", POD_GROUPS, ""),
        "snapshot": ("plain", CONFIG_MAPS, "-runtime-snapshot"),
        "hosts": ("mpi", CONFIG_MAPS, "-mpi-hostfile"),
        "keys": ("mpi", SECRETS, "-mpi-ssh-auth"),
    }
    repairs: dict[str, Callable[[], Any]] = {}
    for name, (used, resource, suffix) in foreign.items():
        scene.foreign(resource, f"{name}{suffix}")
        scene.submit(name, runtime=used)

        def remove(resource: Resource = resource, name: str = f"{name}{suffix}") -> None:
            scene.api.delete(resource, name, scene.namespace)

        repairs[name] = remove
        scene.awaited_event("runtime snapshot" if name == "snapshot" else f"{name}{suffix}", name)
    with shared.proxy.answering(on("jobsets", namespace=scene.namespace), 403, "Forbidden", "exceeded quota"):
        scene.submit("refused", runtime="plain")
        scene.awaited_event("exceeded quota", "refused")
    with shared.proxy.answering(
        on("jobsets", namespace=scene.namespace), 500, "InternalError", "failed calling webhook"
    ) as away:
        scene.submit("webhook", runtime="plain")
        awaited("some attempts", lambda: away.hits >= 8, timeout=60)
    repairs |= {"refused": lambda: None, "webhook": lambda: None}
    with within(AGAIN):
        for repair in repairs.values():
            repair()
        for name in repairs:
            scene.job_set(name, lambda body: body["metadata"].get("ownerReferences"), timeout=AGAIN)
    poked_and_quiet(scene, shared.proxy)


def test_what_is_watched_unblocks_at_once(scene: Scene, shared: Replica) -> None:
    scene.runtime("classy", gang=True, priorityClassName=scene.namespace)
    scene.submit("class", runtime="classy")
    scene.submit("runtime", runtime="later")
    scene.awaited_event("PriorityClass", "class")
    scene.awaited_event("does not exist", "runtime")
    scene.api.create(PRIORITY_CLASSES, priority_class(scene.namespace))
    scene.runtime("later")
    try:
        scene.job_set("class", timeout=10)
        scene.job_set("runtime", timeout=10)
    finally:
        scene.api.delete(PRIORITY_CLASSES, scene.namespace)


def test_status_is_current_while_jobsets_webhook_is_away(scene: Scene, shared: Replica) -> None:
    scene.runtime(gang=True)
    scene.running()
    away = on("jobsets", namespace=scene.namespace)
    with shared.proxy.answering(away, 500, "InternalError", "failed calling webhook mjobset.kb.io"):
        scene.change(suspend=True)
        scene.condition("Suspended")
        scene.play(active=2, ready=1)
        scene.awaited_job("job", lambda body: body["status"]["jobsStatus"][0]["active"] == 2, "pod counts")
        assert not (scene.job_set()["spec"].get("suspend"))
    # Errors of the infrastructure back off to at most a minute.
    scene.suspended(timeout=AGAIN)


def test_a_blocked_suspended_job_does_not_fail_when_it_resumes(scene: Scene, shared: Replica) -> None:
    scene.runtime()
    scene.foreign(JOB_SETS)
    created = time.monotonic()
    scene.submit(suspend=True, activeDeadlineSeconds=4)
    scene.condition("Suspended")
    awaited("the time that the job would have had", lambda: time.monotonic() > created + 5)
    scene.change(suspend=False)
    scene.awaited_job("job", lambda body: not conditions(body).get("Suspended"), "the end of Suspended")
    assert set(conditions(scene.job())) <= {"Blocked"}
    scene.condition("Failed", reason="DeadlineExceeded", timeout=15)


def test_the_deadline_of_a_blocked_job_is_kept(scene: Scene, shared: Replica) -> None:
    scene.runtime()
    scene.foreign(POD_GROUPS)
    scene.runtime("gang", gang=True)
    scene.submit(runtime="gang", activeDeadlineSeconds=3)
    scene.awaited_event("PodGroup job")
    scene.condition("Failed", reason="DeadlineExceeded", timeout=15)


def test_an_error_of_the_server_is_no_fault_of_the_user(scene: Scene, shared: Replica) -> None:
    scene.runtime()
    refused = on("jobsets", namespace=scene.namespace)
    with shared.proxy.answering(refused, 503, "ServiceUnavailable", "etcdserver: request timed out", times=4):
        scene.submit()
        scene.job_set()
    assert not conditions(scene.job())
    poked_and_quiet(scene, shared.proxy)


def without_policy_server(launch: Launch, folder: Path) -> Replica:
    """Start a controller whose policy server does not answer."""
    bundle, archive = build_bundle(), folder / "rules.tar.gz"
    bundle.write(archive)
    policy = {"socket": str(folder / "missing.sock"), "bundle": str(archive), "revision": bundle.revision}
    certificate = {"secret": SERVING_SECRET, "namespace": HOME, "ipAddresses": ["127.0.0.1"]}
    return launch("policies", configuration={"policy": policy, "certificates": [certificate]}, arguments=())


@pytest.mark.unsettled("no job starts without the policy server, so none can tell when everything was looked at")
def test_without_the_policy_server_jobs_stop_and_none_starts(scene: Scene, launch: Launch, tmp_path: Path) -> None:
    scene.runtime(gang=True)
    first = launch("before")
    scene.running()
    first.controller.kill()
    second = without_policy_server(launch, tmp_path)
    scene.submit("late")
    scene.awaited_event("policy", "late", timeout=60)
    scene.change(suspend=True)
    scene.suspended()
    scene.condition("Suspended")
    assert scene.find(JOB_SETS, "late") is None
    scene.change("late", suspend=True)
    scene.condition("Suspended", "late")
    assert second.controller.alive


@exhaustive
def test_a_quota_that_is_lifted_lets_the_job_go_on(scene: Scene, shared: Replica) -> None:
    hard = {"hard": {"count/jobsets.jobset.x-k8s.io": "0"}}
    scene.create(QUOTAS, {"metadata": {"name": "none"}, "spec": hard})
    counted = {"status": {**hard, "used": hard["hard"]}}
    scene.api.patch(QUOTAS, "none", scene.namespace, counted, subresource="status")
    body = {"apiVersion": JOB_SETS.api_version, "kind": JOB_SETS.kind, **foreign_content(JOB_SETS)}
    body["metadata"] = {"name": "probe", "namespace": scene.namespace}
    path = JOB_SETS.path(namespace=scene.namespace)
    awaited("the quota to be enforced", lambda: not scene.api.session.request("POST", path, body, dry_run=True).ok)
    scene.runtime()
    scene.submit()
    scene.awaited_event("quota")
    scene.api.delete(QUOTAS, "none", scene.namespace)
    with within(AGAIN):
        scene.job_set(timeout=AGAIN)


@pytest.mark.unsettled("its namespace takes no object")
def test_a_namespace_that_is_going_away_ends_nothing_else(scene: Scene, shared: Replica) -> None:
    scene.runtime()
    scene.running()
    scene.api.delete(NAMESPACES, scene.namespace)
    awaited("the end of the namespace's jobs", lambda: scene.job() is None, timeout=60)
    assert shared.controller.alive
