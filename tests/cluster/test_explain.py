"""Explanations of jobs on the whole platform, live and from a snapshot: rule, numbers and fix."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.jobs import claim, lasting, node_patch, train_job
from tests.support import LiveCluster, awaited, in_process, require

pytestmark = pytest.mark.cluster

GPU = "nvidia.com/gpu"
RACK = "topology.trainyard.dev/rack"
POLITE = "ex-polite"
"""A runtime of the test's own."""
ANSWER = ("job", "state", "cause", "numbers", "fix")
Found = dict[str, Any]


def job(name: str, namespace: str = "vision", runtime: str = "torch-distributed", **fields: Any) -> dict[str, Any]:
    """Return a TrainJob whose pods take an hour."""
    return train_job(f"ex-{name}", namespace, runtime, runtimePatches=[lasting("1h")], **fields)


def on_missing_nodes(name: str) -> dict[str, Any]:
    """Return a TrainJob for nodes that the cluster does not have."""
    selector = {"node.kubernetes.io/instance-type": "h200"}
    return train_job(
        f"ex-{name}", "vision", "torch-distributed", runtimePatches=[node_patch(spec={"nodeSelector": selector})]
    )


def with_initializer(name: str) -> dict[str, Any]:
    """Return a TrainJob whose dataset takes an hour."""
    body = job(name, "language", "torch-with-dataset", nodes=1)
    (patch,) = body["spec"]["runtimePatches"]
    (part,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    part["name"] = "dataset-initializer"
    body["spec"]["initializer"] = {"dataset": {"storageUri": "hf://example/data"}}
    return body


def with_volume(name: str, claim_name: str) -> dict[str, Any]:
    """Return a TrainJob with a claim, for nodes that the cluster does not have, so that it is never placed."""
    body = on_missing_nodes(name)
    (part,) = body["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}
    part["template"]["spec"]["template"]["spec"]["volumes"] = [volume]
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
    job("wide", nodes=1, accelerators=16),
    job("elsewhere", nodes=1, managedBy="kueue.x-k8s.io/multikueue"),
    with_volume("absent", "ex-absent"),
    with_volume("claimed", "ex-claimed"),
    with_volume("bound", "ex-bound"),
)
CLAIMS = (claim("ex-bound", "vision"), claim("ex-claimed", "vision"))
"""Claims of the default StorageClass, which binds at once, and of one that does not exist."""
CLAIMS[1]["spec"]["storageClassName"] = "ex-absent"

EXPECTED: dict[str, tuple[str, str, dict[str, Any], str]] = {
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


@pytest.fixture
def waiting(platform: LiveCluster) -> Iterator[LiveCluster]:
    """The platform with jobs that wait; they are gone afterwards."""
    last = [names[-1] for names in racks(platform).values()]
    runtime, cordoned = runtime_of_class(platform, "training"), job("cordoned", nodes=2)
    try:
        require(platform.kubectl("cordon", *last))
        require(platform.apply(runtime, *FILLERS))
        for body in FILLERS:
            reached(platform, body["metadata"]["name"], body["metadata"]["namespace"], "Running", None)
        # No other job waits yet, so none of them can take the nodes of these pods back.
        assert_statuses_of_a_kubelet_are_explained(platform)
        require(platform.apply(cordoned))
        found = reached(platform, "ex-cordoned", "vision", "Waiting", "nodes-cordoned")
        assert sorted(found["numbers"]["nodes"]) == sorted(last)
        assert "kubectl uncordon" in found["fix"]
        removed(platform, cordoned)
        require(platform.kubectl("uncordon", *last))
        require(platform.apply(*CLAIMS, *JOBS))
        yield platform
    finally:
        platform.kubectl("uncordon", *last)
        removed(platform, *FILLERS, *JOBS, cordoned, runtime)
        platform.kubectl("delete", "--ignore-not-found", "pvc", "ex-bound", "ex-claimed", "-n", "vision")


def runtime_of_class(platform: LiveCluster, priority_class: str) -> dict[str, Any]:
    """Return a runtime whose pods have a priority class."""
    body: dict[str, Any] = platform.get("clustertrainingruntime", "torch-distributed")
    body["metadata"] = {"name": POLITE, "labels": {"trainer.kubeflow.org/framework": "torch"}}
    (part,) = body["spec"]["template"]["spec"]["replicatedJobs"]
    part["template"]["spec"]["template"]["spec"]["priorityClassName"] = priority_class
    return body


def racks(platform: LiveCluster) -> dict[str, list[str]]:
    """Return the nodes of each rack."""
    found: dict[str, list[str]] = {}
    for node in platform.get("nodes", "--selector", RACK)["items"]:
        found.setdefault(node["metadata"]["labels"][RACK], []).append(node["metadata"]["name"])
    return found


def removed(platform: LiveCluster, *bodies: dict[str, Any]) -> None:
    """Delete objects, and wait until the pods of jobs are gone."""
    text = yaml.safe_dump_all([{key: body[key] for key in ("apiVersion", "kind", "metadata")} for body in bodies])
    require(platform.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=text))
    for name, namespace in ((body["metadata"]["name"], body["metadata"].get("namespace")) for body in bodies):
        if namespace:
            awaited(f"pods of {name} to go", lambda name=name, home=namespace: not platform.pods(name, home))


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


def explained(platform: LiveCluster, name: str, namespace: str, *options: str) -> Found:
    cluster = () if options else ("--kubeconfig", str(platform.kubeconfig))
    result = in_process("explain", name, "-n", namespace, "-o", "json", *cluster, *options)
    assert result.returncode in (0, 1), result.stderr
    found: Found = json.loads(result.stdout)
    return found


def test_jobs_are_explained_live_and_from_a_snapshot(waiting: LiveCluster, tmp_path: Path) -> None:
    awaited(
        "the initializer", lambda: [p for p in waiting.pods("ex-data", "language") if p["status"]["phase"] == "Running"]
    )
    live: dict[str, Found] = {}
    for short, (state, cause, numbers, fix) in EXPECTED.items():
        name = f"ex-{short}"
        found = live[name] = reached(waiting, name, HOMES[name], state, cause or None)
        assert {key: found["numbers"][key] for key in numbers} == numbers, name
        assert fix in (found["fix"] or ""), name
    assert "priority-behind-others" not in {each["cause"] for each in live["ex-selector"]["others"]}  # it never fits
    assert not {"volume-missing", "volume-pending"} & {each["cause"] for each in live["ex-bound"]["others"]}
    others = [each for name in ("ex-second", "ex-third") for each in explained(waiting, name, "small")["others"]]
    (behind,) = [each["numbers"] for each in others if each["cause"] == "priority-behind-others"]
    assert behind["queue"] == "small"
    assert behind["place"] > 1

    pod = waiting.pods("ex-second", "small")[0]["metadata"]["name"]
    for name in (f"pod/{pod}", "jobset/ex-second", "job/ex-second-node-0"):
        assert explained(waiting, name, "small")["cause"] == "queue-capability-full"

    file = tmp_path / "cluster.json"
    require(in_process("snapshot", "save", str(file), "--kubeconfig", str(waiting.kubeconfig)))
    assert "PET_NNODES" in (text := file.read_text())
    assert not any(f'"kind":"{kind}"' in text for kind in ("Secret", "ConfigMap"))
    for name, found in live.items():
        recorded = explained(waiting, name, HOMES[name], "--from", str(file))
        assert [recorded[key] for key in ANSWER] == [found[key] for key in ANSWER], name
    used = json.loads(require(in_process("queues", "show", "--from", str(file), "-o", "json")))["queues"]
    assert next(each for each in used if each["queue"] == "vision")["used"][GPU] == "40"
    assert in_process("topology", "check", str(file)).returncode == 0


def assert_statuses_of_a_kubelet_are_explained(platform: LiveCluster) -> None:
    """Simulated nodes pull no image and start no container, so the pods of a running job get such a status here."""
    last = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    cases: dict[str, tuple[str, dict[str, Any], str | None]] = {
        "ContainerCreating": ("", {}, None),
        "ImagePullBackOff": ("manifest unknown", {}, "image-pull"),
        "CreateContainerConfigError": ('secret "token" not found', {}, "container-configuration"),
        # Without a restartCount: Job's controller would count it against the backoffLimit, and end the job.
        "CrashLoopBackOff": ("back-off 5m0s", {"lastState": last}, "container-crash"),
    }
    pods = platform.pods("ex-right", "vision")
    names = [pod["metadata"]["name"] for pod in pods]
    for reason, (message, more, cause) in cases.items():
        (container,) = platform.pods("ex-right", "vision")[0]["status"]["containerStatuses"]
        state = {"waiting": {"reason": reason, "message": message}}
        status = {"containerStatuses": [{**container, "ready": False, "started": False, "state": state, **more}]}
        for name in names:
            patch = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
            require(platform.kubectl("patch", "pod", name, "-n", "vision", *patch))
        found = explained(platform, "ex-right", "vision")
        if cause is None:
            kubelet = {"image-pull", "container-configuration", "container-crash"}
            assert not kubelet & {found["cause"], *(each["cause"] for each in found["others"])}, reason
        else:
            assert found["cause"] == cause, found
            assert "image" in found["numbers"] or found["numbers"]["pod"] in names
    for pod in pods:
        status = json.dumps({"status": {"containerStatuses": pod["status"]["containerStatuses"]}})
        patch = ("--subresource=status", "--type=merge", "-p", status)
        require(platform.kubectl("patch", "pod", pod["metadata"]["name"], "-n", "vision", *patch))
