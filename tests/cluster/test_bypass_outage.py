"""What still holds, and still works, when what reviews jobs is away: the controller with its webhooks, or its rules."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.bypass import Cluster
from tests.cluster.bypass_objects import TENANT, good
from tests.support import LiveCluster, awaited, require
from trainyard.kube.blocking import BlockingSession
from trainyard.kube.response import Response

pytestmark = pytest.mark.cluster

CONTROLLER = ("deployment/kubeflow-trainer-controller-manager", "-n", "kubeflow-system")
FOREIGN = {"annotations": {"scheduling.volcano.sh/queue-name": "vision"}}
GPUS = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
QUICK = {"annotations": {"trainyard.dev/simulated-duration": "1s"}}


@pytest.fixture(scope="module")
def cluster(platform: LiveCluster) -> Iterator[Cluster]:
    with BlockingSession(platform.kubeconfig) as session:
        yield Cluster(session)


def comes_in(cluster: Cluster) -> bool:
    """Whether a good TrainJob is accepted."""
    _, body = good("train-job", "probe")
    path = f"/apis/trainer.kubeflow.org/v1alpha1/namespaces/{TENANT}/trainjobs?dryRun=All"
    return cluster.send("submit", "POST", path, body).ok


def test_a_policy_server_that_hangs_is_a_refusal_with_an_id_of_its_own(platform: LiveCluster, cluster: Cluster) -> None:
    pids = platform.policy_servers()
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        answer = cluster.create("submit", "train-job", "meanwhile")
        assert not answer.ok
        assert "POL-000" in answer.message
        assert "No policy decision" in answer.message
        refused = cluster.create("raw", "job-set", "meanwhile", metadata=FOREIGN)
        assert "QUE-002" in refused.message
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    awaited("a TrainJob that is accepted again", lambda: comes_in(cluster), timeout=90)


@pytest.fixture(scope="module")
def without_webhooks(platform: LiveCluster, cluster: Cluster) -> Iterator[Cluster]:
    """The platform while nothing serves the trainer's webhooks."""
    replicas = platform.get(*CONTROLLER)["spec"]["replicas"]
    try:
        require(platform.kubectl("scale", *CONTROLLER, "--replicas=0"))
        awaited("the end of the controller", lambda: not comes_in(cluster))
        yield cluster
    finally:
        require(platform.kubectl("scale", *CONTROLLER, f"--replicas={replicas}"))
        awaited("the controller's return", lambda: comes_in(cluster), timeout=90)


@pytest.mark.parametrize(
    ("who", "name", "changes", "rule"),
    [
        ("raw", "job-set", {"metadata": FOREIGN}, "QUE-002"),
        ("raw", "volcano-job", {"spec": {"queue": "vision"}}, "QUE-002"),
        ("raw", "job", {"podMetadata": FOREIGN}, "QUE-002"),
        ("raw", "pod", {"metadata": FOREIGN}, "QUE-002"),
        ("raw", "pod", {"pod": {"schedulerName": "volcano", "priorityClassName": "training-urgent"}}, "TEN-003"),
        ("raw", "volcano-job", {"pod": {"serviceAccountName": "operator"}}, "TEN-004"),
        ("raw", "job", {"pod": {"nodeName": "rack-0-0"}}, "TEN-005"),
        ("raw", "pod", {"container": {"securityContext": {"privileged": True}}}, "ESC-002"),
        ("raw", "job-set", {"replicas": 3, "container": GPUS}, "ACC-002"),
        ("raw", "pod", {"container": GPUS}, "ACC-001"),
        ("submit", "secret", {"metadata": {"name": "later-mpi-ssh-auth"}}, "OBJ-001"),
        ("author", "runtime", {"spec": {"mlPolicy": {"torch": {}, "jax": {}}}}, "MLP-001"),
        ("author", "runtime", {"spec": {"podGroupPolicy": {"volcano": {}, "coscheduling": {}}}}, "PGP-001"),
    ],
)
def test_without_webhooks_tenancy_and_shape_hold(
    without_webhooks: Cluster, who: str, name: str, changes: dict[str, Any], rule: str
) -> None:
    answer = without_webhooks.create(who, name, "meanwhile", **changes)
    assert answer.status in (403, 422), answer.message
    assert rule in answer.message


@pytest.mark.parametrize(("who", "name"), [("submit", "train-job"), ("author", "runtime")])
def test_without_webhooks_jobs_and_runtimes_are_refused_and_it_is_said_why(
    without_webhooks: Cluster, who: str, name: str
) -> None:
    answer = without_webhooks.create(who, name, "meanwhile")
    assert not answer.ok
    assert "failed calling webhook" in answer.message
    assert "trainer.kubeflow.org" in answer.message


def test_without_webhooks_the_other_controllers_work(without_webhooks: Cluster) -> None:
    cluster = without_webhooks
    with contextlib.ExitStack() as ends:
        for kind, called in (("JobSet", "gang"), ("VolcanoJob", "gang"), ("Pod", "ordinary")):
            ends.callback(cluster.delete, kind, called)
        accepted(cluster.create("raw", "job-set", "gang", spec={"suspend": False}, podMetadata=QUICK, container=GPUS))
        accepted(cluster.create("raw", "volcano-job", "gang", podMetadata=QUICK))
        accepted(cluster.create("raw", "pod", "ordinary", spec={"schedulingGates": []}))

        def bound(selector: str) -> bool:
            path = f"/api/v1/namespaces/{TENANT}/pods?labelSelector={selector}"
            items = cluster.session.request("GET", path).body["items"]
            return bool(items) and all(pod["spec"].get("nodeName") for pod in items)

        awaited("the pods of the JobSet on nodes", lambda: bound("jobset.sigs.k8s.io/jobset-name=gang"))
        awaited("the pods of the Volcano Job on nodes", lambda: bound("volcano.sh/job-name=gang"))
        awaited("a pod of the default scheduler on a node", lambda: _node(cluster, "ordinary"))


def accepted(answer: Response) -> None:
    assert answer.ok, answer.message


def _node(cluster: Cluster, pod: str) -> str | None:
    body = cluster.object("Pod", pod)
    return body["spec"].get("nodeName") if body else None
