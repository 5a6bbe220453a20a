"""The smoke job: the smallest TrainJob that exercises gang scheduling, topology and all controllers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainyard.errors import TrainyardError
from trainyard.local.cluster.providers import PROVIDERS
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.settings.stack import StackSettings

SMOKE_NAME = "smoke"
SMOKE_RUNTIME = "torch-distributed-gang"

_RENDEZVOUS = Path(__file__).with_name("rendezvous.py")


def accelerator(settings: StackSettings) -> str:
    """Return the accelerator resource of the stack's nodes; ``cpu`` if they have none."""
    names = [name for name in _capacity(settings) if "/" in name]
    return names[0] if names else "cpu"


def _capacity(settings: StackSettings) -> Mapping[str, str]:
    """Return the capacity of the first node of the fabric."""
    nodes = compile_fabric(settings.fabric).nodes
    return nodes[0].capacity if nodes else settings.fabric.node_shape.capacity


def smoke_job(settings: StackSettings) -> dict[str, Any]:
    """Return a TrainJob that fills two nodes of one rack, for the first tenant of the stack.

    Raises
    ------
    TrainyardError
        The stack has no tenant.
    """
    if not settings.active_tenants:
        raise TrainyardError(
            "The smoke job needs a tenant, and the stack has none", fix="declare one under trainyard:tenants"
        )
    tenant = min(settings.active_tenants)
    resource = accelerator(settings)
    nodes = min(2, len(compile_fabric(settings.fabric).nodes) or 2)
    amount = _capacity(settings).get(resource, "1") if resource != "cpu" else "1"
    image = PROVIDERS[settings.cluster.provider].python_image
    code: dict[str, Any] = {"command": ["torchrun", "--nproc-per-node=auto", "-m", "train"]}
    if image is not None:
        code = {"image": image, "command": ["/usr/bin/python3.11", "-c", _RENDEZVOUS.read_text()]}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": SMOKE_NAME, "namespace": tenant},
        "spec": {
            "runtimeRef": {"name": SMOKE_RUNTIME},
            "trainer": {
                "numNodes": nodes,
                **code,
                "resourcesPerNode": {"requests": {resource: amount}, "limits": {resource: amount}},
            },
        },
    }
