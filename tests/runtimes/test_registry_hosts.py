"""Logins go to the registry and its token server, whatever redirects, proxies and netrc files say."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.runtimes.fake_registry import FakeRegistry, served
from trainyard.jobs.runtimes.images.image_reference import parse_image
from trainyard.jobs.runtimes.images.registry import Registry, UnresolvedError

INDEX = b'{"schemaVersion": 2, "manifests": []}'
LOGIN = ("ann", "pass")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@asynccontextmanager
async def recorder() -> AsyncIterator[tuple[str, list[str]]]:
    """Run a proxy that refuses everything; yield its address and what it received."""
    received: list[str] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", received


@pytest.mark.parametrize("challenge", [None, 'Basic realm="x"'])
async def test_a_host_that_the_registry_redirects_to_gets_no_login(challenge: str | None) -> None:
    other = FakeRegistry(token="x", challenge=challenge)
    async with served(other, "127.0.0.2") as elsewhere:
        registry = FakeRegistry(redirect=f"http://{elsewhere}/v2/team/train/manifests/1.0")
        async with served(registry) as address, Registry({address: LOGIN}, patience=0) as client:
            with pytest.raises(UnresolvedError) as caught:
                await client.digest(parse_image(f"{address}/team/train:1.0"))
    assert str(caught.value) == f"{address} redirects to a host that requires a login"
    assert other.asked == ["HEAD /v2/team/train/manifests/1.0"]
    assert registry.asked == ["HEAD /v2/team/train/manifests/1.0"]


async def test_a_login_on_this_machine_passes_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = FakeRegistry(token="secret", login=LOGIN)
    digest = registry.put("team/train:1.0", INDEX)
    async with recorder() as (proxy, received), served(registry) as address:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://{proxy}")
        async with Registry({address: LOGIN}, timeout=5) as client:
            assert await client.digest(parse_image(f"{address}/team/train:1.0")) == digest
    assert received == []


async def test_a_netrc_file_does_not_replace_the_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login other password wrong\n")
    monkeypatch.setenv("NETRC", str(netrc))
    registry = FakeRegistry(token="secret", login=LOGIN)
    digest = registry.put("team/train:1.0", INDEX)
    async with served(registry) as address, Registry({address: LOGIN}, timeout=5) as client:
        assert await client.digest(parse_image(f"{address}/team/train:1.0")) == digest


async def test_tls_uses_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    image = parse_image("registry.invalid/team/train:1.0")
    async with recorder() as (proxy, received), Registry(timeout=5) as client:
        monkeypatch.setenv("https_proxy", f"http://bob:word@{proxy}")
        with pytest.raises(UnresolvedError, match=r"registry\.invalid"):
            await client.digest(image)
        (request,) = received
        assert request.startswith("CONNECT registry.invalid:443 ")
        assert f"Proxy-Authorization: Basic {base64.b64encode(b'bob:word').decode()}" in request
        monkeypatch.setenv("no_proxy", "registry.invalid")
        with pytest.raises(UnresolvedError, match=r"registry\.invalid cannot be reached"):
            await client.digest(image)
        assert len(received) == 1


async def test_a_registry_with_tls_has_a_token_server_with_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = FakeRegistry(token="secret", login=LOGIN)
    async with served(servers) as realm, Registry({"registry.example": LOGIN}, timeout=5) as client:

        async def challenged(*_: object) -> tuple[int, dict[str, str], bytes]:
            return 401, {"WWW-Authenticate": f'Bearer realm="http://{realm}/token"'}, b""

        monkeypatch.setattr(client, "_once", challenged)
        with pytest.raises(UnresolvedError, match=r"registry\.example requires an unsupported kind of login"):
            await client.digest(parse_image("registry.example/team/train:1.0"))
    assert servers.asked == []
