"""Who may read metrics: users of bearer tokens that the API server allows to get the path."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import pytest
from aiohttp import web

from tests.kube.fake_api import FakeApi, error
from trainyard.controller import metrics_access
from trainyard.controller.metrics_access import MetricsAccess

OK, UNAUTHORIZED, FORBIDDEN = HTTPStatus.OK, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN
TOO_MANY, UNAVAILABLE = HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE


USER = {"uid": "1", "groups": ["ops"], "extra": {"scopes": ["metrics"]}}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def with_users(api: FakeApi, *readers: str) -> list[dict[str, Any]]:
    """Let tokens be the names of their users, and some users read metrics; return the access reviews."""
    asked: list[dict[str, Any]] = []

    def review(spec: dict[str, Any]) -> dict[str, Any]:
        name = spec["token"]
        return {"authenticated": not name.startswith("bad"), "user": {**USER, "username": name}}

    def access(spec: dict[str, Any]) -> bool:
        asked.append(spec)
        return spec["user"] in readers

    api.review, api.access = review, access
    return asked


async def test_a_user_reads_the_paths_that_the_api_server_allows(api: FakeApi) -> None:
    asked = with_users(api, "ann")
    async with api.client() as client:
        access = MetricsAccess(client)
        assert await access.status("Bearer ann", "/metrics", "10.0.0.1") is OK
        assert await access.status("bearer ann", "/metrics/opa", "10.0.0.1") is OK
        assert await access.status("Bearer bob", "/metrics", "10.0.0.1") is FORBIDDEN
        assert await access.status("Bearer bad", "/metrics", "10.0.0.1") is UNAUTHORIZED
    assert asked == [
        {
            "user": user,
            "uid": "1",
            "groups": ["ops"],
            "extra": {"scopes": ["metrics"]},
            "nonResourceAttributes": {"path": path, "verb": "get"},
        }
        for user, path in (("ann", "/metrics"), ("ann", "/metrics/opa"), ("bob", "/metrics"))
    ]


@pytest.mark.parametrize(
    "header", ["", "ann", "Basic ann", "Bearer ", "Bearer a b", "Bearer ä", "Bearer " + "a" * 20_000]
)
async def test_what_is_no_bearer_token_is_refused_without_a_review(api: FakeApi, header: str) -> None:
    with_users(api, "ann")
    async with api.client() as client:
        assert await MetricsAccess(client).status(header, "/metrics", "10.0.0.1") is UNAUTHORIZED
    assert api.reviewed == []


async def test_results_are_cached_and_reviewed_again(api: FakeApi) -> None:
    with_users(api, "ann")
    clock = Clock()
    async with api.client() as client:
        access = MetricsAccess(client, clock=clock)

        async def statuses() -> list[HTTPStatus]:
            return [await access.status(f"Bearer {name}", "/metrics", "10.0.0.1") for name in ("ann", "bob")]

        assert await statuses() == await statuses() == [OK, FORBIDDEN]
        assert len(api.reviewed) == 2
        with_users(api, "bob")
        clock.now = 11
        assert await statuses() == [OK, OK], "allowed for 60 s, refused for 10"
        clock.now = 61
        assert await statuses() == [FORBIDDEN, OK]


async def test_strangers_cost_few_requests_and_lock_out_neither_known_nor_new_tokens(api: FakeApi) -> None:
    with_users(api, "ann", "ann-renewed")
    clock = Clock()
    async with api.client() as client:
        access = MetricsAccess(client, clock=clock)
        assert await access.status("Bearer ann", "/metrics", "10.0.0.1") is OK

        async def strangers(address: str) -> list[HTTPStatus]:
            return [await access.status(f"Bearer bad-{address}-{each}", "/metrics", address) for each in range(300)]

        assert await strangers("10.0.0.2") == [UNAUTHORIZED] * 20 + [TOO_MANY] * 280
        assert len(api.reviewed) == 21
        for number in range(3, 30):
            await strangers(f"10.0.0.{number}")
        assert await access.status("Bearer ann", "/metrics", "10.0.0.2") is OK, (
            "no refused token replaces an allowed one"
        )
        assert len(api.reviewed) == 1 + 28 * 20
        clock.now = 60.5
        await strangers("10.0.0.1")
        assert await access.status("Bearer ann", "/metrics", "10.0.0.1") is OK, "known tokens need no budget"
        assert await access.status("Bearer ann-renewed", "/metrics", "10.0.0.99") is OK
        assert await strangers("fd00::2") == [UNAUTHORIZED] * 20 + [TOO_MANY] * 280
        assert await access.status("Bearer other", "/metrics", "fd00::3") is TOO_MANY, "one machine has a whole /64"


def away(_: FakeApi, __: web.Request) -> web.Response:
    return error(503, "ServiceUnavailable", "away")


async def test_an_outage_of_the_api_server_hides_no_metrics_from_who_was_allowed(api: FakeApi) -> None:
    with_users(api, "ann")
    clock = Clock()
    async with api.client() as client:
        access = MetricsAccess(client, clock=clock)

        async def status(name: str) -> HTTPStatus:
            return await access.status(f"Bearer {name}", "/metrics", "10.0.0.1")

        assert await status("ann") is OK
        api.fault = away
        clock.now = 60 + 590.0
        assert await status("ann") is OK
        asked = len(api.requests)
        clock.now += 9
        assert await status("ann") is OK
        assert len(api.requests) == asked, "after an unanswered review, known tokens are not reviewed for 10 s"
        assert await status("bob") is UNAVAILABLE
        clock.now = 60 + 601.0
        assert await status("ann") is UNAVAILABLE
        api.fault = None
        assert await status("ann") is OK


async def test_a_missing_permission_is_no_outage_and_logged_once_a_minute(
    api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    def forbidden(_: FakeApi, __: web.Request) -> web.Response:
        return error(403, "Forbidden", "the controller may not create tokenreviews")

    with_users(api, "ann")
    clock = Clock()
    async with api.client() as client:
        access = MetricsAccess(client, clock=clock)
        assert await access.status("Bearer ann", "/metrics", "10.0.0.1") is OK
        api.fault = forbidden
        for clock.now in (61, 62, 130):
            assert await access.status("Bearer ann", "/metrics", "10.0.0.1") is UNAVAILABLE, "that is no outage"
    lines = [each.getMessage() for each in caplog.records if "was not reviewed" in each.getMessage()]
    assert len(lines) == 2
    assert "may not create tokenreviews" in lines[0]


async def test_a_silent_api_server_delays_no_scrape_for_long(
    api: FakeApi, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_access, "_REVIEW_SECONDS", 0.05)
    with_users(api, "ann")
    clock = Clock()
    async with api.client() as client:
        access = MetricsAccess(client, clock=clock)
        assert await access.status("Bearer ann", "/metrics", "10.0.0.1") is OK
        clock.now = 61
        never = asyncio.Event()

        async def silent(*_: object, **__: object) -> dict[str, Any]:
            await never.wait()
            return {}

        monkeypatch.setattr(metrics_access, "review_token", silent)
        strangers = [access.status(f"Bearer bad-{each}", "/metrics", "10.0.0.2") for each in range(20)]
        found = await asyncio.gather(*strangers, access.status("Bearer ann", "/metrics", "10.0.0.1"))
    assert found == [UNAVAILABLE] * 20 + [OK]
    assert "did not answer in time" in caplog.text
