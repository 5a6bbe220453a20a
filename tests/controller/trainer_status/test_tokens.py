"""Who presents a token: asked of the API server, remembered for a short time, and never asked without end."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.controller.trainer_status.test_limits import Clock
from tests.kube.fake_api import FakeApi
from trainyard.controller.trainer_status.tokens import TokenPod, TokenReviewer, TooManyTokensError

AUDIENCE = "trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/job/status"
POD = TokenPod("team", "job-node-0-0-abcde")


def token(expires: float = 4600.0) -> str:
    payload = base64.urlsafe_b64encode(json.dumps({"exp": expires}).encode()).rstrip(b"=").decode()
    return f"e30.{payload}.signature"


def accepted(**changes: Any) -> dict[str, Any]:
    user = {
        "username": "system:serviceaccount:team:default",
        "extra": {"authentication.kubernetes.io/pod-name": [POD.name]},
    }
    return {"authenticated": True, "audiences": [AUDIENCE], "user": user, **changes}


class Reviewer:
    def __init__(self, api: FakeApi) -> None:
        self.clock, self.now = Clock(), Clock()
        self.now.now = 1000.0
        self.client = api.client(patience=0)
        self.tokens = TokenReviewer(self.client, clock=self.clock, now=self.now)

    def __call__(self, text: str, address: str = "10.0.0.1") -> asyncio.Future[TokenPod | None]:
        return asyncio.ensure_future(self.tokens.pod(text, AUDIENCE, address))

    def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds
        self.now.now += seconds


@pytest.fixture
async def reviewer(api: FakeApi) -> AsyncIterator[Reviewer]:
    found = Reviewer(api)
    async with found.client:
        yield found


async def test_the_api_server_is_asked_once_a_minute(api: FakeApi, reviewer: Reviewer) -> None:
    api.review = lambda spec: accepted()
    assert await asyncio.gather(*(reviewer(token()) for _ in range(20))) == [POD] * 20
    assert len(api.reviewed) <= 8
    asked = len(api.reviewed)
    reviewer.pass_time(59)
    assert await reviewer(token()) == POD
    assert len(api.reviewed) == asked
    reviewer.pass_time(2)
    api.review = lambda spec: {"authenticated": False}
    assert await reviewer(token()) is None
    assert api.reviewed[-1] == {"token": token(), "audiences": [AUDIENCE]}


async def test_a_token_is_not_trusted_beyond_its_expiry(api: FakeApi, reviewer: Reviewer) -> None:
    api.review = lambda spec: accepted()
    for short in (token(1010.0), "e30.e30.no-expiry", "opaque"):
        assert await reviewer(short) == POD
        asked = len(api.reviewed)
        reviewer.pass_time(11)
        assert await reviewer(short) == POD
        assert len(api.reviewed) == asked + 1


@pytest.mark.parametrize(
    "status",
    [
        {"authenticated": False, "error": "token has expired"},
        accepted(authenticated=False),
        accepted(audiences=[]),
        accepted(audiences=["https://kubernetes.default.svc"]),
        accepted(user={"username": "system:serviceaccount:team:default", "extra": {}}),
        accepted(user={"username": "oidc:team", "extra": {"authentication.kubernetes.io/pod-name": ["job-node"]}}),
        {},
    ],
)
async def test_a_token_that_is_not_bound_to_a_pod_or_has_another_audience_is_rejected(
    api: FakeApi, reviewer: Reviewer, status: dict[str, Any]
) -> None:
    api.review = lambda spec: status
    assert await reviewer(token()) is None
    assert await reviewer(token()) is None
    assert len(api.reviewed) == 1


async def test_a_flood_of_invalid_tokens_does_not_concern_other_addresses(api: FakeApi, reviewer: Reviewer) -> None:
    """A pod of another tenant may send what it likes about the TrainJob, from its own address."""
    api.review = lambda spec: accepted() if spec["token"] == token() else {"authenticated": False}
    for number in range(20):
        assert await reviewer(f"junk-{number}", "fd00::1:1") is None
    for stranger in ("fd00::1:1", "fd00::1:2"):
        with pytest.raises(TooManyTokensError):
            await reviewer("more", stranger)
    assert await reviewer(token(), "fd00:0:0:1::1") == POD


async def test_a_flood_of_invalid_tokens_is_stopped_and_does_not_concern_who_is_known(
    api: FakeApi, reviewer: Reviewer
) -> None:
    api.review = lambda spec: accepted() if spec["token"] == token() else {"authenticated": False}
    assert await reviewer(token()) == POD
    for number in range(20):
        assert await reviewer(f"junk-{number}") is None
    for number in range(100):
        with pytest.raises(TooManyTokensError):
            await reviewer(f"more-{number}")
    assert await reviewer(token()) == POD
    assert len(api.reviewed) == 21
    reviewer.pass_time(1)
    assert await reviewer("later") is None
