"""Explanations of jobs on a platform without others: what is rejected, hangs, is held, or may not be read."""

from __future__ import annotations

import copy
import datetime
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.bypass_objects import good
from tests.cluster.explained_jobs import (
    explained,
    job,
    on_missing_nodes,
    patched,
    removed,
    scenarios,
    without_devices,
)
from tests.cluster.jobs import node_patch, train_job
from tests.cluster.platform_changes import (
    denials,
    failed,
    hanging,
    kubeconfig_of_token,
    refusals,
    refuse,
    running,
    stopped,
    stored,
)
from tests.support import LiveCluster, awaited, require

pytestmark = pytest.mark.cluster

ZONE = "topology.kubernetes.io/zone"
LASTS = {"annotations": {"trainyard.dev/simulated-duration": "1h"}}
IMAGE = "registry.example/train:1"


def job_set(name: str, **changes: Any) -> dict[str, Any]:
    """Return a JobSet of a person that is not suspended."""
    _, body = good("job-set", f"ex-{name}", podMetadata=LASTS, **changes)
    body["spec"]["suspend"] = False
    return body


def event(pod: dict[str, Any], kind: str, reason: str, message: str) -> dict[str, Any]:
    """Return an event of a pod, as a kubelet records it."""
    metadata = pod["metadata"]
    names = {key: metadata[key] for key in ("name", "namespace", "uid")}
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{metadata['name']}.{reason.lower()}", "namespace": metadata["namespace"]},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", **names},
        **{"type": kind, "reason": reason, "message": message, "source": {"component": "kubelet"}},
        **{"count": 1, "firstTimestamp": now, "lastTimestamp": now},
    }


def test_free_devices_on_no_single_node_are_explained(platform: LiveCluster) -> None:
    """Eight pods leave three devices of each node."""
    spread = job("spread", nodes=8, accelerators=5)
    four, three = job("four", nodes=1, accelerators=4), job("three", nodes=1, accelerators=3)
    many = job("many", nodes=7, accelerators=4)
    try:
        require(platform.apply(spread))
        running(platform, "ex-spread", "vision", 8)
        require(platform.apply(four, many))
        with scenarios(platform) as found:
            numbers = {"pods": 1, "requested": "4", "free": "24", "most": "3", "places": 0}
            found.is_(
                "ex-four", "vision", "Waiting", "node-fragmented", "request at most 3 nvidia.com/gpu per pod", **numbers
            )
            found.lacks("ex-many", "vision", "node-fragmented")  # 28 devices are too many in sum
            require(platform.apply(three))
            found.is_("ex-three", "vision", "Running", None)
            found.lacks("ex-three", "vision", "node-fragmented")
    finally:
        removed(platform, four, many, three, spread)


