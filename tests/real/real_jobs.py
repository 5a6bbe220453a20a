"""TrainJobs whose containers run a line of Python."""

from __future__ import annotations

from typing import Any

import trainyard

__all__ = ["IMAGE", "PYTHON", "job"]

IMAGE = f"localhost/trainyard/trainyard-controller:v{trainyard.__version__}"
"""An image that every node has, with Python."""
PYTHON = "/usr/bin/python3.11"


def job(
    name: str,
    *,
    code: str = "import socket; print(socket.gethostname())",
    runtime: str = "plain",
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
            "runtimeRef": {"name": runtime},
            "trainer": {
                "numNodes": workers,
                "image": IMAGE,
                "command": [PYTHON, "-c", code],
                "resourcesPerNode": {"requests": amounts, "limits": amounts},
            },
            **spec,
        },
    }
