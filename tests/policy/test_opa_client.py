"""The client of the policy server: whatever goes wrong is a refusal."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from trainyard.policy.engines.opa.opa_client import DecisionUnavailableError, OpaAddress, OpaClient

WHOLE: dict[str, Any] = {
    "allowed": True, "violations": [], "warnings": [], "audits": [], "undecided": [], "exempted": [],
}  # fmt: skip
FROM_BUNDLE = {"bundles": {"b": {"revision": "r1"}}}


@asynccontextmanager
async def answering(*answers: Any) -> AsyncIterator[tuple[OpaAddress, list[str]]]:
    """Run a server that gives these answers in turn: JSON, a status, or the seconds it takes."""
    left = list(answers)
    tokens: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        tokens.append(request.headers.get("Authorization", ""))
        assert request.query["strict-builtin-errors"] == "true"
        current = left.pop(0)
        if isinstance(current, float):
            await asyncio.sleep(current)
            return web.json_response({"result": WHOLE})
        return web.Response(status=current) if isinstance(current, int) else web.json_response(current)

    app = web.Application()
    app.router.add_post("/v1/data/trainyard/decision", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield OpaAddress("127.0.0.1", runner.addresses[0][1]), tokens
    finally:
        await runner.cleanup()


async def ask(*answers: Any, revision: str | None = None, deadline: float = 2.0) -> dict[str, Any]:
    async with answering(*answers) as (address, _):
        address = OpaAddress(address.host, address.port, revision=revision)
        async with OpaClient(address, timeout=deadline) as client:
            return await client.decide({"request": {}})


def test_a_whole_decision_is_returned() -> None:
    assert asyncio.run(ask({"result": WHOLE})) == WHOLE


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({}, "no such rule"),
        ([], "no such rule"),
        ({"result": {}}, "malformed decision"),
        ({"result": True}, "malformed decision"),
        ({"result": {**WHOLE, "allowed": "true"}}, "malformed decision"),
        ({"result": {**WHOLE, "violations": None}}, "malformed decision"),
        ({"result": {**WHOLE, "violations": [{"rule": "X"}]}}, "malformed decision"),
        (500, "returned status 500"),
        (404, "returned status 404"),
    ],
)
def test_anything_else_is_no_decision(answer: Any, reason: str) -> None:
    with pytest.raises(DecisionUnavailableError, match=reason):
        asyncio.run(ask(answer))


def test_a_slow_server_is_no_decision() -> None:
    with pytest.raises(DecisionUnavailableError, match="timed out"):
        asyncio.run(ask(1.0, deadline=0.2))


def test_a_server_that_is_away_is_no_decision() -> None:
    async def away() -> None:
        async with OpaClient(OpaAddress("127.0.0.1", 1)) as client:
            await client.decide({})

    with pytest.raises(DecisionUnavailableError, match="No policy decision"):
        asyncio.run(away())


def test_other_rules_than_expected_are_no_decision() -> None:
    good = {"result": WHOLE, "provenance": FROM_BUNDLE}
    assert asyncio.run(ask(good, revision="r1")) == WHOLE
    for answer in (good, {"result": WHOLE}):
        with pytest.raises(DecisionUnavailableError, match="another revision of the rules"):
            asyncio.run(ask(answer, revision="r2"))


def test_a_renewed_token_is_read_again(tmp_path: Path) -> None:
    async def renewed() -> list[str]:
        token = tmp_path / "token"
        token.write_text("old\n")
        async with answering(401, {"result": WHOLE}) as (address, tokens):
            async with OpaClient(OpaAddress(address.host, address.port, token=token)) as client:
                token.write_text("new\n")
                await client.decide({})
            return tokens

    assert asyncio.run(renewed()) == ["Bearer old", "Bearer new"]


def test_a_server_on_a_socket_is_asked_there(tmp_path: Path) -> None:
    async def asked() -> dict[str, Any]:
        async def answer(request: web.Request) -> web.Response:
            return web.json_response({"result": WHOLE})

        app = web.Application()
        app.router.add_post("/v1/data/trainyard/decision", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.UnixSite(runner, str(tmp_path / "s")).start()
        try:
            async with OpaClient(OpaAddress(socket=tmp_path / "s")) as client:
                return await client.decide({"request": {}})
        finally:
            await runner.cleanup()

    assert asyncio.run(asked()) == WHOLE
