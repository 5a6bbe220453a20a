"""Requests of a pod are those that Kubernetes counts."""

from __future__ import annotations

from tests.render.pod_requests.pods import generated, recorded
from trainyard import quantity
from trainyard.jobs.render.pod_resources import pod_requests


def test_the_requests_of_generated_pods_are_those_that_kubernetes_counts() -> None:
    pods, expected = generated(), recorded()
    assert len(pods) == len(expected) >= 400
    for pod, requests in zip(pods, expected, strict=True):
        amounts = {name: quantity.parse(amount) for name, amount in requests.items()}
        assert pod_requests(pod) == amounts, pod


def test_the_generated_pods_cover_pod_level_resources() -> None:
    levels = [pod["resources"] for pod in generated() if "resources" in pod]
    assert sum("limits" in each and "cpu" not in each.get("requests", {}) for each in levels) >= 30
    assert sum("requests" in each for each in levels) >= 30
