"""Accelerators and cores of one training node, which determine its number of processes."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from trainyard.api import Body
from trainyard.quantity import parse
from trainyard.render.working_state import Plan

__all__ = ["cpu_count", "gpu_count", "node_resources"]

_NOTHING = Fraction(0)


def node_resources(plan: Plan) -> Body:
    """Return the compute resources of one training node as its container gets them.

    The TrainJob's limits and requests are already merged over the runtime's, key by key.
    """
    pods, asked = plan.trainer, plan.spec.trainer
    container = pods.main_container if pods else None
    resources = container.get("resources") if container is not None else asked and asked.resources_per_node
    return resources or {}


def gpu_count(resources: Mapping[str, Any]) -> Fraction:
    """Return the accelerators asked for: all resources whose name contains "gpu", requests before limits."""
    return _gpus(resources.get("requests", {})) or _gpus(resources.get("limits", {}))


def cpu_count(resources: Mapping[str, Any]) -> Fraction:
    """Return the cores asked for, requests before limits."""
    return _cores(resources.get("requests", {})) or _cores(resources.get("limits", {}))


def _gpus(resource_list: Mapping[str, Any]) -> Fraction:
    return sum((parse(amount) for name, amount in resource_list.items() if "gpu" in name.lower()), _NOTHING)


def _cores(resource_list: Mapping[str, Any]) -> Fraction:
    return parse(resource_list.get("cpu", 0))
