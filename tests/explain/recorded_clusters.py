"""Recorded clusters of the tests: nodes in racks, queues, and TrainJobs with all objects below them."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import orjson

from tests.explain.recorded_reads import Reads
from trainyard.api.constants import JOB_SET_NAME_LABEL
from trainyard.cluster_state.job_snapshot import read_job
from trainyard.cluster_state.observed import Kind, Observed
from trainyard.cluster_state.recorded_file import observed_of_text, recorded
from trainyard.insight.explain.explanation import Explanation, explain
from trainyard.kube.client import Client

Body = dict[str, Any]
NOW = datetime.datetime(2026, 11, 24, 12, 0, tzinfo=datetime.UTC)
FEATURES = ["allocate", "backfill", "reclaim", "capacity", "gang", "network-topology-aware"]
GPU = "nvidia.com/gpu"
TRAINER, JOB_SET = "trainer.kubeflow.org/v1alpha1", "jobset.x-k8s.io/v1alpha2"
SCHEDULING, CORE = "scheduling.volcano.sh/v1beta1", "v1"
PROGRAMS = {
    "kubeflow-trainer-controller-manager": "trainyard-system",
    "jobset-controller-manager": "jobset-system",
    **dict.fromkeys(("volcano-scheduler", "volcano-controllers", "volcano-admission"), "volcano-system"),
}
OWNED = {"trainjob": (TRAINER, "TrainJob"), "jobset": (JOB_SET, "JobSet"), "job": ("batch/v1", "Job")}


def minutes_ago(minutes: int) -> str:
    return (NOW - datetime.timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")


def owner(kind: str, name: str) -> list[Body]:
    api_version, title = OWNED[kind]
    return [{"apiVersion": api_version, "kind": title, "name": name, "controller": True}]


def body(api_version: str, kind: str, name: str, namespace: str = "", **fields: Any) -> Body:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **fields.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def ended(kind: str, reason: str, message: str = "") -> Body:
    condition = {"type": kind, "status": "True", "reason": reason, "message": message}
    return {"conditions": [{**condition, "lastTransitionTime": minutes_ago(5)}]}


@dataclass
class Job:
    """Objects of one TrainJob."""

    train_job: Body
    job_set: Body
    job: Body
    pod_group: Body
    pods: list[Body]

    @property
    def bodies(self) -> list[Body]:
        return [self.train_job, self.job_set, self.job, self.pod_group, *self.pods]

    def everywhere(self, **spec: Any) -> Job:
        """Change the spec of all pods and of their template."""
        template = self.job_set["spec"]["replicatedJobs"][-1]["template"]["spec"]["template"]
        for each in (*self.pods, template):
            each["spec"] |= spec
        return self


@dataclass
class Cluster:
    """A cluster of racks with nodes of eight GPUs, and Volcano's tree with the queues of stack local."""

    racks: int = 2
    nodes_per_rack: int = 4
    bodies: list[Body] = field(default_factory=list)
    unread: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        platform = body("trainyard.dev/v1alpha1", "Platform", "platform", spec={"schedulerFeatures": list(FEATURES)})
        self.bodies += [platform, *map(self._node, self.names), *self._fabric()]
        for name, value in (("training", 1000), ("training-urgent", 10000)):
            self.bodies.append(body("scheduling.k8s.io/v1", "PriorityClass", name, value=value))
        self.queue("root", "").queue("default")
        self.queue("research", deserved=64, capability=64)
        self.queue("vision", "research", deserved=32, capability=64)
        self.queue("language", "research", deserved=32, capability=64)
        self.bodies.append(body(TRAINER, "ClusterTrainingRuntime", "torch-distributed-gang"))
        for name, namespace in PROGRAMS.items():
            self.deployment(name, namespace)

    @property
    def names(self) -> list[str]:
        return [f"rack-{rack}-node-{node}" for rack in range(self.racks) for node in range(self.nodes_per_rack)]

    @property
    def platform(self) -> Body:
        return self.find("Platform", "platform")

    def _node(self, name: str) -> Body:
        amounts = {"cpu": "96", "memory": "1Ti", GPU: "8", "pods": "110"}
        status = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        return body(CORE, "Node", name, metadata={"labels": {"gpu": "h100"}}, spec={}, status=status)

    def _fabric(self) -> list[Body]:
        def hyper_node(name: str, tier: int, tier_name: str, kind: str, members: Sequence[str]) -> Body:
            listed = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
            spec = {"tier": tier, "tierName": tier_name, "members": listed}
            return body("topology.volcano.sh/v1alpha1", "HyperNode", name, spec=spec)

        racks = [f"rack-{rack}" for rack in range(self.racks)]
        leaves = [
            hyper_node(rack, 1, "rack", "Node", [n for n in self.names if n.startswith(f"{rack}-")]) for rack in racks
        ]
        return [*leaves, hyper_node("spine-0", 2, "spine", "HyperNode", racks)]

    def find(self, kind: str, name: str) -> Body:
        return next(each for each in self.bodies if each["kind"] == kind and each["metadata"]["name"] == name)

    def queue(self, name: str, parent: str = "root", *, state: str = "Open", **amounts: int) -> Cluster:
        spec: Body = {"parent": parent, "weight": 1, "reclaimable": True}
        for kind, gpus in amounts.items():
            amount = {GPU: str(gpus)}
            spec[kind] = {"resource": amount} if kind == "guarantee" else amount
        if not parent:
            del spec["parent"]
        self.bodies = [each for each in self.bodies if (each["kind"], each["metadata"]["name"]) != ("Queue", name)]
        self.bodies.append(body(SCHEDULING, "Queue", name, spec=spec, status={"state": state}))
        return self

    def job(
        self,
        name: str,
        namespace: str = "vision",
        *,
        queue: str | None = None,
        pods: int = 2,
        gpus: int = 8,
        nodes: Sequence[str] = (),
        tier: int | None = None,
        priority_class: str = "",
        minutes: int = 10,
        **spec: Any,
    ) -> Job:
        """Add a TrainJob; its pods run on nodes, or wait."""
        pod = {
            "schedulerName": "volcano",
            "containers": [
                {"name": "node", "image": "train:1", "resources": {"requests": {"cpu": "4", GPU: str(gpus)}}}
            ],
            **({"priorityClassName": priority_class} if priority_class else {}),
        }
        child = f"{name}-node-0"
        created = {"creationTimestamp": minutes_ago(minutes)}
        train_job = body(
            TRAINER, "TrainJob", name, namespace, metadata=dict(created),
            spec={"runtimeRef": {"name": "torch-distributed-gang"}, **spec}, status={},
        )  # fmt: skip
        part = {
            "name": "node",
            "replicas": 1,
            "template": {"spec": {"parallelism": pods, "template": {"spec": dict(pod)}}},
        }
        job_set = body(
            JOB_SET, "JobSet", name, namespace, metadata={"ownerReferences": owner("trainjob", name), **created},
            spec={"replicatedJobs": [part]}, status={"restarts": 0},
        )  # fmt: skip
        job = body(
            "batch/v1", "Job", child, namespace,
            metadata={
                "ownerReferences": owner("jobset", name),
                "labels": {"jobset.sigs.k8s.io/replicatedjob-name": "node", JOB_SET_NAME_LABEL: name},
            },
            spec={"parallelism": pods}, status={},
        )  # fmt: skip
        group_spec: Body = {"minMember": pods, "queue": queue or namespace}
        if priority_class:
            group_spec["priorityClassName"] = priority_class
        if tier is not None:
            group_spec["networkTopology"] = {"mode": "hard", "highestTierAllowed": tier}
        group = body(
            SCHEDULING, "PodGroup", name, namespace, metadata={"ownerReferences": owner("trainjob", name), **created},
            spec=group_spec, status={"phase": "Running" if nodes else "Inqueue"},
        )  # fmt: skip
        made = [
            body(
                CORE, "Pod", f"{child}-{index}", namespace,
                metadata={
                    "ownerReferences": owner("job", child),
                    "annotations": {"scheduling.k8s.io/group-name": name},
                    "labels": {JOB_SET_NAME_LABEL: name},
                    **created,
                },
                spec={**pod, **({"nodeName": nodes[index]} if index < len(nodes) else {})},
                status={"phase": "Running" if index < len(nodes) else "Pending"},
            )
            for index in range(pods)
        ]  # fmt: skip
        found = Job(train_job, job_set, job, group, made)
        self.bodies += found.bodies
        return found

    def fill(self, namespace: str, nodes: Sequence[str], *, gpus: int = 8, name: str = "") -> Job:
        """Add a running job with one pod on each of some nodes."""
        return self.job(name or f"busy-{namespace}", namespace, pods=len(nodes), gpus=gpus, nodes=nodes, minutes=60)

    def without(self, *bodies: Body) -> Cluster:
        self.bodies = [each for each in self.bodies if all(each is not other for other in bodies)]
        return self

    def event(self, about: Body, reason: str, message: str, kind: str = "Warning") -> Cluster:
        metadata = about["metadata"]
        involved = {"kind": about["kind"], "name": metadata["name"], "namespace": metadata["namespace"]}
        self.bodies.append(
            body(
                CORE, "Event", f"{metadata['name']}.{len(self.bodies)}", metadata["namespace"],
                involvedObject=involved, reason=reason, message=message, type=kind, lastTimestamp=minutes_ago(1),
            )
        )  # fmt: skip
        return self

    def deployment(self, name: str, namespace: str, ready: int = 1, replicas: int = 1) -> Cluster:
        status = {"readyReplicas": ready} if ready else {}
        made = body("apps/v1", "Deployment", name, namespace, spec={"replicas": replicas}, status=status)
        same = [each for each in self.bodies if (each["kind"], each["metadata"]) == ("Deployment", made["metadata"])]
        self.without(*same).bodies.append(made)
        return self

    @property
    def _narrow(self) -> set[str]:
        """Kinds that may not be listed in all namespaces."""
        return {kind.partition(".")[0] for kind in self.unread}

    @property
    def observed(self) -> Observed:
        return Observed(NOW, tuple(self.bodies), self.unread)

    def explain(self, name: str, namespace: str = "vision") -> Explanation:
        """Explain a job; a file of the same cluster, one for its namespace, and a live read give the same answer."""
        found = explain(self.observed, name, namespace)
        read = asyncio.run(read_job(cast("Client", Reads(self.bodies, narrow=self._narrow)), name, namespace))
        assert explain(replace(read, now=NOW), name, namespace) == found
        for only in (None, namespace):
            text = orjson.dumps(recorded(self.observed, only)).decode()
            assert explain(observed_of_text(text, "file", NOW.replace(year=2030)), name, namespace) == found
        return found

    def causes(self, name: str, namespace: str = "vision") -> list[str]:
        return [found.cause.id for found in self.explain(name, namespace).causes]


def check(explanation: Explanation, cause: str, fix: str, **numbers: Any) -> None:
    """Assert the first cause, some of its numbers, and a part of its fix; the message has the numbers."""
    found = [each.cause.id for each in explanation.causes]
    assert found[:1] == [cause], explanation.as_json()
    first = explanation.causes[0]
    assert {name: first.numbers[name] for name in numbers} == numbers
    assert fix in explanation.fix
    for value in numbers.values():
        texts = value if isinstance(value, list) else [value]
        assert all(str(each) in explanation.message + explanation.fix for each in texts)
    assert "{" not in explanation.message


NOT_READ = frozenset({Kind.NODE})
