"""Changes of a live platform below its jobs, which are undone: queues, nodes, programs, and what is refused."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.bypass_objects import good
from tests.support import LiveCluster, awaited, require

GPU = "nvidia.com/gpu"


@contextmanager
def failed(platform: LiveCluster, *nodes: str) -> Iterator[None]:
    """Nodes that are not ready: KWOK, which would report them ready again, is stopped."""
    status = json.dumps({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Test"}]}})
    try:
        with hanging(platform, "kwok"):
            for node in nodes:
                require(platform.kubectl("patch", "node", node, "--subresource=status", "-p", status))
            yield
    finally:
        require(platform.kubectl("wait", "--for=condition=Ready", "node", *nodes, "--timeout=60s"))


@contextmanager
def hanging(platform: LiveCluster, name: str) -> Iterator[None]:
    """A program of the cluster, with all its replicas, that does not answer until the end of the block."""
    pids = _processes(platform, name)
    assert pids, name
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@contextmanager
def changed(platform: LiveCluster, kind: str, name: str, spec: dict[str, Any]) -> Iterator[None]:
    """An object with other fields in its spec; afterwards these have their former values."""
    former = platform.get(kind, name)["spec"]
    undo = {key: former.get(key) for key in spec}
    patch = ("patch", kind, name, "--type=merge", "-p")
    require(platform.kubectl(*patch, json.dumps({"spec": spec})))
    try:
        yield
    finally:
        require(platform.kubectl(*patch, json.dumps({"spec": undo})))


def process(platform: LiveCluster, name: str) -> int:
    """Return the pid of a program of the cluster."""
    return _processes(platform, name)[0]


def _processes(platform: LiveCluster, name: str) -> list[int]:
    """Return the pids of a program of the cluster, one a replica."""
    found = platform.status()
    names = {name, f"{name}-1"}
    return [int(each["pid"]) for each in found["processes"] if each["name"] in names and each["pid"]]


def running(platform: LiveCluster, name: str, namespace: str, pods: int = 1) -> list[dict[str, Any]]:
    """Return the pods of a job once as many run."""

    def probe() -> list[dict[str, Any]] | None:
        found = [each for each in platform.pods(name, namespace) if "deletionTimestamp" not in each["metadata"]]
        found = [each for each in found if each["status"].get("phase") == "Running"]
        return found if len(found) == pods else None

    return awaited(f"{pods} pods of {name} to run", probe)


def set_state(platform: LiveCluster, queue: str, state: str) -> None:
    patch = ("--subresource=status", "--type=merge", "-p", json.dumps({"status": {"state": state}}))
    require(platform.kubectl("patch", "queue", queue, *patch))


@contextmanager
def research_of_five_nodes(platform: LiveCluster) -> Iterator[None]:
    """Queue research with what its running jobs use; the webhook wants children below their parent at any time."""
    five = {"cpu": "768", "memory": "8Ti", GPU: "40"}
    with (
        changed(platform, "queue", "vision", {"capability": five}),
        changed(platform, "queue", "language", {"capability": five, "deserved": {GPU: "8"}}),
        changed(platform, "queue", "research", {"capability": five, "deserved": {GPU: "40"}}),
    ):
        yield


REFUSAL = {
    "ex-denied": "ACC-002 spec.replicatedJobs[0].replicas: the test permits none",
    "ex-refused": "the test permits none",
    "ex-norun": "ACC-002 spec.replicatedJobs[0].replicas: the test permits none",
}
"""What a policy of the test says about JobSets, by their name."""


def denials(name: str, operation: str, group: str, resource: str, checks: dict[str, str]) -> list[dict[str, Any]]:
    """Return a policy that denies an operation with the text of each expression that is false, and its binding."""
    rule = {"apiGroups": [group], "apiVersions": ["*"], "operations": [operation], "resources": [resource]}
    validations = [{"expression": expression, "message": text} for expression, text in checks.items()]
    api, kind, metadata = "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", {"name": name}
    policy = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]}, "validations": validations}
    bound = {"policyName": name, "validationActions": ["Deny"]}
    return [
        {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": policy},
        {"apiVersion": api, "kind": f"{kind}Binding", "metadata": metadata, "spec": bound},
    ]


def refusals() -> list[dict[str, Any]]:
    """Return a policy that denies JobSets by their name, and its binding."""
    checks = {f"object.metadata.name != '{name}'": text for name, text in REFUSAL.items()}
    return denials("ex-refusals", "CREATE", "jobset.x-k8s.io", "jobsets", checks)


def refuse(platform: LiveCluster) -> None:
    """Create the policy, and wait until the API server evaluates it."""
    _, probe = good("job-set", "ex-refused")
    dry_run = ("create", "--dry-run=server", "-f", "-")
    require(platform.apply(*refusals()))
    awaited(
        "the policy",
        lambda: REFUSAL["ex-refused"] in platform.kubectl(*dry_run, stdin=yaml.safe_dump(probe)).stderr,
    )


def plain_pod(name: str, **metadata: Any) -> dict[str, Any]:
    """Return a pod of a person that no scheduler of the platform places."""
    metadata = {"name": f"ex-{name}", "namespace": "default", **metadata}
    spec = {"schedulerName": "ex-none", "containers": [{"name": "node", "image": "registry.example/train:1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


PROGRAMS = {
    "kubeflow-trainer-controller-manager": "kubeflow-system",
    "volcano-scheduler": "volcano-system",
    "volcano-controllers": "volcano-system",
    "jobset-controller-manager": "jobset-system",
}


@contextmanager
def stopped(platform: LiveCluster, *names: str) -> Iterator[None]:
    """Programs of the platform that are scaled to nothing, until the end of the block."""
    former = {name: platform.get("deployment", name, "-n", PROGRAMS[name])["spec"]["replicas"] for name in names}
    try:
        for name in names:
            require(platform.kubectl("scale", "deployment", name, "-n", PROGRAMS[name], "--replicas=0"))
        awaited(f"{', '.join(names)} to end", lambda: not any(_pods_of(platform, name) for name in names))
        yield
    finally:
        for name, replicas in former.items():
            where = ("deployment", name, "-n", PROGRAMS[name])
            require(platform.kubectl("scale", *where, f"--replicas={replicas}"))
        for name in names:
            where = (f"deployment/{name}", "-n", PROGRAMS[name])
            require(platform.kubectl("rollout", "status", *where, "--timeout=90s"))


def _pods_of(platform: LiveCluster, name: str) -> list[str]:
    """Return the pods of a Deployment, also those that end: a program serves for seconds after it was scaled down."""
    found = platform.get("pods", "-n", PROGRAMS[name])["items"]
    return [each["metadata"]["name"] for each in found if each["metadata"]["name"].startswith(f"{name}-")]


def kubeconfig_of_token(platform: LiveCluster, folder: Path, token: str) -> Path:
    """Return a kubeconfig of a user with a token."""
    document = yaml.safe_load(platform.kubeconfig.read_text())
    for user in document["users"]:
        user["user"] = {"token": token}
    path = folder / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document))
    return path


def owner_of(body: dict[str, Any]) -> dict[str, Any]:
    """Return the reference of an object."""
    metadata = body["metadata"]
    names = {"name": metadata["name"], "uid": metadata["uid"], "controller": True}
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], **names}


def stored(platform: LiveCluster, kind: str, name: str) -> dict[str, Any]:
    """Return an object as it can be created again."""
    body: dict[str, Any] = platform.get(kind, name)
    for key in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
        body["metadata"].pop(key, None)
    return body