def test_pods_on_a_failed_node_and_without_a_volume_are_explained(platform: LiveCluster) -> None:
    """KWOK, which would report simulated nodes and pods as healthy again, hangs meanwhile."""
    patch = node_patch(metadata=LASTS, spec={"nodeSelector": {ZONE: "ex"}})
    leaving = train_job("ex-leaving", "vision", "torch-distributed", nodes=1, runtimePatches=[patch])
    mounting = without_devices("mounting", nodes=1)
    node = platform.get("nodes", "--selector", "topology.trainyard.dev/rack")["items"][0]["metadata"]["name"]
    events: list[dict[str, Any]] = []
    try:
        require(platform.kubectl("label", "node", node, f"{ZONE}=ex"))
        require(platform.apply(leaving, mounting))
        (pod,), (mounts,) = (running(platform, name, "vision") for name in ("ex-leaving", "ex-mounting"))
        with scenarios(platform) as found:
            with failed(platform, node):
                found.lacks("ex-leaving", "vision", "pods-terminating")
                name = pod["metadata"]["name"]
                require(platform.kubectl("delete", "pod", name, "-n", "vision", "--wait=false"))
                kept = found.is_("ex-leaving", "vision", "Waiting", "pods-terminating", "--force", count=1, pod=name)
                found.says(kept, f"is on node {node}, which is not ready")
                found.lacks("ex-mounting", "vision", "pods-terminating")
            running(platform, "ex-leaving", "vision")
            found.lacks("ex-leaving", "vision", "pods-terminating")
            with hanging(platform, "kwok"):
                (container,) = mounts["status"]["containerStatuses"]
                creating = {"waiting": {"reason": "ContainerCreating"}}
                status = {
                    "phase": "Pending",
                    "conditions": [{"type": "PodScheduled", "status": "True"}],
                    "containerStatuses": [{**container, "ready": False, "started": False, "state": creating}],
                }
                patched(platform, mounts, status)
                events = [event(mounts, "Normal", "SuccessfulAttachVolume", "AttachVolume.Attach succeeded")]
                require(platform.apply(*events))
                found.is_("ex-mounting", "vision", "Starting", None)
                text = 'MountVolume.SetUp failed for volume "keys": secret "keys" not found'
                events.append(event(mounts, "Warning", "FailedMount", text))
                require(platform.apply(events[1]))
                fix, pod_name = "create what is missing", mounts["metadata"]["name"]
                waits = found.is_("ex-mounting", "vision", "Starting", "volume-mount", fix, pod=pod_name)
                found.says(waits, 'secret "keys" not found')
                found.lacks("ex-mounting", "vision", "pod-sandbox")
                patched(platform, mounts, {**status, "podIP": None, "podIPs": None})
                text = "Failed to create pod sandbox: network rdma not found"
                events.append(event(mounts, "Warning", "FailedCreatePodSandBox", text))
                require(platform.apply(events[2]))
                found.has(
                    "ex-mounting",
                    "vision",
                    "pod-sandbox",
                    "RuntimeClass",
                    node=mounts["spec"]["nodeName"],
                    pod=pod_name,
                )
                patched(platform, mounts, mounts["status"])
                found.is_("ex-mounting", "vision", "Running", None)
    finally:
        platform.kubectl("label", "node", node, f"{ZONE}-")
        removed(platform, leaving, mounting)
        for each in events:
            platform.kubectl("delete", "event", each["metadata"]["name"], "-n", "vision", "--ignore-not-found")


def test_gang_with_fewer_pods_than_its_minimum_is_explained(platform: LiveCluster) -> None:
    """The PodGroup is that of a person: a controller sets the minimum of its own to the number of pods."""
    home = {"name": "own.ex-few", "namespace": "red"}
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": home,
        "spec": {"minMember": 4, "queue": "red"},
    }
    metadata = {"annotations": {**LASTS["annotations"], "scheduling.k8s.io/group-name": "own.ex-few"}}
    containers = [{"name": "node", "image": IMAGE, "resources": {"requests": {"cpu": "1"}}}]
    spec = {"schedulerName": "volcano", "restartPolicy": "Never", "containers": containers}
    few = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**home, "name": "ex-few"},
        "spec": {"parallelism": 3, "completions": 3, "template": {"metadata": metadata, "spec": spec}},
    }
    try:
        require(platform.apply(group, few))
        with scenarios(platform) as found:
            numbers = {"minimum": 4, "pods": 3}
            found.is_("job/ex-few", "red", "Waiting", "gang-too-few-pods", "set minMember to at most 3", **numbers)
            least = ("--type=merge", "-p", '{"spec":{"minMember":3}}')
            require(platform.kubectl("patch", "podgroup", "own.ex-few", "-n", "red", *least))
            found.is_("job/ex-few", "red", "Running", None)
    finally:
        removed(platform, few, group)


