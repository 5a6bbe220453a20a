"""Load of SubjectAccessReviews: of many namespaces, only what a viewer may read is reviewed at each turn."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

import pytest

from tests.console.recorded_platform import platform
from tests.kube.fake_api import eventually
from trainyard.insight.console import filtered_source
from trainyard.insight.console.access_review import AccessReviews, Granted
from trainyard.insight.console.filtered_source import FilteredSource, SourceHub
from trainyard.insight.console.recorded_source import RecordedSource
from trainyard.insight.console.shown_kinds import SHOWN_KINDS
from trainyard.kube.client import Client
from trainyard.kube.resource import Resource
from trainyard.kube.reviews import User

NAMESPACES = tuple(f"tenant-{number:03}" for number in range(200))
SHARED = ("queues", "hypernodes", "nodes", "priorityclasses", "platforms")


class Reviewer:
    """An API server that answers SubjectAccessReviews after a while."""

    def __init__(self, *namespaces: str, seconds: float = 0.0) -> None:
        self.namespaces, self.seconds = set(namespaces), seconds
        self.asked: Counter[str] = Counter()

    async def create(self, _: Resource, body: Mapping[str, Any], **__: Any) -> dict[str, Any]:
        spec = body["spec"]
        self.asked[spec["user"]] += 1
        await asyncio.sleep(self.seconds)
        attributes = spec["resourceAttributes"]
        allowed = attributes["resource"] in SHARED or attributes.get("namespace", "") in self.namespaces
        return {"status": {"allowed": allowed}}


def trains(source: FilteredSource) -> bool:
    return any(each["kind"] == "TrainJob" for each in source.observed().objects)


def reviews(reviewer: Reviewer) -> AccessReviews:
    return AccessReviews(cast("Client", reviewer))


async def test_of_200_namespaces_a_renewal_reviews_only_what_is_granted() -> None:
    reviewer = Reviewer("tenant-007")
    found = await reviews(reviewer).granted(User("ann"), NAMESPACES)
    assert {namespace for _, namespace in found.inside} == {"tenant-007"}
    assert reviewer.asked["ann"] < 500
    reviewer.asked.clear()
    assert await reviews(reviewer).confirmed(User("ann"), found) == found
    assert reviewer.asked["ann"] <= 2 * len(SHOWN_KINDS)
    reviewer.namespaces.clear()
    assert await reviews(reviewer).confirmed(User("ann"), found) == Granted(found.everywhere)


@pytest.mark.slow
async def test_ten_viewers_keep_their_rights_while_reviews_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """All reviews of ten viewers take longer than a renewal may, so that they would lose all that they see."""
    monkeypatch.setattr(filtered_source, "_REVIEW_SECONDS", 0.05)
    monkeypatch.setattr(filtered_source, "_RETRY_SECONDS", 1.0)
    monkeypatch.setattr(filtered_source, "_GRANTED_SECONDS", 2.0)
    reviewer = Reviewer("vision", seconds=0.005)
    shared, hub = reviews(reviewer), SourceHub("test", lambda: RecordedSource(platform().observed, "test"))
    await hub.start()
    sources = [FilteredSource(hub, User(f"user-{number}"), shared, NAMESPACES) for number in range(10)]
    await asyncio.gather(*(each.start() for each in sources))
    assert all(each.observed().objects for each in sources)
    await asyncio.sleep(4)
    assert [each.losses for each in sources] == [0] * 10
    reviewer.namespaces.clear()
    await asyncio.wait_for(asyncio.gather(*(each.lost() for each in sources)), 2)
    await eventually(lambda: not any(trains(each) for each in sources))
    for each in sources:
        await each.close()
    await hub.close()


async def test_a_new_right_counts_within_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtered_source, "_REVIEW_SECONDS", 0.02)
    reviewer = Reviewer("vision")
    hub = SourceHub("test", lambda: RecordedSource(platform().observed, "test"))
    await hub.start()
    source = FilteredSource(hub, User("ann"), reviews(reviewer), NAMESPACES)
    await source.start()
    reviewer.namespaces.add("language")
    shown = lambda: any(each["metadata"].get("namespace") == "language" for each in source.observed().objects)  # noqa: E731
    await eventually(shown)
    await source.close()
    await hub.close()
