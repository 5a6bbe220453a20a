"""Accelerators and cores of one training node; they determine its number of processes."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from trainyard.api import Body
from trainyard.quantity import parse
from trainyard.render.job_view import JobView

__all__ = ["cpu_count", "gpu_count", "node_resources"]

_NOTHING = Fraction(0)


def node_resources(job: JobView) -> Body:
    """Return the compute resources of one training node, as rendered into its container.

    The TrainJob's limits and requests are already merged over those of the runtime, key by key.
    """
    pods, trainer = job.trainer, job.spec.trainer
    container = pods.main_container if pods else None
    resources = container.get("resources") if container is not None else trainer and trainer.resources_per_node
    return resources or {}


def gpu_count(resources: Mapping[str, Any]) -> Fraction:
    """Return the number of accelerators: all resources whose name contains "gpu", requests before limits."""
    return _gpus(resources.get("requests", {})) or _gpus(resources.get("limits", {}))


def cpu_count(resources: Mapping[str, Any]) -> Fraction:
    """Return the number of cores, requests before limits."""
    return _cores(resources.get("requests", {})) or _cores(resources.get("limits", {}))


def _gpus(resource_list: Mapping[str, Any]) -> Fraction:
    total = _NOTHING
    for name, amount in resource_list.items():
        if "gpu" in name.lower():
            total = total + parse(amount) if total else parse(amount)
    return total


def _cores(resource_list: Mapping[str, Any]) -> Fraction:
    cores = resource_list.get("cpu")
    return _NOTHING if cores is None else parse(cores)