def test_what_cannot_be_created_or_run_is_explained(platform: LiveCluster) -> None:
    mounts = {"volumeMounts": [{"name": "keys", "mountPath": "/keys"}]}
    invalid = job_set("invalid", container=mounts)
    valid = job_set("valid", container=mounts, pod={"volumes": [{"name": "keys", "emptyDir": {}}]})
    classless, classed = (
        job_set(f"{name}-class", pod={"priorityClassName": name}) for name in ("red-urgent", "training")
    )
    urgent = stored(platform, "priorityclass", "red-urgent")
    foreign, queued, paused = (without_devices(name, nodes=1, suspend=True) for name in ("foreign", "queued", "paused"))
    queued["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "ex-queue"}
    made = [invalid, valid, classless, classed, foreign, queued, paused]
    try:
        require(platform.kubectl("delete", "priorityclass", "red-urgent"))
        require(platform.apply(*made))
        with scenarios(platform) as found:
            refused = found.is_("jobset/ex-invalid", "red", "Waiting", "creation-failed", "change what the message")
            found.says(refused, "the Jobs of JobSet red/ex-invalid cannot be created")
            found.says(refused, 'volumeMounts[0].name: Not found: "keys"')
            found.is_("jobset/ex-valid", "red", "Running", None)
            found.is_(
                "jobset/ex-red-urgent-class", "red", "Waiting", "priority-class-unknown", "use one of training",
                name="red-urgent", classes=["training", "training-urgent"],
            )  # fmt: skip
            found.is_("jobset/ex-training-class", "red", "Running", None)
            queue = {"queue": "ex-queue", "reason": "it has no Workload yet"}
            found.is_("ex-queued", "vision", "Suspended", "suspended-by-kueue", "quota of ex-queue is free", **queue)
            found.is_("ex-paused", "vision", "Suspended", "suspended-by-user", "kubectl patch trainjob ex-paused")
            found.lacks("ex-paused", "vision", "suspended-by-kueue")
            # The webhook rejects such a runtimeRef; the controller writes this for a TrainJob that was created before.
            found.lacks("ex-foreign", "vision", "runtime-not-supported")
            condition = {
                **{"type": "Failed", "status": "True", "reason": "TrainingRuntimeNotSupported"},
                **{"message": "unsupported runtime: Pod.example.com", "lastTransitionTime": "2026-11-24T10:00:00Z"},
            }
            status = json.dumps({"status": {"conditions": [condition]}})
            patch = ("--subresource=status", "--type=merge", "-p", status)
            require(platform.kubectl("patch", "trainjob", "ex-foreign", "-n", "vision", *patch))
            unknown = found.is_("ex-foreign", "vision", "Failed", "runtime-not-supported", "ClusterTrainingRuntime")
            found.says(unknown, "unsupported runtime: Pod.example.com")
    finally:
        if platform.get("priorityclass", "red-urgent") is None:
            platform.apply(urgent)
        removed(platform, *made)


def test_a_quota_that_is_not_counted_is_explained(platform: LiveCluster) -> None:
    """The controller manager counts a quota at once, so a policy denies that it writes the count again."""
    metadata = {"name": "ex-uncounted", "namespace": "red"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"pods": "100"}}}
    early, late = (without_devices(name, "red", nodes=1) for name in ("early", "late"))
    text = "the test counts nothing"
    checks = {"object.metadata.name != 'ex-uncounted' || !has(object.status.used)": text}
    policy, binding = denials("ex-uncounted", "UPDATE", "", "resourcequotas/status", checks)
    patch = ("patch", "resourcequota", "ex-uncounted", "-n", "red", "--type=merge", "-p")
    count = (*patch, '{"status":{"used":{"pods":"1"}}}', "--subresource=status", "--dry-run=server")
    try:
        require(platform.apply(early))
        running(platform, "ex-early", "red")
        require(platform.apply(quota))
        awaited("the count", lambda: "used" in platform.get("resourcequota", "ex-uncounted", "-n", "red")["status"])
        require(platform.apply(policy, binding))
        awaited("the policy", lambda: text in platform.kubectl(*count).stderr)
        require(platform.kubectl(*patch, '{"status":{"used":null}}', "--subresource=status"))
        with scenarios(platform) as found:
            require(platform.apply(late))
            numbers = {"quota": "ex-uncounted", "namespace": "red"}
            unknown = found.is_("ex-late", "red", "Waiting", "quota-not-counted", "within five minutes", **numbers)
            found.says(unknown, "rejects the pods of Job red/ex-late-node-0")
            found.lacks("ex-early", "red", "quota-not-counted")
            require(platform.kubectl("delete", "validatingadmissionpolicybinding", "ex-uncounted"))
            awaited("the end of the policy", lambda: text not in platform.kubectl(*count).stderr)
            require(platform.kubectl(*patch, '{"spec":{"hard":{"pods":"99"}}}'))
            running(platform, "ex-late", "red")
            found.lacks("ex-late", "red", "quota-not-counted")
    finally:
        removed(platform, early, late, quota, policy, binding)


