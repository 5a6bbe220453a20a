"""Requests of a pod are those that Kubernetes counts, and those that Volcano counts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.queues.pod_requests.pods import generated, recorded
from trainyard import quantity
from trainyard.scheduling.queues.amounts import units
from trainyard.scheduling.queues.pod_requests import counted_by_volcano, requests_of


def test_the_requests_of_generated_pods_are_those_that_kubernetes_counts() -> None:
    pods, expected = generated(), recorded("kubernetes")
    assert len(pods) == len(expected) >= 400
    for pod, requests in zip(pods, expected, strict=True):
        amounts = {name: quantity.parse(amount) for name, amount in requests.items()}
        assert requests_of(pod) == amounts, pod


def test_the_requests_of_generated_pods_are_those_that_volcano_counts() -> None:
    pods, expected = generated(), recorded("volcano")
    assert len(pods) == len(expected) >= 400
    for pod, requests in zip(pods, expected, strict=True):
        assert requests.pop("pods") == 1
        amounts = {name: amount for name, amount in counted_by_volcano(pod).items() if amount}
        assert amounts == {name: amount for name, amount in requests.items() if amount}, pod


def test_volcano_differs_by_pod_level_resources_and_overhead_alone() -> None:
    plain = [{**pod, "resources": {}, "overhead": {}} for pod in generated()]
    for pod in plain:
        kubernetes = {name: quantity.format(amount, name) for name, amount in requests_of(pod).items()}
        assert counted_by_volcano(pod) == units(kubernetes), pod
    assert sum(requests_of(pod) != requests_of(bare) for pod, bare in zip(generated(), plain, strict=True)) >= 150


@pytest.mark.parametrize(
    ("pod", "kubernetes", "volcano"),
    [
        (
            {
                "resources": {"requests": {"cpu": "4", "memory": "8Gi"}},
                "containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}],
                "initContainers": [{"resources": {"requests": {"cpu": "16"}}}],
            },
            {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"},
            {"cpu": "16", "nvidia.com/gpu": "1"},
        ),
        (
            {
                "overhead": {"cpu": "1"},
                "containers": [{"resources": {"requests": {"cpu": "2"}}}],
                "initContainers": [{"resources": {"requests": {"cpu": "8"}}}],
            },
            {"cpu": "9"},
            {"cpu": "8"},
        ),
    ],
    ids=["pod-level resources", "overhead beside a larger init container"],
)
def test_where_volcano_counts_less(pod: dict[str, Any], kubernetes: dict[str, str], volcano: dict[str, str]) -> None:
    assert requests_of(pod) == {name: quantity.parse(amount) for name, amount in kubernetes.items()}
    assert counted_by_volcano(pod) == units(volcano)


def test_the_generated_pods_cover_pod_level_resources() -> None:
    levels = [pod["resources"] for pod in generated() if "resources" in pod]
    assert sum("limits" in each and "cpu" not in each.get("requests", {}) for each in levels) >= 30
    assert sum("requests" in each for each in levels) >= 30
