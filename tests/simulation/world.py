"""A cluster in virtual time: the model of the API server, its controllers, and the controller processes under test."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

from tests.simulation.api_server import ApiServer, Call, RefusedError, Stored
from tests.simulation.cluster_controllers import GarbageCollector, JobSetController, terminal
from tests.simulation.kinds import KINDS, Kind
from tests.simulation.network import Network
from tests.simulation.process import Process
from tests.simulation.virtual_time import VirtualTimeLoop
from tests.simulation.webhooks import JobSetWebhook, PodGroupWebhook
from trainyard.kube import kinds, training_kinds
from trainyard.kube.resource import Object, Resource

NAMESPACE = "team"
PRIORITY_CLASS = "high"
RUNTIMES = ("gang", "plain", "short-lived")
"""With a gang and a priority class; without a gang; with a TTL."""
_TTL = 5


def runtime(name: str, image: str = "image:1") -> Object:
    """Return a ClusterTrainingRuntime."""
    container = {"name": "node", "image": image}
    pod: Object = {"containers": [container]}
    if name == "gang":
        pod["priorityClassName"] = PRIORITY_CLASS
    ancestor = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    job = {"name": "node", "template": {"metadata": ancestor, "spec": {"template": {"spec": pod}}}}
    template: Object = {"replicatedJobs": [job]}
    if name == "short-lived":
        template["ttlSecondsAfterFinished"] = _TTL
    spec: Object = {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": template}}
    if name != "plain":
        spec["podGroupPolicy"] = {"volcano": {}}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name},
        "spec": spec,
    }


def owner_of(body: Any) -> str:
    """Return the uid of the TrainJob that controls an object, empty where none does."""
    for owner in body["metadata"].get("ownerReferences") or ():
        group = str(owner.get("apiVersion")).partition("/")[0]
        if owner.get("controller") and owner.get("kind") == "TrainJob" and group == training_kinds.TRAIN_JOBS.group:
            return str(owner["uid"])
    return ""


class World:
    """Everything of one run.

    Parameters
    ----------
    loop
        Virtual time.
    seed
        Seed of latencies and delays.
    replicas
        Controller processes; more than one elect a leader.
    """

    def __init__(self, loop: VirtualTimeLoop, seed: int, *, replicas: int) -> None:
        self.loop = loop
        rng = random.Random(f"latencies of {seed}")
        self.job_set_webhook, self.pod_group_webhook = JobSetWebhook(), PodGroupWebhook()
        now = lambda: loop.wall().strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: E731
        self.server = ApiServer(self.job_set_webhook, self.pod_group_webhook, now=now)
        self.pod_group_webhook.server = self.server
        self.network = Network(self.server, loop, rng)
        self.job_sets = JobSetController(self.server, loop, rng)
        GarbageCollector(self.server, loop, rng)
        self.elects = replicas > 1
        self.processes = [Process(self.network, number, elects=self.elects) for number in range(replicas)]
        for name in (NAMESPACE, "kubeflow-system", "kube-system"):
            self.create(kinds.NAMESPACES, {"metadata": {"name": name}})
        self.create(training_kinds.QUEUES, {"metadata": {"name": "default"}})
        self.open_queue(True)
        self.restore()

    # What people do

    def create(self, resource: Resource, body: Object, *, user: str = "person") -> Stored | None:
        """Create an object unless it exists or is refused."""
        stamped = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        namespace = body["metadata"].get("namespace", "")
        return self._send(Call("create", self._kind(resource), namespace, body=stamped, user=user))

    def patch(self, resource: Resource, name: str, patch: Object, *, namespace: str = "", sub: str = "") -> None:
        """Merge a patch into an object if it exists."""
        kind, how = self._kind(resource), "application/merge-patch+json"
        self._send(Call("patch", kind, namespace, name, sub, body=patch, content_type=how, user="person"))

    def delete(self, resource: Resource, name: str, namespace: str = "", propagation: str = "Background") -> None:
        """Delete an object if it exists."""
        body = {"propagationPolicy": propagation}
        self._send(Call("delete", self._kind(resource), namespace, name, body=body, user="person"))

    def find(self, resource: Resource, name: str, namespace: str = "") -> Stored | None:
        """Return an object, None where it does not exist."""
        return self.server.find(self._kind(resource), name, namespace)

    def create_train_job(self, name: str, runtime: str, **spec: Any) -> None:
        """Create a TrainJob."""
        reference = {"name": runtime, "kind": "ClusterTrainingRuntime", "apiGroup": training_kinds.TRAIN_JOBS.group}
        metadata = {"name": name, "namespace": NAMESPACE}
        spec = {
            "runtimeRef": reference,
            "suspend": False,
            "managedBy": "trainer.kubeflow.org/trainjob-controller",
            **spec,
        }
        self.create(training_kinds.TRAIN_JOBS, {"metadata": metadata, "spec": spec})

    def end_job_set(self, name: str, kind: str) -> None:
        """Let a JobSet that has run complete or fail.

        A suspended one too: JobSet's controller looks at the Jobs that succeeded or failed before it looks at
        ``suspend``, and pods may exit with 0 on SIGTERM after their Job counts them as gone.
        """
        stored = self.find(training_kinds.JOB_SETS, name, NAMESPACE)
        if stored is None or stored.metadata.get("deletionTimestamp"):
            return
        if stored.body["spec"].get("suspend") and not self.job_sets.has_run(stored):
            return
        if terminal(stored.body) is None and stored.body["spec"].get("replicatedJobs"):
            self.job_sets.finish(stored, kind)

    def edit_snapshot(self, name: str, image: str) -> None:
        """Change the image in the runtime snapshot of a job."""
        stored = self.find(kinds.CONFIG_MAPS, f"{name}-runtime-snapshot", NAMESPACE)
        if stored is None or not owner_of(stored.body):
            return
        data = {}
        for key, text in stored.body["data"].items():
            body = json.loads(text)
            pod = body["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
            pod["spec"]["containers"][0]["image"] = image
            data[key] = json.dumps(body)
        self.patch(kinds.CONFIG_MAPS, stored.key[1], {"data": data}, namespace=NAMESPACE)

    def open_queue(self, opened: bool) -> None:
        """Open or close the default queue of Volcano."""
        self.patch(
            training_kinds.QUEUES, "default", {"status": {"state": "Open" if opened else "Closed"}}, sub="status"
        )

    def restore(self) -> None:
        """Do what every message says: runtimes, classes and queue as they were."""
        for name in RUNTIMES:
            if self.find(training_kinds.CLUSTER_TRAINING_RUNTIMES, name) is None:
                self.create(training_kinds.CLUSTER_TRAINING_RUNTIMES, runtime(name))
        self.create(kinds.PRIORITY_CLASSES, {"metadata": {"name": PRIORITY_CLASS}, "value": 1000})
        self.open_queue(True)

    # Time

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    def _send(self, call: Call) -> Stored | None:
        try:
            self.server.carry_out(call)
        except RefusedError:
            return None
        name = call.name or call.body["metadata"]["name"]
        return self.server.find(call.kind, name, call.namespace)

    def _kind(self, resource: Resource) -> Kind:
        return next(kind for kind in KINDS if kind.resource == resource)
