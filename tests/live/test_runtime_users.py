"""Reading who uses which runtime."""

from __future__ import annotations

from typing import Any

from trainyard.cluster_state.runtime_users import read_users
from trainyard.jobs.runtimes.changes.impact import RuntimeEffect, reached
from trainyard.kube.kinds import CONFIG_MAPS
from trainyard.kube.training_kinds import TRAIN_JOBS


class FakeClient:
    def __init__(self, jobs: list[Any], config_maps: list[Any]) -> None:
        self._objects = {TRAIN_JOBS: jobs, CONFIG_MAPS: config_maps}
        self.asked: list[Any] = []

    async def list(self, resource: Any) -> list[Any]:
        self.asked.append(resource)
        return self._objects[resource]


def job(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "n"}, "spec": {"runtimeRef": {"name": "plain"}}}


async def test_jobs_with_a_snapshot_keep_it() -> None:
    config_maps = [
        {"metadata": {"name": "old-runtime-snapshot", "namespace": "n"}},
        {"metadata": {"name": "new-runtime-snapshot", "namespace": "other"}},
        {"metadata": {"name": "new", "namespace": "n"}},
    ]
    client = FakeClient([job("old"), job("new")], config_maps)
    found = reached(await read_users(client), ["plain"])  # type: ignore[arg-type]
    assert {each.job: each.effect for each in found} == {
        "n/old": RuntimeEffect.SNAPSHOT,
        "n/new": RuntimeEffect.CHANGES,
    }


async def test_without_jobs_nothing_else_is_read() -> None:
    client = FakeClient([], [])
    assert (await read_users(client)).train_jobs == ()  # type: ignore[arg-type]
    assert client.asked == [TRAIN_JOBS]
