"""TrainJobs whose containers run a line of Python."""

from __future__ import annotations

from typing import Any

import trainyard
from tests.support import LiveCluster, require

IMAGE = f"localhost/trainyard/trainyard-controller:v{trainyard.__version__}"
"""An image that every node has, with Python."""
PYTHON = "/usr/bin/python3.11"
WAIT = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); signal.pause()"
GATED = "import os, time\nwhile not os.path.exists('/tmp/open'): time.sleep(0.2)\nprint('through')"
"""Ends when `open_gate` has been called for its pod."""


def job(
    name: str,
    *,
    code: str = "import socket; print(socket.gethostname())",
    runtime: str | dict[str, str] = "plain",
    workers: int = 1,
    namespace: str = "language",
    resources: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a TrainJob."""
    amounts = resources or {"cpu": "200m"}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "runtimeRef": {"name": runtime} if isinstance(runtime, str) else runtime,
            "trainer": {
                "numNodes": workers,
                "image": IMAGE,
                "command": [PYTHON, "-c", code],
                "resourcesPerNode": {"requests": amounts, "limits": amounts},
            },
            **spec,
        },
    }


def runtime(
    name: str,
    namespace: str = "language",
    *,
    pod: dict[str, Any] | None = None,
    job: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a TrainingRuntime of a tenant, with settings of its pods, of their Job and of the JobSet."""
    container = {"name": "node", "image": IMAGE, "securityContext": {"allowPrivilegeEscalation": False}}
    template = {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {**(job or {}), "template": {"spec": {"containers": [container], **(pod or {})}}},
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"trainer.kubeflow.org/framework": "plainml"},
        },
        "spec": {
            "mlPolicy": {"numNodes": 1},
            "podGroupPolicy": {"volcano": {}},
            "template": {"spec": {"replicatedJobs": [{"name": "node", "template": template}], **spec}},
        },
    }


def reference(name: str) -> dict[str, str]:
    """Return the reference of a job to a runtime of its tenant."""
    return {"name": name, "kind": "TrainingRuntime", "apiGroup": "trainer.kubeflow.org"}


def open_gate(cluster: LiveCluster, pod: dict[str, Any]) -> None:
    """Let the container of a pod end that runs `GATED`."""
    metadata = pod["metadata"]
    code = (PYTHON, "-c", "open('/tmp/open', 'w')")
    require(cluster.kubectl("exec", metadata["name"], "-n", metadata["namespace"], "--", *code))
