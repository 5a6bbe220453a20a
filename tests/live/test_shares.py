"""Shares of a live cluster, also for a user who may not list pods."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, cast

import pytest

from trainyard.cluster_state.queues import read_shares
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.kinds import PODS
from trainyard.kube.resource import Resource
from trainyard.kube.training_kinds import POD_GROUPS, QUEUES
from trainyard.scheduling.queues.usage import draw_usage

GROUP = {"metadata": {"name": "one", "namespace": "vision"}, "spec": {"minMember": 1}, "status": {"phase": "Running"}}
QUEUE = {"metadata": {"name": "a"}, "spec": {}, "status": {"allocated": {"nvidia.com/gpu": "8", "cpu": "0"}}}


class Cluster:
    """Answers lists."""

    def __init__(self, pods: Iterable[dict[str, Any]] | int) -> None:
        self.pods, self.asked = pods, list[str]()

    async def list(self, resource: Resource, **_selection: Any) -> list[dict[str, Any]]:
        self.asked.append(resource.kind)
        if resource is PODS:
            if isinstance(self.pods, int):
                raise ApiError(self.pods, "Forbidden", "pods is forbidden")
            return list(self.pods)
        return [GROUP] if resource is POD_GROUPS else [QUEUE] if resource is QUEUES else []


def test_pods_are_read_beside_the_gangs() -> None:
    shares = asyncio.run(read_shares(cast("Client", Cluster([]))))
    assert (shares.usage["a"].used, shares.usage["a"].source) == ({}, "pods")
    assert [job.running for job in shares.jobs] == [False]


def test_without_the_right_to_list_pods_amounts_are_the_last_count_of_the_scheduler_and_those_of_the_gangs() -> None:
    shares = asyncio.run(read_shares(cast("Client", Cluster(403))))
    used = shares.usage["a"]
    assert (used.used["nvidia.com/gpu"], used.source) == (8000, "Queue.status.allocated")
    assert "8 used (last count of the scheduler)" in draw_usage([used], "nvidia.com/gpu")
    assert [(job.running, job.counted) for job in shares.jobs] == [(True, False)]


def test_other_errors_are_reported() -> None:
    with pytest.raises(ApiError):
        asyncio.run(read_shares(cast("Client", Cluster(500))))
