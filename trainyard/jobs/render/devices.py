"""Accelerators and cores of one training node; they determine its number of processes.

Processes are counted by the accelerators whose name contains "gpu", as upstream counts them: ``nvidia.com/gpu``,
``gpu.intel.com/i915``, ``volcano.sh/vgpu-number``. An amount of one is no count: device plug-ins that share a GPU also
advertise its memory and cores in megabytes and percent (``nvidia.com/gpumem``, ``volcano.sh/vgpu-cores``).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from trainyard.api import Body
from trainyard.jobs.render.accelerators import is_accelerator
from trainyard.jobs.render.job_view import JobView
from trainyard.quantity import parse

_NOTHING: Final = Fraction(0)


def node_resources(job: JobView) -> Body:
    """Return the compute resources of one training node, from which its processes are counted.

    The TrainJob's limits and requests are already merged over those of the runtime, key by key.
    """
    pods, trainer = job.trainer, job.spec.trainer
    container = pods.main_container if pods else None
    requested = trainer.resources_per_node if trainer else None
    if container is None:
        return requested or {}
    return counted_resources(container.get("resources") or {}, requested)


def counted_resources(merged: Body, requested: Body | None) -> Body:
    """Return resources for counting: a limit of the TrainJob takes precedence over a request of the runtime alone.

    Parameters
    ----------
    merged
        Resources of the container.
    requested
        Resources of the TrainJob, which are merged into it.
    """
    requests = (requested or {}).get("requests") or {}
    stale = ((requested or {}).get("limits") or {}).keys() - requests.keys()
    if not stale & merged.get("requests", {}).keys():
        return merged
    kept = {name: amount for name, amount in merged["requests"].items() if name not in stale}
    return {**merged, "requests": kept}


def gpu_count(resources: Mapping[str, Any]) -> Fraction:
    """Return the number of accelerators, requests before limits."""
    return _gpus(resources.get("requests", {})) or _gpus(resources.get("limits", {}))


def cpu_count(resources: Mapping[str, Any]) -> Fraction:
    """Return the number of cores, requests before limits."""
    return _cores(resources.get("requests", {})) or _cores(resources.get("limits", {}))


def _gpus(resource_list: Mapping[str, Any]) -> Fraction:
    total = _NOTHING
    for name, amount in resource_list.items():
        if "gpu" in name.lower() and is_accelerator(name):
            total = total + parse(amount) if total else parse(amount)
    return total


def _cores(resource_list: Mapping[str, Any]) -> Fraction:
    cores = resource_list.get("cpu")
    return _NOTHING if cores is None else parse(cores)
