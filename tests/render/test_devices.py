"""Accelerators: which resources count devices, and which measure a part of one."""

from __future__ import annotations

import pytest

from trainyard.render.devices import gpu_count, is_accelerator

DEVICES = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "nvidia.com/gpu.shared",
    "example.com/GPU-shared",
    "alpha.kubernetes.io/nvidia-gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "volcano.sh/vgpu-number",
    "metax-tech.com/sgpu",
)
PARTS = (
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
    "example.com/gpu-memory",
    "aliyun.com/gpu-mem",
    "aliyun.com/gpu-core.percentage",
    "volcano.sh/vgpu-memory",
    "volcano.sh/vgpu-cores",
    "koordinator.sh/gpu-memory-ratio",
    "gpu.intel.com/millicores",
    "gpu.intel.com/memory.max",
    "gpu.intel.com/i915_monitoring",
    "gpu.intel.com/tiles",
    "cpu",
    "memory",
    "google.com/tpu",
)


@pytest.mark.parametrize("name", DEVICES)
def test_one_unit_of_a_device_resource_is_an_accelerator(name: str) -> None:
    assert is_accelerator(name)


@pytest.mark.parametrize("name", PARTS)
def test_memory_and_cores_of_a_device_are_none(name: str) -> None:
    assert not is_accelerator(name)


@pytest.mark.parametrize("field", ["limits", "requests"])
def test_devices_of_several_names_are_added(field: str) -> None:
    several = {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "3031", "amd.com/gpu": 1, "cpu": "8"}
    for order in (several, dict(reversed(several.items()))):
        assert gpu_count({field: order}) == 3


def test_shared_devices_count_once_whatever_their_memory_is() -> None:
    shared = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3031", "nvidia.com/gpucores": "30"}
    assert gpu_count({"limits": shared}) == 1
