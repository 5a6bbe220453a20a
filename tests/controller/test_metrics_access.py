"""Who may read metrics: users of bearer tokens that the API server allows to get the path."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import pytest
from aiohttp import web

from tests.kube.fake_api import FakeApi, error
from trainyard.controller.metrics_access import MetricsAccess

OK, UNAUTHORIZED, FORBIDDEN = HTTPStatus.OK, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN
TOO_MANY, UNAVAILABLE = HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def with_users(api: FakeApi, *readers: str) -> list[dict[str, Any]]:
    """Let tokens be the names of their users, and some users read metrics; return the access reviews."""
    asked: list[dict[str, Any]] = []

    def review(spec: dict[str, Any]) -> dict[str, Any]:
        name = spec["token"]
        return {"authenticated": not name.startswith("bad"), "user": {"username": name, "uid": "1", "groups": ["ops"]}}

    def access(spec: dict[str, Any]) -> bool:
        asked.append(spec)
        return spec["user"] in readers

    api.review, api.access = review, access
    return asked


async def test_a_user_reads_the_paths_that_the_api_server_allows(api: FakeApi) -> None:
    asked = with_users(api, "ann")
    async with api.client() as client:
        access = MetricsAccess(client)
        assert await access.status("Bearer ann", "/metrics") is OK
        assert await access.status("bearer ann", "/metrics/opa") is OK
        assert await access.status("Bearer bob", "/metrics") is FORBIDDEN
        assert await access.status("Bearer bad", "/metrics") is UNAUTHORIZED
    assert asked == [
        {
            "user": user,
            "uid": "1",
            "groups": ["ops"],
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
        assert await MetricsAccess(client).status(header, "/metrics") is UNAUTHORIZED
    assert api.reviewed == []


async def test_results_are_cached_and_reviewed_again(api: FakeApi) -> None:
    with_users(api, "ann")
    clock = Clock()
    async with api.client() as client:
        access = MetricsAccess(client, clock=clock)

        async def statuses() -> list[HTTPStatus]:
            return [await access.status(f"Bearer {name}", "/metrics") for name in ("ann", "bob")]

        assert await statuses() == await statuses() == [OK, FORBIDDEN]
        assert len(api.reviewed) == 2
        with_users(api, "bob")
        clock.now = 11
        assert await statuses() == [OK, OK], "allowed for 60 s, refused for 10"
        clock.now = 61
        assert await statuses() == [FORBIDDEN, OK]


async def test_strangers_cost_few_requests_and_do_not_lock_out_who_was_allowed(api: FakeApi) -> None:
    with_users(api, "ann")
    clock = Clock()
    async with api.client() as client:
        access = MetricsAccess(client, clock=clock)
        assert await access.status("Bearer ann", "/metrics") is OK
        found = [await access.status(f"Bearer bad-{number}", "/metrics") for number in range(100)]
        assert found == [UNAUTHORIZED] * 19 + [TOO_MANY] * 81
        assert len(api.reviewed) == 20
        clock.now = 60.5  # her result has expired
        while await access.status(f"Bearer bad-{len(api.reviewed)}", "/metrics") is UNAUTHORIZED:
            pass
        assert await access.status("Bearer ann", "/metrics") is OK


async def test_an_outage_of_the_api_server_hides_no_metrics_from_who_was_allowed(api: FakeApi) -> None:
    with_users(api, "ann")
    clock = Clock()

    def refuse(_: FakeApi, __: web.Request) -> web.Response:
        return error(503, "ServiceUnavailable", "away")

    async with api.client() as client:
        access = MetricsAccess(client, clock=clock)
        assert await access.status("Bearer ann", "/metrics") is OK
        api.fault = refuse
        clock.now = 60 + 599.0
        assert await access.status("Bearer ann", "/metrics") is OK
        assert await access.status("Bearer bob", "/metrics") is UNAVAILABLE
        clock.now = 60 + 601.0
        assert await access.status("Bearer ann", "/metrics") is UNAVAILABLE
        api.fault = None
        assert await access.status("Bearer ann", "/metrics") is OK
