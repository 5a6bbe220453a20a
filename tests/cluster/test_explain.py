"""Explanations of jobs on the whole platform, live and from a snapshot: rule, numbers and fix."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.bypass_objects import good
from tests.cluster.explained_jobs import (
    CLAIMS,
    EXPECTED,
    FILLERS,
    GPU,
    HOMES,
    JOBS,
    POLITE,
    Found,
    explained,
    job,
    of_runtime,
    on_missing_nodes,
    patched,
    reached,
    removed,
    restarting,
    scenarios,
    selecting,
    without_devices,
)
from tests.cluster.platform_changes import (
    changed,
    failed,
    owner_of,
    plain_pod,
    refusals,
    refuse,
    research_of_five_nodes,
    running,
    set_state,
    stopped,
    stored,
)
from tests.support import LiveCluster, awaited, in_process, require

pytestmark = pytest.mark.cluster

RACK = "topology.trainyard.dev/rack"
ANSWER = ("job", "state", "cause", "numbers", "fix")
ZONE = "topology.kubernetes.io/zone"


@pytest.fixture(scope="module")
def filled(platform: LiveCluster) -> Iterator[LiveCluster]:
    """The platform with jobs on all nodes but one of each rack, which is cordoned."""
    last = [names[-1] for names in racks(platform).values()]
    runtime = of_runtime(platform, POLITE, "training")
    try:
        require(platform.kubectl("cordon", *last))
        require(platform.apply(runtime, *FILLERS))
        for body in FILLERS:
            reached(platform, body["metadata"]["name"], body["metadata"]["namespace"], "Running", None)
        yield platform
    finally:
        platform.kubectl("uncordon", *last)
        removed(platform, *FILLERS, runtime)


@pytest.fixture(scope="module")
def waiting(filled: LiveCluster) -> Iterator[LiveCluster]:
    """The platform with jobs that wait beside those; they are gone afterwards."""
    try:
        require(filled.kubectl("uncordon", *(names[-1] for names in racks(filled).values())))
        require(filled.apply(*CLAIMS, *JOBS))
        yield filled
    finally:
        removed(filled, *JOBS)
        filled.kubectl("delete", "--ignore-not-found", "pvc", "ex-bound", "ex-claimed", "-n", "vision")


def racks(platform: LiveCluster) -> dict[str, list[str]]:
    """Return the nodes of each rack."""
    found: dict[str, list[str]] = {}
    for node in platform.get("nodes", "--selector", RACK)["items"]:
        found.setdefault(node["metadata"]["labels"][RACK], []).append(node["metadata"]["name"])
    return found


def test_statuses_of_a_kubelet_are_explained(filled: LiveCluster) -> None:
    """Simulated nodes pull no image and start no container, so the pods of a running job get such a status here.

    No other job waits yet, so none of them can take the nodes of these pods back.
    """
    last = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    cases: dict[str, tuple[str, dict[str, Any], str | None]] = {
        "ContainerCreating": ("", {}, None),
        "ImagePullBackOff": ("manifest unknown", {}, "image-pull"),
        "CreateContainerConfigError": ('secret "token" not found', {}, "container-configuration"),
        # Without a restartCount: Job's controller would count it against the backoffLimit, and end the job.
        "CrashLoopBackOff": ("back-off 5m0s", {"lastState": last}, "container-crash"),
    }
    pods = filled.pods("ex-right", "vision")
    names = [pod["metadata"]["name"] for pod in pods]
    for reason, (message, more, cause) in cases.items():
        (container,) = filled.pods("ex-right", "vision")[0]["status"]["containerStatuses"]
        state = {"waiting": {"reason": reason, "message": message}}
        status = {"containerStatuses": [{**container, "ready": False, "started": False, "state": state, **more}]}
        for pod in pods:
            patched(filled, pod, status)
        found = explained(filled, "ex-right", "vision")
        if cause is None:
            kubelet = {"image-pull", "container-configuration", "container-crash"}
            assert not kubelet & {found["cause"], *(each["cause"] for each in found["others"])}, reason
        else:
            assert found["cause"] == cause, found
            assert "image" in found["numbers"] or found["numbers"]["pod"] in names
    for pod in pods:
        patched(filled, pod, {"containerStatuses": pod["status"]["containerStatuses"]})


def test_full_nodes_are_explained(filled: LiveCluster) -> None:
    """While one node of each rack is cordoned, all others are full."""
    platform, last = filled, [names[-1] for names in racks(filled).values()]
    cordoned, polite = job("cordoned", nodes=2), job("polite", "language", POLITE, nodes=1)
    tainted = selecting("tainted", "ex")
    outside = selecting("outside", "ex-outside", runtime="torch-distributed-gang")
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "ex-outside", "labels": {ZONE: "ex-outside"}},
        "spec": {"unschedulable": True},
    }
    try:
        with scenarios(platform) as found:
            require(platform.kubectl("label", "node", *last, f"{ZONE}=ex"))
            require(platform.kubectl("taint", "node", *last, "ex=true:NoSchedule"))
            require(platform.apply(cordoned, polite, tainted))
            found.is_(
                "ex-tainted", "vision", "Waiting", "node-taint-not-tolerated", "add a toleration", nodes=2,
                taints=["ex=true:NoSchedule"],
            )  # fmt: skip
            require(platform.kubectl("taint", "node", *last, "ex-"))
            found.lacks("ex-tainted", "vision", "node-taint-not-tolerated")
            found.is_("ex-cordoned", "vision", "Waiting", "nodes-cordoned", "kubectl uncordon", nodes=sorted(last))
            found.lacks("ex-cordoned", "vision", "nodes-not-ready", "share-not-claimed")
            with failed(platform, *last):
                found.is_("ex-cordoned", "vision", "Waiting", "nodes-not-ready", "repair", nodes=sorted(last), count=2)
                found.lacks("ex-cordoned", "vision", "nodes-cordoned")
            with failed(platform, last[0]):
                together = found.is_("ex-cordoned", "vision", "Waiting", "nodes-cordoned", "uncordon", nodes=[last[1]])
                found.says(together, "together with the nodes that are not ready")
                found.has("ex-cordoned", "vision", "nodes-not-ready", "repair", nodes=[last[0]])
            claimed = {"queue": "language", "used": "0", "deserved": "32"}
            lent = found.is_(
                "ex-polite", "language", "Waiting", "share-not-claimed", "a priority class that", **claimed
            )
            found.says(lent, "vision (8 above its share) borrow the rest, but the job takes nothing back")
            keeps = {"reclaimable": False}
            with changed(platform, "queue", "vision", keeps), changed(platform, "queue", "small", keeps):
                fixed = found.is_("ex-polite", "language", "Waiting", "share-not-reclaimable", "set reclaimable: true")
                found.says(fixed, "is not reclaimable")
                found.lacks("ex-polite", "language", "share-not-claimed")
            found.lacks("ex-polite", "language", "share-not-reclaimable")
            removed(platform, cordoned, polite, tainted)
            require(platform.apply(node, outside))
            amounts = {"cpu": "96", "memory": "1Ti", GPU: "8", "pods": "110"}
            status = json.dumps({"status": {"allocatable": amounts, "capacity": amounts}})
            require(
                platform.kubectl("patch", "node", "ex-outside", "--subresource=status", "--type=merge", "-p", status)
            )
            found.is_(
                "ex-outside", "vision", "Waiting", "fabric-no-domain", "list the nodes in HyperNodes", tier="1 (rack)"
            )
            require(platform.kubectl("label", "node", "ex-outside", f"{ZONE}-"))
            found.lacks("ex-outside", "vision", "fabric-no-domain")
    finally:
        platform.kubectl("taint", "node", *last, "ex-")
        platform.kubectl("label", "node", *last, f"{ZONE}-")
        removed(platform, cordoned, polite, tainted, outside, node)


def test_a_node_that_lost_a_device_is_explained(filled: LiveCluster) -> None:
    last = [names[-1] for names in racks(filled).values()]
    (pod, *_) = filled.pods("ex-right", "vision")
    node, waits = pod["spec"]["nodeName"], job("broken", nodes=2)
    numbers = {"used": "48", "requested": "16", "capacity": "63", "nodes": [node]}
    try:
        with scenarios(filled) as found:
            offer(filled, node, "7")
            require(filled.kubectl("uncordon", *last))
            require(filled.apply(waits))
            found.is_("ex-broken", "vision", "Waiting", "nodes-overcommitted", "repair these nodes", **numbers)
            offer(filled, node, "8")
            found.lacks("ex-broken", "vision", "nodes-overcommitted")
            running(filled, "ex-broken", "vision", 2)
    finally:
        offer(filled, node, "8")
        removed(filled, waits)
        filled.kubectl("cordon", *last)


def offer(platform: LiveCluster, node: str, devices: str) -> None:
    """Set the allocatable devices of a node, as the kubelet does when one breaks."""
    patch = json.dumps({"status": {"allocatable": {GPU: devices}}})
    require(platform.kubectl("patch", "node", node, "--subresource=status", "--type=merge", "-p", patch))


def test_jobs_are_explained_live_and_from_a_snapshot(waiting: LiveCluster, tmp_path: Path) -> None:
    for name in ("ex-data", "ex-fetch"):
        running(waiting, name, "language")
    (pod,) = waiting.pods("ex-fetch", "language")
    (container,) = pod["status"]["containerStatuses"]
    ended = {"terminated": {"exitCode": 3, "reason": "Error"}}
    patched(waiting, pod, {"phase": "Failed", "containerStatuses": [{**container, "ready": False, "state": ended}]})
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


def test_changes_of_the_queue_tree_are_explained(waiting: LiveCluster) -> None:
    held, capped = on_missing_nodes("held", "red"), job("capped", "language", POLITE, nodes=1)
    child = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "ex-child"},
        "spec": {"parent": "red", "weight": 1},
    }
    red = stored(waiting, "queue", "red")
    try:
        require(waiting.apply(held))
        with scenarios(waiting) as found:
            found.is_("ex-held", "red", "Waiting", "node-selector-unmatched")
            set_state(waiting, "red", "Closed")
            found.is_("ex-held", "red", "Waiting", "queue-closed", "another queue", queue="red", state="closed")
            found.lacks("ex-second", "small", "queue-closed")
            set_state(waiting, "red", "Open")
            found.lacks("ex-held", "red", "queue-closed")
            require(waiting.apply(child))
            found.is_("ex-held", "red", "Waiting", "queue-not-leaf", "delete the job now", children=["ex-child"])
            halted = found.is_("ex-selector", "vision", "Waiting", "queue-tree-stopped", "delete PodGroup red/ex-held")
            found.says(halted, "is in queue red, which has child queues")
            removed(waiting, child)
            found.lacks("ex-held", "red", "queue-not-leaf")
            found.lacks("ex-selector", "vision", "queue-tree-stopped")
            require(waiting.kubectl("delete", "queue", "red"))
            found.is_("ex-held", "red", "Waiting", "queue-missing", "add queue red", queue="red")
            require(waiting.apply(red))
            found.lacks("ex-held", "red", "queue-missing")
            found.lacks("ex-second", "small", "queue-guarantees-of-others")
            with changed(waiting, "queue", "research", {"guarantee": {"resource": {GPU: "60"}}}):
                numbers = {"queue": "small", "holders": ["research"], "limit": "4", "used": "8"}
                found.is_("ex-second", "small", "Waiting", "queue-guarantees-of-others", "lower guarantees", **numbers)
            found.is_("ex-second", "small", "Waiting", "queue-capability-full")
            with research_of_five_nodes(waiting):
                require(waiting.apply(capped))
                full = {"ancestor": "research", "queue": "language", "used": "40", "limit": "40", "requested": "8"}
                found.is_("ex-capped", "language", "Waiting", "queue-ancestor-full", "a job below research", **full)
            found.lacks("ex-capped", "language", "queue-ancestor-full")
    finally:
        set_state(waiting, "red", "Open") if waiting.get("queue", "red") else waiting.apply(red)
        removed(waiting, held, capped, child)


def test_what_is_not_created_is_explained(waiting: LiveCluster) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "ex-none", "namespace": "small"},
        "spec": {"hard": {"pods": "0"}},
    }
    old, gone = of_runtime(waiting, "ex-old"), of_runtime(waiting, "ex-gone")
    old["metadata"]["labels"]["trainer.kubeflow.org/support"] = "deprecated"
    old["metadata"]["annotations"] = {
        "trainyard.dev/deprecated-since": "2026-01-31",
        "trainyard.dev/remove-after": "2199-01-31",
    }
    made = [
        *(without_devices(name, nodes=1) for name in ("denied", "refused")),
        without_devices("norun", runtime="ex-gone", nodes=1),
        without_devices("old", runtime="ex-old", nodes=1),
        without_devices("quota", "small", nodes=1),
    ]
    try:
        require(waiting.apply(quota, old, gone))
        refuse(waiting)
        awaited("the quota", lambda: waiting.get("resourcequota", "ex-none", "-n", "small")["status"].get("hard"))
        require(waiting.apply(*made))
        with scenarios(waiting) as found:
            running(waiting, "ex-old", "vision")
            found.is_("ex-old", "vision", "Running", "runtime-deprecated", name="ex-old")
            found.is_(
                "ex-denied", "vision", "Waiting", "policy-denied", "rule ACC-002", rule="ACC-002",
                field="spec.replicatedJobs[0].replicas", reason="the test permits none",
            )  # fmt: skip
            found.is_("ex-refused", "vision", "Waiting", "webhook-rejected", "change what", webhook="ex-refusals")
            found.lacks("ex-old", "vision", "policy-denied", "webhook-rejected", "quota-exceeded")
            found.is_("ex-norun", "vision", "Waiting", "policy-denied")
            removed(waiting, gone)
            found.is_("ex-norun", "vision", "Waiting", "runtime-missing", "install ex-gone", name="ex-gone")
            numbers = {"quota": "ex-none", "namespace": "small", "requested": "pods=1", "limited": "pods=0"}
            found.is_("ex-quota", "small", "Waiting", "quota-exceeded", "a larger quota", **numbers)
    finally:
        removed(waiting, *made, *refusals(), quota, old, gone)


def test_how_jobs_end_and_restart_is_explained(waiting: LiveCluster) -> None:
    runtimes = [restarting(waiting, f"ex-{count}", "vision", count) for count in (0, 1)]
    once, never, lost = (
        without_devices(name, nodes=2, runtimeRef={"kind": "TrainingRuntime", "name": runtime})
        for name, runtime in (("once", "ex-1"), ("never", "ex-0"), ("lost", "ex-0"))
    )
    gated_pod, plain = plain_pod("gated"), plain_pod("plain")
    gated_pod["spec"]["schedulingGates"] = [{"name": "example.com/hold"}]
    try:
        require(waiting.apply(*runtimes))
        require(waiting.apply(once, never, lost, gated_pod, plain))
        with scenarios(waiting) as found:
            found.is_("pod/ex-gated", "default", "Waiting", "pods-gated", "removes", gates=["example.com/hold"])
            found.lacks("pod/ex-plain", "default", "pods-gated")
            for name in ("ex-once", "ex-never", "ex-lost"):
                running(waiting, name, "vision", 2)
                found.is_(name, "vision", "Running", None)
            first = {each["metadata"]["uid"] for each in waiting.pods("ex-once", "vision")}
            for name in ("ex-once", "ex-never"):
                patched(waiting, waiting.pods(name, "vision")[0], {"phase": "Failed"})
            require(waiting.kubectl("delete", "jobset", "ex-lost", "-n", "vision"))
            found.is_("ex-never", "vision", "Failed", "job-failed", "kubectl logs -n vision")
            found.is_("ex-lost", "vision", "Failed", "job-set-deleted", "delete the job and create it again")
            awaited(
                "the gang to run again",
                lambda: not first & {each["metadata"]["uid"] for each in running(waiting, "ex-once", "vision", 2)},
            )
            found.is_("ex-once", "vision", "Running", "gang-restarted", restarts=1, bound=" of at most 1")
            found.lacks("ex-never", "vision", "gang-restarted", "restarts-exhausted")
            patched(waiting, waiting.pods("ex-once", "vision")[0], {"phase": "Failed"})
            found.is_("ex-once", "vision", "Failed", "restarts-exhausted", "higher maxRestarts", restarts=1)
    finally:
        removed(waiting, once, never, lost, gated_pod, plain, *runtimes)


def test_programs_that_do_not_run_are_explained(waiting: LiveCluster) -> None:
    runtime = restarting(waiting, "ex-many", "vision", 3)
    reference = {"kind": "TrainingRuntime", "name": "ex-many"}
    again, solo = (without_devices(name, nodes=1, runtimeRef=reference) for name in ("again", "solo"))
    lent, away = job("lent", "language", nodes=1), without_devices("away", nodes=1)
    _, volcano = good("volcano-job", "ex-vc", podMetadata={"annotations": {"trainyard.dev/simulated-duration": "1h"}})
    last = [names[-1] for names in racks(waiting).values()]
    zero = {"state": "it is scaled to 0 replicas"}
    try:
        require(waiting.apply(runtime))
        require(waiting.apply(again, solo))
        for name in ("ex-again", "ex-solo"):
            running(waiting, name, "vision")
        with scenarios(waiting) as found:
            found.lacks("ex-selector", "vision", "scheduler-not-running")
            require(waiting.kubectl("cordon", *last))
            with stopped(waiting, "volcano-scheduler", "volcano-controllers"):
                fix = "kubectl scale deployment volcano-scheduler -n volcano-system --replicas=1"
                found.is_("ex-selector", "vision", "Waiting", "scheduler-not-running", fix, **zero)
                patched(waiting, waiting.pods("ex-again", "vision")[0], {"phase": "Failed"})
                require(waiting.apply(lent, volcano))
                found.has("ex-lent", "language", "share-lent-out", "wait", queue="language", used="0", leaving=0)
                found.lacks("ex-lent", "language", "share-not-claimed")
                found.is_(
                    "vcjob/ex-vc", "red", "Waiting", "volcano-controllers-not-running", "volcano-controllers",
                    missing="PodGroup", **zero,
                )  # fmt: skip
                found.has("ex-again", "vision", "gang-restarting", restarts=1, bound=" of at most 3")
                removed(waiting, lent)
            require(waiting.kubectl("uncordon", *last))
            found.lacks("ex-selector", "vision", "scheduler-not-running")
            found.lacks("vcjob/ex-vc", "red", "volcano-controllers-not-running")
            with stopped(waiting, "jobset-controller-manager"):
                require(waiting.apply(away))
                suspended = ("--type=merge", "-p", '{"spec":{"suspend":true}}')
                require(waiting.kubectl("patch", "job", "ex-solo-node-0", "-n", "vision", *suspended))
                refused = found.is_("ex-away", "vision", "Waiting", "webhook-away", "look at the Deployment behind")
                found.says(refused, "jobset.kb.io")
                held = found.is_("ex-solo", "vision", "Waiting", "job-set-controller-not-running", "scale", **zero)
                found.says(held, "the Jobs of the JobSet are still suspended")
                found.has("ex-solo", "vision", "child-suspended", "within a minute", object="Job ex-solo-node-0")
            found.lacks("ex-solo", "vision", "job-set-controller-not-running", "child-suspended")
            found.lacks("ex-away", "vision", "webhook-away")
            command = {
                "apiVersion": "bus.volcano.sh/v1alpha1",
                "kind": "Command",
                "metadata": {"name": "ex-abort", "namespace": "red"},
                "action": "AbortJob",
                "target": owner_of(waiting.get("vcjob", "ex-vc", "-n", "red")),
            }
            found.lacks("vcjob/ex-vc", "red", "volcano-job-aborted")
            require(waiting.apply(command))
            found.is_("vcjob/ex-vc", "red", "Failed", "volcano-job-aborted", "vcctl job resume -n red -N ex-vc")
    finally:
        waiting.kubectl("uncordon", *last)
        with contextlib.suppress(AssertionError):
            removed(waiting, volcano)
        removed(waiting, again, solo, lent, away, runtime)