def test_a_policy_server_and_a_controller_that_are_away_are_explained(platform: LiveCluster) -> None:
    held, denied = (without_devices(name, nodes=1) for name in ("held", "denied"))
    suspended = ("--type=merge", "-p", '{"spec":{"suspend":true}}')
    try:
        require(platform.apply(held))
        refuse(platform)
        running(platform, "ex-held", "vision")
        with scenarios(platform) as found:
            require(platform.apply(denied))
            found.is_("ex-denied", "vision", "Waiting", "policy-denied")
            found.lacks("ex-denied", "vision", "policy-server-away")
            with hanging(platform, "opa"):
                hangs = found.is_("ex-denied", "vision", "Waiting", "policy-server-away", "wait a minute")
                found.says(hangs, "gives no decision, and without one nothing is created: POL-000")
                found.lacks("ex-held", "vision", "policy-server-away")
            with stopped(platform, "kubeflow-trainer-controller-manager"):
                require(platform.kubectl("patch", "jobset", "ex-held", "-n", "vision", *suspended))
                fix = "kubectl scale deployment kubeflow-trainer-controller-manager -n kubeflow-system --replicas=1"
                zero = {"state": "it is scaled to 0 replicas"}
                away = found.is_("ex-held", "vision", "Suspended", "controller-not-running", fix, **zero)
                found.says(away, "its JobSet is still suspended")
            running(platform, "ex-held", "vision")
            found.lacks("ex-held", "vision", "controller-not-running", "child-suspended")
    finally:
        removed(platform, held, denied, *refusals())


@contextmanager
def viewer_without_nodes(platform: LiveCluster, folder: Path) -> Iterator[LiveCluster]:
    """The platform for a person who may list gangs and queues of all tenants, but neither Nodes nor the Platform."""
    kinds = {
        "": ["pods", "events", "persistentvolumeclaims", "resourcequotas"],
        "batch": ["jobs"],
        "jobset.x-k8s.io": ["jobsets"],
        "batch.volcano.sh": ["jobs"],
        "trainer.kubeflow.org": ["trainjobs", "trainingruntimes", "clustertrainingruntimes"],
        "scheduling.volcano.sh": ["podgroups", "queues"],
        "scheduling.k8s.io": ["priorityclasses"],
    }
    rules = [{"apiGroups": [group], "resources": names, "verbs": ["get", "list"]} for group, names in kinds.items()]
    api, name = "rbac.authorization.k8s.io/v1", {"name": "ex-viewer"}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**name, "namespace": "default"}}
    role = {"apiVersion": api, "kind": "ClusterRole", "metadata": name, "rules": rules}
    binding = {
        "apiVersion": api,
        "kind": "ClusterRoleBinding",
        "metadata": name,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **name},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", **name}],
    }
    try:
        require(platform.apply(account, role, binding))
        token = require(platform.kubectl("create", "token", "ex-viewer", "-n", "default")).strip()
        file = kubeconfig_of_token(platform, folder, token)
        yield replace(platform, env={**platform.env, "KUBECONFIG": str(file)})
    finally:
        removed(platform, *({**body, "metadata": copy.deepcopy(body["metadata"])} for body in (binding, role, account)))


def test_what_a_person_without_nodes_reads_is_explained(platform: LiveCluster, tmp_path: Path) -> None:
    waits, runs = on_missing_nodes("waits", "red"), without_devices("runs", nodes=1)
    child = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "ex-child"},
        "spec": {"parent": "red", "weight": 1},
    }
    try:
        with viewer_without_nodes(platform, tmp_path) as viewer:
            require(platform.apply(waits, runs))
            running(platform, "ex-runs", "vision")
            with scenarios(platform) as found, scenarios(viewer) as viewed:
                fix = "ask a person who may list all Nodes to run the same command"
                viewed.is_("ex-waits", "red", "Waiting", "scheduler-message", fix)
                assert "Node" in explained(viewer, "ex-waits", "red")["unread"]
                viewed.is_("ex-runs", "vision", "Running", None)
                found.is_("ex-waits", "red", "Waiting", "node-selector-unmatched")
                viewed.lacks("ex-waits", "red", "queue-tree-unknown")
                require(platform.apply(child))
                numbers = {"queue": "red", "children": ["ex-child"]}
                unknown = "ask the platform team whether it does"
                viewed.is_("ex-waits", "red", "Waiting", "queue-tree-unknown", unknown, **numbers)
                found.is_("ex-waits", "red", "Waiting", "queue-not-leaf")
                found.lacks("ex-waits", "red", "queue-tree-unknown")
                removed(platform, child)
                viewed.is_("ex-waits", "red", "Waiting", "scheduler-message", fix)
                viewed.lacks("ex-waits", "red", "queue-tree-unknown")
    finally:
        removed(platform, child, waits, runs)
