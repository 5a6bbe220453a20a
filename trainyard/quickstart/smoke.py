"""The smoke job: the smallest TrainJob that proves gang scheduling, topology and the whole chain of controllers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainyard.problem import TrainyardError
from trainyard.settings import StackSettings
from trainyard.topology import compile_fabric

__all__ = ["SMOKE_NAME", "SMOKE_RUNTIME", "accelerator", "smoke_job"]

SMOKE_NAME = "smoke"
SMOKE_RUNTIME = "torch-distributed-gang"


def accelerator(settings: StackSettings) -> str:
    """Return the accelerator resource of the stack's nodes, ``cpu`` where they have none."""
    names = [name for name in _offer(settings) if "/" in name]
    return names[0] if names else "cpu"


def _offer(settings: StackSettings) -> Mapping[str, str]:
    """Return what the first node of the fabric offers."""
    nodes = compile_fabric(settings.fabric).nodes
    return nodes[0].capacity if nodes else settings.fabric.node_shape.capacity


def smoke_job(settings: StackSettings) -> dict[str, Any]:
    """Return a TrainJob that fills two nodes of one rack, for the first tenant of the stack.

    Raises
    ------
    TrainyardError
        The stack has no tenant, so there is nowhere to submit it.
    """
    if not settings.tenants:
        raise TrainyardError(
            "The stack has no tenant to run the smoke job for", fix="declare one under trainyard:tenants"
        )
    tenant = min(settings.tenants)
    resource = accelerator(settings)
    nodes = min(2, len(compile_fabric(settings.fabric).nodes) or 2)
    amount = _offer(settings).get(resource, "1") if resource != "cpu" else "1"
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": SMOKE_NAME, "namespace": tenant},
        "spec": {
            "runtimeRef": {"name": SMOKE_RUNTIME},
            "trainer": {
                "numNodes": nodes,
                "command": ["torchrun", "--nproc-per-node=auto", "-m", "train"],
                "resourcesPerNode": {"requests": {resource: amount}, "limits": {resource: amount}},
            },
        },
    }
