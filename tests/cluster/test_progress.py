"""Training code reports its progress with the unmodified SDK; a local process stands in for the simulated pod."""

from __future__ import annotations

import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.jobs import lasting, train_job
from tests.support import LiveCluster, awaited, require, run

pytestmark = pytest.mark.cluster

sdk = pytest.importorskip("kubeflow.trainer")
models = pytest.importorskip("kubeflow_trainer_api.models")

NAMESPACE = "vision"
MOUNT = "/var/run/secrets/kubeflow/trainer"
REPORT = (
    "import sys, json; from kubeflow.trainer import update_trainjob_status as u; assert u(**json.loads(sys.argv[1]))"
)


@dataclass
class Pod:
    """What a container of the pod has: variables, and files where the variables say."""

    platform: LiveCluster
    body: dict[str, Any]
    folder: Path

    @property
    def variables(self) -> dict[str, str]:
        """The container's variables, with this process's way to the files and to the Service."""
        (container,) = self.body["spec"]["containers"]
        given = {e["name"]: e["value"] for e in container["env"] if e["name"].startswith("KUBEFLOW_TRAINER_SERVER_")}
        webhooks = self.platform.get("validatingwebhookconfiguration", "validator.trainer.kubeflow.org")["webhooks"]
        address = webhooks[0]["clientConfig"]["url"].split("/")[2]
        service = "kubeflow-trainer-controller-manager.kubeflow-system.svc:10443"
        return {k: v.replace(service, address).replace(MOUNT, str(self.folder)) for k, v in given.items()}

    def mount(self) -> None:
        """Make the files of the projected volume as a kubelet makes them."""
        (volume,) = (v for v in self.body["spec"]["volumes"] if v["name"] == "kubeflow-trainer-token")
        token, authority = volume["projected"]["sources"]
        stored = self.platform.get("configmap", authority["configMap"]["name"], "-n", NAMESPACE)
        (self.folder / "ca.crt").write_text(stored["data"]["ca.crt"])
        (self.folder / "token").write_text(self.token(token["serviceAccountToken"]["audience"]))

    def token(self, audience: str, *, bound: bool = True) -> str:
        metadata = self.body["metadata"]
        binding = {"kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        options = [f"--bound-object-{key}={value}" for key, value in binding.items()] if bound else []
        account = self.body["spec"]["serviceAccountName"]
        return require(
            self.platform.kubectl("create", "token", account, "-n", NAMESPACE, f"--audience={audience}", *options)
        ).strip()

    @property
    def own(self) -> dict[str, str]:
        """The pod's own address and token."""
        return {
            "url": self.variables["KUBEFLOW_TRAINER_SERVER_URL"],
            "token": (self.folder / "token").read_text(),
        }

    def report(self, **progress: Any) -> None:
        """Report as training code does, in a process with the pod's variables."""
        env = {**os.environ, **self.variables}
        require(run(sys.executable, "-c", REPORT, json.dumps(progress), env=env))

    def post(self, url: str, token: str) -> int:
        """Report without the SDK and return the status code."""
        body = {"trainerStatus": {"progressPercentage": 99, "lastUpdatedTime": "2026-01-01T00:00:00Z"}}
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Authorization": f"Bearer {token}"})
        trust = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        try:
            with urllib.request.urlopen(request, context=trust, timeout=20) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            return error.code


@pytest.fixture(scope="module")
def pods(platform: LiveCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Pod]]:
    """One pod each of two jobs that run for long."""
    names = ("progress", "progress-two")
    for name in names:
        job = train_job(name, NAMESPACE, "torch-distributed-gang", accelerators=1, runtimePatches=[lasting("1h")])
        require(platform.apply(job))
    found = {}
    for name in names:
        body = awaited(f"pods of {name}", partial(platform.pods, name, NAMESPACE))[0]
        found[name] = Pod(platform, body, tmp_path_factory.mktemp(name))
        found[name].mount()
    yield found
    for name in names:
        platform.kubectl("delete", "trainjob", name, "-n", NAMESPACE, "--wait=false")


def reported(platform: LiveCluster, name: str) -> Any:
    """Return what the SDK's model reads of the progress."""
    job = models.TrainerV1alpha1TrainJob.from_dict(platform.get("trainjob", name, "-n", NAMESPACE))
    return job.status and job.status.trainer_status


def test_progress_is_reported_and_read_with_the_sdk(platform: LiveCluster, pods: dict[str, Pod]) -> None:
    pods["progress"].report(progress_percent=42, estimated_remaining_seconds=120, metrics={"loss": 0.5, "step": 7})
    found = reported(platform, "progress")
    assert (found.progress_percentage, found.estimated_remaining_seconds) == (42, 120)
    assert [(metric.name, metric.value) for metric in found.metrics] == [("loss", "0.5"), ("step", "7")]
    assert found.last_updated_time is not None
    client = sdk.TrainerClient(
        backend_config=sdk.KubernetesBackendConfig(config_file=str(platform.kubeconfig), namespace=NAMESPACE)
    )
    assert client.get_job("progress").name == "progress"
    assert pods["progress"].post(**pods["progress"].own) == 200
    found = reported(platform, "progress")
    assert (found.progress_percentage, found.estimated_remaining_seconds, found.metrics) == (99, None, None)
    assert reported(platform, "progress-two") is None


def test_a_pod_reports_on_its_own_job_only(platform: LiveCluster, pods: dict[str, Pod]) -> None:
    one, two = pods["progress"], pods["progress-two"]
    url = two.own["url"]
    audience = url.partition("/apis/")[2]
    for token in (
        one.own["token"],
        one.token(audience),
        two.token(audience, bound=False),
        two.token("https://kubernetes.default.svc"),
        two.own["token"][:-8] + "AAAAAAAA",
        "junk",
    ):
        assert one.post(url, token) == 403
    assert reported(platform, "progress-two") is None
    assert one.post(**two.own) == 200


def test_a_report_survives_suspension(platform: LiveCluster, pods: dict[str, Pod]) -> None:
    before = reported(platform, "progress")
    suspend = json.dumps({"spec": {"suspend": True}})
    require(platform.kubectl("patch", "trainjob", "progress", "-n", NAMESPACE, "--type=merge", "-p", suspend))
    platform.condition("progress", NAMESPACE, "Suspended")
    assert reported(platform, "progress") == before
