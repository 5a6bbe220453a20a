"""Jobs that run or wait go on when upstream's controller hands over to ours and back, with upstream's own CRDs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility import servers
from tests.support import awaited
from trainyard.controller.job_ownership import TRAIN_JOB_LABEL
from trainyard.kube.kinds import MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS
from trainyard.kube.resource import Resource
from trainyard.kube.training_kinds import CLUSTER_TRAINING_RUNTIMES, JOB_SETS, TRAIN_JOBS
from trainyard.settings.versions import supported_versions

pytestmark = pytest.mark.cluster

Body = dict[str, Any]
NAMESPACE = "team"
RUNTIME: Body = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "ClusterTrainingRuntime",
    "metadata": {"name": "torch", "labels": {"trainer.kubeflow.org/framework": "torch"}},
    "spec": {
        "mlPolicy": {"numNodes": 1, "torch": {}},
        "template": {
            "spec": {
                "ttlSecondsAfterFinished": 3600,
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                            "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "image:1"}]}}},
                        },
                    }
                ],
            }
        },
    },
}


class Scene:
    """The API server, asked from outside of an event loop."""

    def __init__(self, server: servers.Server) -> None:
        self.server = server

    def call(self, method: str, *arguments: Any, **options: Any) -> Any:
        async def once() -> Any:
            async with self.server.client() as client:
                return await getattr(client, method)(*arguments, **options)

        return asyncio.run(once())

    def find(self, resource: Resource, name: str) -> Body:
        return self.call("find", resource, name, namespace=NAMESPACE) or {}

    def train_job(self, name: str, *, suspend: bool) -> None:
        spec = {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 2}, "suspend": suspend}
        metadata = {"name": name, "namespace": NAMESPACE}
        self.call("create", TRAIN_JOBS, {**_stamp(TRAIN_JOBS), "metadata": metadata, "spec": spec})

    def suspend(self, name: str, value: bool) -> None:
        self.call("merge_patch", TRAIN_JOBS, name, {"spec": {"suspend": value}}, namespace=NAMESPACE)

    def suspended(self, name: str) -> bool | None:
        spec = self.find(JOB_SETS, name).get("spec")
        return None if spec is None else bool(spec.get("suspend"))

    def uids(self) -> dict[str, str]:
        return {name: self.find(JOB_SETS, name)["metadata"]["uid"] for name in ("running", "held")}

    def holds(self, name: str, condition: str) -> bool:
        conditions = (self.find(TRAIN_JOBS, name).get("status") or {}).get("conditions") or ()
        return any(entry["type"] == condition and entry["status"] == "True" for entry in conditions)

    def forget_webhooks(self) -> None:
        """Take away the webhooks of a controller that has ended."""
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            for body in self.call("list", resource):
                if "trainer" in body["metadata"]["name"]:
                    self.call("delete", resource, body["metadata"]["name"])


def _stamp(resource: Resource) -> Body:
    return {"apiVersion": resource.api_version, "kind": resource.kind}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with servers.api_server(tmp_path_factory.mktemp("hand-over")) as server:
        asyncio.run(_prepare(server))
        with servers.jobset(server, supported_versions("jobset")[0]):
            yield Scene(server)


async def _prepare(server: servers.Server) -> None:
    async with server.client() as client:
        await servers.install(client, servers.upstream_definitions())
        for name in (NAMESPACE,):
            home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await client.apply(NAMESPACES, home, field_manager="proof")


@contextmanager
def ours(scene: Scene, log: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "trainyard", "controller", "run", "--no-webhooks", "--host", "127.0.0.1"]
    command += ["--health-port", "0", "--metrics-port", "0", "--kubeconfig", str(scene.server.kubeconfig)]
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)
    assert "Traceback" not in log.read_text()


@contextmanager
def upstreams(scene: Scene) -> Iterator[None]:
    with servers.trainer(scene.server):
        yield
    scene.forget_webhooks()


def test_running_and_held_jobs_go_on_from_upstream_to_ours_and_back(scene: Scene, tmp_path: Path) -> None:
    with upstreams(scene):
        scene.call("create", CLUSTER_TRAINING_RUNTIMES, RUNTIME)
        scene.train_job("running", suspend=False)
        scene.train_job("held", suspend=True)
        awaited("the JobSets of upstream", lambda: all(map(scene.find, [JOB_SETS] * 2, ("running", "held"))))
        awaited("their pods' counts", lambda: (scene.find(TRAIN_JOBS, "running").get("status") or {}).get("jobsStatus"))
    before = scene.uids()

    with ours(scene, tmp_path / "ours.log"):
        for name in before:
            labels = lambda name=name: scene.find(JOB_SETS, name)["metadata"].get("labels") or {}  # noqa: E731
            awaited(f"the label of {name}", lambda labels=labels: TRAIN_JOB_LABEL in labels())
            awaited(
                f"the time to live of {name}",
                lambda name=name: "ttlSecondsAfterFinished" not in scene.find(JOB_SETS, name)["spec"],
            )
        scene.suspend("running", True)
        awaited("the running job to stop", lambda: scene.suspended("running"))
        scene.suspend("held", False)
        awaited("the held job to start", lambda: scene.suspended("held") is False)
        scene.suspend("running", False)
        awaited("the stopped job to go on", lambda: scene.suspended("running") is False)
        assert scene.uids() == before, "no JobSet was made again: upstream's CRD keeps no record of a reason"
        assert not scene.holds("running", "Failed")
        assert not scene.holds("held", "Failed")

        for name in ("ours", "paused"):
            scene.train_job(name, suspend=False)
            awaited(f"a JobSet of ours for {name}", lambda name=name: scene.find(JOB_SETS, name))
            counts = lambda name=name: (scene.find(TRAIN_JOBS, name).get("status") or {}).get("jobsStatus")  # noqa: E731
            awaited(f"the pods' counts of {name}", counts)
        scene.suspend("paused", True)
        awaited("the paused job to stop", lambda: scene.suspended("paused"))
        awaited("its condition", lambda: scene.holds("paused", "Suspended"))
    made = {name: scene.find(JOB_SETS, name)["metadata"]["uid"] for name in ("ours", "paused")}

    with upstreams(scene):
        scene.suspend("ours", True)
        awaited("upstream to stop a job of ours", lambda: scene.suspended("ours"))
        scene.suspend("ours", False)
        awaited("upstream to resume it", lambda: scene.suspended("ours") is False)
        assert scene.suspended("paused"), "a job that is suspended stays so"

    with ours(scene, tmp_path / "again.log"):
        awaited("the label", lambda: TRAIN_JOB_LABEL in scene.find(JOB_SETS, "paused")["metadata"].get("labels", {}))
        assert scene.suspended("paused")
        scene.suspend("paused", False)
        awaited("the paused job to go on", lambda: scene.suspended("paused") is False)
        awaited("its condition", lambda: not scene.holds("paused", "Suspended"))
    assert scene.uids() == before
    assert {name: scene.find(JOB_SETS, name)["metadata"]["uid"] for name in made} == made
    assert not any(scene.holds(name, "Failed") for name in (*before, *made))
