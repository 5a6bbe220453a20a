"""TrainJobs in containers: suspension, failures, deadlines, limits of memory, gangs that wait, logs of the SDK."""

from __future__ import annotations

from typing import Any

import pytest

from tests.real.conftest import RealCluster
from tests.real.real_jobs import WAIT, job, reference, runtime
from tests.support import awaited, require

pytestmark = pytest.mark.real


def running(real: RealCluster, name: str) -> list[dict[str, Any]]:
    return [pod for pod in real.cluster.pods(name, "language") if pod["status"]["phase"] == "Running"]


def suspend(real: RealCluster, name: str, value: bool) -> None:
    patch = f'{{"spec": {{"suspend": {str(value).lower()}}}}}'
    require(real.cluster.kubectl("patch", "trainjob", name, "-n", "language", "--type=merge", "-p", patch))


def delete(real: RealCluster, name: str) -> None:
    delete_job(real, name, "language")


def delete_job(real: RealCluster, name: str, namespace: str) -> None:
    """Delete a TrainJob and wait until its pods are gone, which others need the room of."""
    require(real.cluster.kubectl("delete", "trainjob", name, "-n", namespace, "--timeout=90s"))
    awaited("the end of the pods", lambda: not real.cluster.pods(name, namespace) or None, timeout=60)


def test_a_suspended_job_has_no_container_and_runs_when_it_is_resumed(real: RealCluster) -> None:
    require(real.cluster.apply(job("paused", code=WAIT, workers=2, suspend=True)))
    real.cluster.condition("paused", "language", "Suspended")
    assert real.cluster.pods("paused", "language") == []
    suspend(real, "paused", False)
    awaited("two workers", lambda: len(running(real, "paused")) == 2 or None)
    suspend(real, "paused", True)
    awaited("no worker", lambda: not real.cluster.pods("paused", "language") or None)
    suspend(real, "paused", False)
    awaited("two workers again", lambda: len(running(real, "paused")) == 2 or None)
    delete(real, "paused")


def ends(real: RealCluster, name: str) -> list[dict[str, Any]]:
    """Return how containers of a job have ended, now or before their last start."""
    return [
        ended
        for pod in real.cluster.pods(name, "language")
        for status in pod["status"].get("containerStatuses", ())
        for state in ("state", "lastState")
        if (ended := status.get(state, {}).get("terminated"))
    ]


def test_a_container_that_fails_is_started_again(real: RealCluster) -> None:
    require(real.cluster.apply(job("failing", code="raise SystemExit(3)")))

    def restarts() -> int:
        pods = real.cluster.pods("failing", "language")
        return sum(status["restartCount"] for pod in pods for status in pod["status"].get("containerStatuses", ()))

    awaited("a restart", lambda: restarts() > 0 or None)
    assert {each["exitCode"] for each in ends(real, "failing")} == {3}
    delete(real, "failing")


def test_a_failed_gang_is_made_again_as_often_as_its_runtime_says(real: RealCluster) -> None:
    once = {"restartPolicy": "Never"}
    require(
        real.cluster.apply(
            runtime("restarting", pod=once, job={"backoffLimit": 0}, failurePolicy={"maxRestarts": 2}),
            job("restarted", code="raise SystemExit(4)", runtime=reference("restarting"), workers=2),
        )
    )
    real.cluster.condition("restarted", "language", "Failed")
    assert real.cluster.get("jobset", "restarted", "-n", "language")["status"]["restarts"] == 2
    statuses = [
        status
        for pod in real.cluster.pods("restarted", "language")
        for status in pod["status"].get("containerStatuses", ())
    ]
    assert {status["restartCount"] for status in statuses} == {0}, "restartPolicy Never"
    assert 4 in {each["exitCode"] for each in ends(real, "restarted")}


def test_what_a_finished_job_made_is_deleted_after_its_time(real: RealCluster) -> None:
    require(
        real.cluster.apply(
            runtime("fleeting", ttlSecondsAfterFinished=5),
            job("gone", code="print('here')", runtime=reference("fleeting")),
        )
    )
    real.cluster.condition("gone", "language", "Complete")
    awaited("no JobSet", lambda: real.cluster.get("jobset", "gone", "-n", "language") is None or None)
    awaited("no pod", lambda: not real.cluster.pods("gone", "language") or None)
    conditions = real.cluster.get("trainjob", "gone", "-n", "language")["status"]["conditions"]
    assert "Complete" in {each["type"] for each in conditions if each["status"] == "True"}


STORE = """
import http.server, re, signal, sys, urllib.parse
FILES = {'data/one.txt': b'first', 'data/sub/two.txt': b'second', 'weights/model.safetensors': b'weights'}
class Store(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.do_GET()
    def do_GET(self):
        path, _, query = self.path.partition('?')
        key = urllib.parse.unquote(path).removeprefix('/bucket').lstrip('/')
        prefix = urllib.parse.parse_qs(query).get('prefix', [''])[0]
        found = ''.join(f'<Contents><Key>{name}</Key><Size>{len(text)}</Size><ETag>"x"</ETag>'
            '<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>'
            for name, text in FILES.items() if name.startswith(prefix))
        listing = f'<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>'.encode()
        body = FILES.get(key) if key else listing
        self.send_response(404 if body is None else 200)
        self.send_header('Content-Length', str(len(body or b'')))
        self.end_headers()
        if self.command == 'GET':
            self.wfile.write(body or b'')
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
http.server.ThreadingHTTPServer(('', 8333), Store).serve_forever()
"""
"""A bucket of an object store: lists and reads three objects."""


