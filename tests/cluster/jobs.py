"""TrainJobs that the tests submit."""

from __future__ import annotations

from typing import Any


def train_job(
    name: str,
    namespace: str,
    runtime: str,
    *,
    nodes: int = 2,
    accelerators: int = 8,
    queue: str | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a TrainJob that asks for whole GPUs on each of its nodes."""
    amount = {"nvidia.com/gpu": str(accelerators), "cpu": "4", "memory": "16Gi"}
    body: dict[str, Any] = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "runtimeRef": {"name": runtime},
            "trainer": {
                "numNodes": nodes,
                "command": ["torchrun", "-m", "train"],
                "resourcesPerNode": {"requests": amount, "limits": amount},
            },
            **spec,
        },
    }
    if queue is not None:
        metadata = {"annotations": {"scheduling.volcano.sh/queue-name": queue}}
        body["spec"]["runtimePatches"] = [
            {"manager": "example.com/tests", "trainingRuntimeSpec": {"template": {"metadata": metadata}}}
        ]
    return body


def node_patch(**pod: Any) -> dict[str, Any]:
    """Return a runtime patch that changes the pod template of the nodes."""
    job = {"name": "node", "template": {"spec": {"template": pod}}}
    return {
        "manager": "example.com/tests",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}},
    }


def lasting(duration: str) -> dict[str, Any]:
    """Return a runtime patch that lets the simulated nodes take their time, such as ``1h``."""
    return node_patch(metadata={"annotations": {"trainyard.dev/simulated-duration": duration}})


def claim(name: str, namespace: str) -> dict[str, Any]:
    """Return a volume that jobs take for granted."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }
