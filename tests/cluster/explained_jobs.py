"""Jobs of the tests of explanations, and what is explained about them on a live platform."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import yaml

from tests.cluster.jobs import claim, lasting, node_patch, train_job
from tests.support import LiveCluster, awaited, in_process, require

Found = dict[str, Any]
Expected = tuple[str, str, dict[str, Any], str]
"""State, cause, some of its numbers, and a part of its fix."""

Body = dict[str, Any]
GPU = "nvidia.com/gpu"
POLITE = "ex-polite"
"""A runtime of the tests whose pods take nothing back."""


def job(name: str, namespace: str = "vision", runtime: str = "torch-distributed", **fields: Any) -> Body:
    """Return a TrainJob whose pods take an hour."""
    return train_job(f"ex-{name}", namespace, runtime, runtimePatches=[lasting("1h")], **fields)


def without_devices(name: str, namespace: str = "vision", runtime: str = "torch-distributed", **fields: Any) -> Body:
    """Return a TrainJob that fits beside all others."""
    body = job(name, namespace, runtime, **fields)
    body["spec"]["trainer"]["resourcesPerNode"] = {"requests": {"cpu": "1"}}
    return body


def selecting(name: str, zone: str, namespace: str = "vision", runtime: str = "torch-distributed") -> Body:
    """Return a TrainJob for the nodes of a zone."""
    patch = node_patch(spec={"nodeSelector": {"topology.kubernetes.io/zone": zone}})
    return train_job(f"ex-{name}", namespace, runtime, nodes=1, runtimePatches=[patch])


def on_missing_nodes(name: str, namespace: str = "vision") -> Body:
    """Return a TrainJob for nodes that the cluster does not have."""
    patch = node_patch(spec={"nodeSelector": {"node.kubernetes.io/instance-type": "h200"}})
    return train_job(f"ex-{name}", namespace, "torch-distributed", runtimePatches=[patch])


def with_initializer(name: str) -> Body:
    """Return a TrainJob whose dataset takes an hour."""
    body = job(name, "language", "torch-with-dataset", nodes=1)
    (patch,) = body["spec"]["runtimePatches"]
    (part,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    part["name"] = "dataset-initializer"
    body["spec"]["initializer"] = {"dataset": {"storageUri": "hf://example/data"}}
    return body


def with_volume(name: str, claim_name: str) -> Body:
    """Return a TrainJob with a claim, for nodes that the cluster does not have, so that it is never placed."""
    body = on_missing_nodes(name)
    (part,) = body["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}
    part["template"]["spec"]["template"]["spec"]["volumes"] = [volume]
    return body


def of_runtime(platform: LiveCluster, name: str, priority_class: str = "", namespace: str = "") -> Body:
    """Return a runtime of the tests like torch-distributed: of the cluster, or of a namespace."""
    body: Body = platform.get("clustertrainingruntime", "torch-distributed")
    body["metadata"] = {"name": name, "labels": {"trainer.kubeflow.org/framework": "torch"}}
    if namespace:
        body["kind"] = "TrainingRuntime"
        body["metadata"]["namespace"] = namespace
    (part,) = body["spec"]["template"]["spec"]["replicatedJobs"]
    if priority_class:
        part["template"]["spec"]["template"]["spec"]["priorityClassName"] = priority_class
    return body


def restarting(platform: LiveCluster, name: str, namespace: str, restarts: int) -> Body:
    """Return a runtime whose gang restarts as often when a pod fails."""
    body = of_runtime(platform, name, namespace=namespace)
    job_set = body["spec"]["template"]["spec"]
    if restarts:
        job_set["failurePolicy"] = {"maxRestarts": restarts}
    job_set["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = 0
    return body


FILLERS = (job("left", nodes=3), job("right", nodes=2), job("first", "small", nodes=1))
"""Jobs that leave one node of each rack, which is cordoned while they start."""

JOBS = (
    job("fragments", runtime="torch-distributed-gang", nodes=2),
    job("domain", runtime="torch-distributed-gang", nodes=5),
    job("cluster", nodes=9),
    on_missing_nodes("selector"),
    job("over", "small", nodes=2),
    job("second", "small", nodes=1),
    job("third", "small", nodes=1),
    job("late", "small", nodes=1, activeDeadlineSeconds=1),
    job("share", "language", POLITE, nodes=3),
    job("paused", nodes=1, suspend=True),
    with_initializer("data"),
    with_initializer("fetch"),
    job("beyond", nodes=3),
    job("wide", nodes=1, accelerators=16),
    job("elsewhere", nodes=1, managedBy="kueue.x-k8s.io/multikueue"),
    with_volume("absent", "ex-absent"),
    with_volume("claimed", "ex-claimed"),
    with_volume("bound", "ex-bound"),
)
CLAIMS = (claim("ex-bound", "vision"), claim("ex-claimed", "vision"))
"""Claims of the default StorageClass, which binds at once, and of one that does not exist."""
CLAIMS[1]["spec"]["storageClassName"] = "ex-absent"

EXPECTED: dict[str, Expected] = {
    "left": ("Running", "", {}, ""),
    "fragments": (
        *("Waiting", "fabric-fragmented"),
        {"pods": 2, "places": 2, "domains": ["rack-0 has 1 place", "rack-1 has 1 place"]},
        "allow a higher tier",
    ),
    "domain": ("Waiting", "gang-larger-than-domain", {"pods": 5, "places": 4}, "use at most 4 pods"),
    "cluster": ("Waiting", "gang-larger-than-cluster", {"pods": 9, "places": 8}, "use at most 8 pods"),
    "selector": (
        "Waiting",
        "node-selector-unmatched",
        {"wanted": ["nodeSelector node.kubernetes.io/instance-type=h200"]},
        "labels that nodes have",
    ),
    "over": ("Waiting", "queue-over-capability", {"limit": "8", "requested": "16"}, "request at most 8"),
    "second": ("Waiting", "queue-capability-full", {"used": "8", "limit": "8", "requested": "8"}, "small/ex-first"),
    "third": ("Waiting", "queue-capability-full", {"used": "8", "limit": "8", "requested": "8"}, "small/ex-first"),
    "late": ("Failed", "deadline-exceeded", {"seconds": 1}, "larger activeDeadlineSeconds"),
    # Action reclaim places nothing on the two free nodes, and two queues give back one node each: three are too many.
    "share": ("Waiting", "cluster-full", {"requested": "24", "free": "16"}, "wait until other jobs end"),
    "paused": ("Suspended", "suspended-by-user", {}, "kubectl patch trainjob ex-paused -n vision"),
    "beyond": (
        *("Waiting", "queue-over-deserved"),
        {"used": "40", "deserved": "32", "requested": "24", "free": "16"},
        "a larger share",
    ),
    "fetch": (
        *("Waiting", "initializer-failed"),
        {"initializer": "dataset-initializer", "times": 1, "ended": ", last with exit code 3 (Error)"},
        "storageUri",
    ),
    "wide": (
        *("Waiting", "node-too-small"),
        {"requested": "16", "offers": "8", "resource": GPU},
        "request at most 8",
    ),
    "elsewhere": ("Waiting", "managed-elsewhere", {"manager": "kueue.x-k8s.io/multikueue"}, "spec.managedBy"),
    "absent": ("Waiting", "volume-missing", {"claim": "ex-absent", "namespace": "vision"}, "correct claimName"),
    "claimed": (
        "Waiting",
        "volume-pending",
        {"claim": "ex-claimed", "storage_class": "ex-absent"},
        "another storage class",
    ),
    "bound": ("Waiting", "node-selector-unmatched", {}, "labels that nodes have"),
    "data": ("Waiting", "initializer-running", {"initializers": ["dataset-initializer"]}, "kubectl logs -n language"),
}
HOMES = {body["metadata"]["name"]: body["metadata"]["namespace"] for body in (*FILLERS, *JOBS)}


def patched(platform: LiveCluster, pod: Body, status: Body) -> None:
    """Change the status of a pod, as a kubelet would: simulated nodes fail no container."""
    metadata = pod["metadata"]
    patch = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
    require(platform.kubectl("patch", "pod", metadata["name"], "-n", metadata["namespace"], *patch))


def removed(platform: LiveCluster, *bodies: Body) -> None:
    """Delete objects, and wait until the pods of jobs are gone."""
    text = yaml.safe_dump_all([{key: body[key] for key in ("apiVersion", "kind", "metadata")} for body in bodies])
    require(platform.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=text))
    for name, namespace in ((body["metadata"]["name"], body["metadata"].get("namespace")) for body in bodies):
        if namespace:
            awaited(f"pods of {name} to go", lambda name=name, home=namespace: not platform.pods(name, home))


def explained(platform: LiveCluster, name: str, namespace: str, *options: str) -> Found:
    """Return what the command line explains about a job."""
    cluster = () if options else ("--kubeconfig", str(platform.kubeconfig))
    result = in_process("explain", name, "-n", namespace, "-o", "json", *cluster, *options)
    assert result.returncode in (0, 1), result.stderr
    found: Found = json.loads(result.stdout)
    return found


def reached(platform: LiveCluster, name: str, namespace: str, state: str, cause: str | None) -> Found:
    """Return the explanation of a job once it has a state and a cause; fail with the last one."""
    found: list[Found] = []

    def as_expected() -> Found | None:
        found.append(explained(platform, name, namespace))
        return found[-1] if (found[-1]["state"], found[-1]["cause"]) == (state, cause) else None

    try:
        return awaited(f"{name} to be {state}: {cause}", as_expected, timeout=15)
    except AssertionError as error:
        raise AssertionError(json.dumps(found[-1], indent=1)) from error


@dataclass
class Scenarios:
    """Scenarios of one test; one that fails does not hide the others.

    Parameters
    ----------
    platform
        The platform.
    failures
        What was not as expected.
    """

    platform: LiveCluster
    failures: list[str] = field(default_factory=list)

    def is_(self, name: str, namespace: str, state: str, cause: str | None, fix: str = "", /, **numbers: Any) -> Found:
        """Await the first cause of a job with some of its numbers and a part of its fix."""
        try:
            found = reached(self.platform, name, namespace, state, cause)
        except AssertionError as error:
            self.failures.append(f"{name}: not {state}: {cause}\n{error}")
            return {"numbers": {}, "others": [], "message": "", "fix": ""}
        self._compare(name, found, fix, numbers)
        return found

    def has(self, name: str, namespace: str, cause: str, fix: str = "", /, **numbers: Any) -> Found:
        """Await one of the causes of a job, behind others."""
        last: list[Found] = []

        def named() -> Found | None:
            last.append(explained(self.platform, name, namespace))
            return next((each for each in last[-1]["others"] if each["cause"] == cause), None)

        try:
            found = awaited(f"{name} to have {cause}", named, timeout=10)
        except AssertionError:
            self.failures.append(f"{name}: {cause} is none of its causes\n{json.dumps(last[-1], indent=1)}")
            return {"numbers": {}, "message": "", "fix": ""}
        self._compare(name, found, fix, numbers)
        return found

    def says(self, found: Found, text: str) -> None:
        """Compare a part of the message of a cause."""
        if text not in found["message"]:
            self.failures.append(f"{found['message']!r} lacks {text!r}")

    def lacks(self, name: str, namespace: str, *causes: str) -> None:
        """Await that a job has none of some causes: the near miss."""

        def misses() -> bool:
            found = explained(self.platform, name, namespace)
            return not {found["cause"], *(each["cause"] for each in found["others"])} & set(causes)

        try:
            awaited(f"{name} without {causes}", misses, timeout=15)
        except AssertionError:
            self.failures.append(f"{name}: still {causes}")

    def _compare(self, name: str, found: Found, fix: str, numbers: dict[str, Any]) -> None:
        actual = {key: found["numbers"].get(key) for key in numbers}
        if actual != numbers or fix not in (found["fix"] or ""):
            self.failures.append(f"{name}: {actual} and {found['fix']!r} instead of {numbers} and {fix!r}")


@contextmanager
def scenarios(platform: LiveCluster) -> Iterator[Scenarios]:
    """Collect the scenarios of a block, and fail with all that were not as expected."""
    found = Scenarios(platform)
    yield found
    assert not found.failures, "\n\n".join(found.failures)