def initialized() -> Any:
    """Return a runtime whose dataset and model are fetched into a volume before its workers start."""
    body = runtime("initialized")
    spec = body["spec"]["template"]["spec"]
    (node,) = spec["replicatedJobs"]
    mounts = [{"name": "initializer", "mountPath": "/workspace"}]
    node["template"]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = mounts
    steps = ("dataset-initializer", "model-initializer")
    node["dependsOn"] = [{"name": step, "status": "Complete"} for step in steps]
    for step in steps:
        container = {
            "name": step,
            "image": f"localhost/trainyard/{step}:v2.3.0",
            "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "500m"}},
            "securityContext": {"allowPrivilegeEscalation": False},
            "volumeMounts": mounts,
        }
        template = {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": step}},
            "spec": {"template": {"spec": {"containers": [container]}}},
        }
        spec["replicatedJobs"].insert(0, {"name": step, "template": template})
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec["volumeClaimPolicies"] = [{"templates": [{"metadata": {"name": "initializer"}, "spec": claim}]}]
    return body


def test_initializers_fetch_dataset_and_model_before_the_workers_start(real: RealCluster) -> None:
    require(real.cluster.apply(job("store", code=STORE), initialized()))
    (store,) = awaited("the store", lambda: running(real, "store"))
    variables = {
        "ENDPOINT": f"http://{store['status']['podIP']}:8333",
        "ACCESS_KEY_ID": "key",
        "SECRET_ACCESS_KEY": "secret",
        "REGION": "here",
    }
    env = [{"name": name, "value": value} for name, value in variables.items()]
    code = (
        "import pathlib; print(sorted((str(p.relative_to('/workspace')), p.read_text()) "
        "for p in pathlib.Path('/workspace').rglob('*') if p.is_file()))"
    )
    initializer = {
        "dataset": {"storageUri": "s3://bucket/data/", "env": env},
        "model": {"storageUri": "s3://bucket/weights/", "env": env},
    }
    require(real.cluster.apply(job("fed", code=code, runtime=reference("initialized"), initializer=initializer)))
    selected = ("-n", "language", "-l", "jobset.sigs.k8s.io/jobset-name=fed")
    try:
        real.cluster.condition("fed", "language", "Complete", timeout=60)
    except AssertionError as error:
        seen = real.cluster.kubectl("describe", "pods,pvc", *selected).stdout[-6000:]
        logs = real.cluster.kubectl("logs", "--prefix", "--tail=30", *selected)
        raise AssertionError(f"{error}\n{seen}\n{logs.stdout}{logs.stderr}") from error
    logs = real.cluster.kubectl("logs", "--prefix", "--tail=20", *selected)
    expected = [
        ("dataset/one.txt", "first"),
        ("dataset/sub/two.txt", "second"),
        ("model/model.safetensors", "weights"),
    ]
    assert str(expected) in logs.stdout, logs.stdout
    delete(real, "store")
    delete(real, "fed")


def test_a_container_gets_no_more_memory_than_its_limit(real: RealCluster) -> None:
    resources = {"cpu": "200m", "memory": "64Mi"}
    code = "held = bytearray(256 << 20); held[::4096] = b'x' * len(held[::4096]); print('never')"
    require(real.cluster.apply(job("hungry", code=code, resources=resources)))

    awaited("OOMKilled", lambda: "OOMKilled" in {each["reason"] for each in ends(real, "hungry")} or None)
    delete(real, "hungry")


def test_a_job_ends_at_its_deadline(real: RealCluster) -> None:
    require(real.cluster.apply(job("late", code=WAIT, activeDeadlineSeconds=5)))
    condition = real.cluster.condition("late", "language", "Failed")
    assert condition["reason"] == "DeadlineExceeded"
    awaited("the end of the worker", lambda: not running(real, "late") or None)


def test_a_gang_that_does_not_fit_starts_no_worker_until_all_fit(real: RealCluster) -> None:
    half = {"cpu": "1"}
    require(real.cluster.apply(job("first", code=WAIT, workers=3, resources=half)))
    awaited("three workers", lambda: len(running(real, "first")) == 3 or None)
    require(real.cluster.apply(job("second", code=WAIT, workers=3, resources=half)))

    def unschedulable() -> bool:
        groups = real.cluster.get("podgroups", "-n", "language")["items"]
        return any(
            each["type"] == "Unschedulable"
            for group in groups
            if group["metadata"]["name"] == "second"
            for each in group.get("status", {}).get("conditions") or ()
        )

    awaited("the verdict of the scheduler", lambda: unschedulable() or None)
    assert running(real, "second") == []
    delete(real, "first")
    awaited("three workers of the second", lambda: len(running(real, "second")) == 3 or None)
    delete(real, "second")


def test_the_sdk_reads_the_logs_of_containers(real: RealCluster) -> None:
    from kubeflow.common.types import KubernetesBackendConfig
    from kubeflow.trainer import TrainerClient

    require(real.cluster.apply(job("logged", code="print('one'); print('two')")))
    real.cluster.condition("logged", "language", "Complete")
    client = TrainerClient(KubernetesBackendConfig(namespace="language", config_file=str(real.cluster.kubeconfig)))
    assert [line.strip() for line in client.get_job_logs("logged")] == ["one", "two"]
