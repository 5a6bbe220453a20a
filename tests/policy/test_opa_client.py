"""The client of the policy server: whatever goes wrong is a refusal."""

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from opa_client.opa_async import AsyncOpaClient

from trainyard import pki
from trainyard.policy.engines.opa import opa_client
from trainyard.policy.engines.opa.address import OpaAddress
from trainyard.policy.engines.opa.opa_client import OpaClient
from trainyard.policy.review import DecisionUnavailableError

WHOLE: dict[str, Any] = {
    "allowed": True, "violations": [], "warnings": [], "audits": [], "undecided": [], "exempted": [],
}  # fmt: skip
FROM_BUNDLE = {"bundles": {"b": {"revision": "r1"}}}


@asynccontextmanager
async def answering(*answers: Any, tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[OpaAddress, list[str]]]:
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
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
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


@pytest.mark.slow
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


async def test_the_librarys_session_is_made_by_its_hook_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The override of ``_init_session`` is private: with another library it might never be called."""
    assert "_init_session" in vars(AsyncOpaClient)
    made: list[str] = []
    original = AsyncOpaClient._init_session

    async def noted(self: AsyncOpaClient) -> None:
        made.append(type(self).__name__)
        await original(self)

    monkeypatch.setattr(AsyncOpaClient, "_init_session", noted)
    async with AsyncOpaClient():
        assert made == ["AsyncOpaClient"], "the library makes its session in the hook"
    async with answering({"result": WHOLE}) as (address, _), OpaClient(address) as client:
        assert await client.decide({"request": {}}) == WHOLE
        assert client._client is not None
        assert client._client._session._response_class is opa_client._Response
        assert client._client._session.connector is client._client._connector
    assert made == ["AsyncOpaClient"], "the library's own session is not made beside it"


@pytest.mark.parametrize("trusted", ["ours", "another"])
async def test_tls_trusts_the_authority_of_the_address_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: str
) -> None:
    """The authorities of the machine, which the library's session trusts, are not asked."""
    now, lifetime = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    authorities = {name: pki.authority(name, now=now, lifetime=lifetime) for name in ("ours", "another")}
    for name, authority in authorities.items():
        (tmp_path / name).write_bytes(authority.certificate)
    pair = pki.issue(authorities["ours"], "opa", now=now, lifetime=lifetime, ip_addresses=["127.0.0.1"], server=True)
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ours"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    async with answering({"result": WHOLE}, {"result": WHOLE}, tls=context) as (address, _):
        async with AsyncOpaClient("127.0.0.1", address.port, ssl=True, retries=0) as library:
            assert await library._session.post(
                f"https://127.0.0.1:{address.port}/v1/data/trainyard/decision?strict-builtin-errors=true"
            ), "the machine trusts the server"
        async with OpaClient(OpaAddress("127.0.0.1", address.port, ca=tmp_path / trusted)) as client:
            if trusted == "ours":
                assert await client.decide({"request": {}}) == WHOLE
            else:
                with pytest.raises(DecisionUnavailableError, match="certificate verify failed"):
                    await client.decide({"request": {}})
