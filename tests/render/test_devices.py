"""Processes of a node: the GPUs of its resources."""

from __future__ import annotations

import pytest

from trainyard.jobs.render.devices import gpu_count


@pytest.mark.parametrize("field", ["limits", "requests"])
def test_devices_of_several_names_are_added(field: str) -> None:
    several = {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "3031", "amd.com/gpu": 1, "cpu": "8"}
    for order in (several, dict(reversed(several.items()))):
        assert gpu_count({field: order}) == 3


def test_shared_devices_count_once_whatever_their_memory_is() -> None:
    shared = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3031", "nvidia.com/gpucores": "30"}
    assert gpu_count({"limits": shared}) == 1


def test_accelerators_that_are_not_gpus_do_not_count_processes() -> None:
    assert gpu_count({"limits": {"google.com/tpu": "4", "nvidia.com/mig-1g.5gb": "2", "nvidia.com/gpu": "1"}}) == 1


def test_a_name_that_only_contains_gpu_counts_no_processes() -> None:
    assert gpu_count({"limits": {"example.com/gpu-fan": "4", "example.com/not-a-gpu-really": "8"}}) == 0
