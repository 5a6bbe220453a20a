from __future__ import annotations

import asyncio
import base64
import datetime
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization

from tests.kube.fake_api import FakeApi, error
from tests.kube.kubeconfigs import kubeconfig
from trainyard import pki
from trainyard.errors import TrainyardError
from trainyard.kube import credentials, rotation
from trainyard.kube.api_errors import CredentialsError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.resource import Resource

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
LIFE = datetime.timedelta(days=1)


def config_map(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}}


async def test_a_rotated_token_file_is_reloaded_when_the_old_token_is_rejected(api: FakeApi, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    config = kubeconfig(tmp_path, f"http://127.0.0.1:{api.port}", {"tokenFile": str(token)})
    valid = "old"
    api.fault = lambda fake, request: (
        None if request.headers.get("Authorization") == f"Bearer {valid}" else error(401, "Unauthorized", "")
    )
    async with Client.from_kubeconfig(config) as client:
        await client.create(CONFIG_MAPS, config_map("a"))
        valid = "new"
        token.write_text("new\n")
        await client.create(CONFIG_MAPS, config_map("b"))
        valid = "neither"
        with pytest.raises(CredentialsError, match="401"):
            await client.create(CONFIG_MAPS, config_map("c"))
    assert len(api.writes) == 2


@pytest.mark.parametrize(
    ("server", "cluster", "user", "said"),
    [
        ("https://api", {"insecure-skip-tls-verify": True}, {}, "insecure-skip-tls-verify"),
        ("http://api.example.com", {}, {}, "not encrypted"),
        ("https://api", {}, {"username": "u", "password": "p"}, "not supported"),
        ("https://api", {"certificate-authority": "/does/not/exist"}, {}, "unusable certificate"),
    ],
)
def test_insecure_connections_are_rejected(
    tmp_path: Path, server: str, cluster: dict[str, object], user: dict[str, object], said: str
) -> None:
    with pytest.raises(TrainyardError, match=said):
        credentials.kubeconfig(kubeconfig(tmp_path, server, user, **cluster))


def test_a_kubeconfig_without_the_context_names_the_fix(tmp_path: Path) -> None:
    with pytest.raises(TrainyardError, match="nope"):
        credentials.kubeconfig(kubeconfig(tmp_path, "https://api", {}), "nope")
    with pytest.raises(TrainyardError, match="not found"):
        credentials.kubeconfig(tmp_path / "missing")


def test_client_certificates_are_loaded_and_servers_verified(tmp_path: Path) -> None:
    now, life = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    ca = pki.authority("ca", now=now, lifetime=life)
    pair = pki.issue(ca, "me", now=now, lifetime=life, client=True)
    user = {
        "client-certificate-data": base64.b64encode(pair.certificate).decode(),
        "client-key-data": base64.b64encode(pair.key).decode(),
    }
    trust = {"certificate-authority-data": base64.b64encode(ca.certificate).decode()}
    connection = credentials.kubeconfig(kubeconfig(tmp_path, "https://127.0.0.1:1", user, **trust))
    tls = asyncio.run(connection.credentials.current()).tls
    assert tls is not None
    assert tls.check_hostname
    assert [entry["subject"] for entry in tls.get_ca_certs()]


async def test_an_exec_plugin_prints_the_token(api: FakeApi, tmp_path: Path) -> None:
    script = tmp_path / "plugin"
    script.write_text('#!/bin/sh\necho \'{"status": {"token": "t0ken"}}\'\n')
    script.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script)}}
    api.fault = lambda fake, request: (
        None if request.headers.get("Authorization") == "Bearer t0ken" else error(401, "Unauthorized", "")
    )
    async with Client.from_kubeconfig(kubeconfig(tmp_path, f"http://127.0.0.1:{api.port}", user)) as client:
        await client.create(CONFIG_MAPS, config_map("a"))


class SecureServer:
    """An API server that wants a client certificate and says whose it saw."""

    def __init__(self, folder: Path) -> None:
        now = datetime.datetime.now(datetime.UTC)
        self.folder = folder
        self.authorities = {name: pki.authority(name, now=now, lifetime=LIFE) for name in ("old", "new")}
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.verify_mode = ssl.CERT_REQUIRED
        self.serve_as("old")
        for authority in self.authorities.values():
            self.tls.load_verify_locations(cadata=authority.certificate.decode())
        self.port = 0
        self.reached, self.release = asyncio.Event(), asyncio.Event()

    def issue(self, authority: str, name: str, *, server: bool = False) -> pki.KeyPair:
        return pki.issue(
            self.authorities[authority],
            name,
            now=datetime.datetime.now(datetime.UTC),
            lifetime=LIFE,
            ip_addresses=["127.0.0.1"],
            server=server,
            client=not server,
        )

    def serve_as(self, authority: str) -> None:
        """Present a certificate of an authority on new connections."""
        pair = self.issue(authority, "server", server=True)
        path = self.folder / "server.pem"
        path.write_bytes(pair.certificate + pair.key)
        self.tls.load_cert_chain(path)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        peer = dict(entry[0] for entry in request.transport.get_extra_info("peercert")["subject"])
        name = peer["commonName"]
        if request.path.endswith("/slow"):
            self.reached.set()
            await self.release.wait()
        return web.json_response({"user": name, "token": request.headers.get("Authorization")})


@asynccontextmanager
async def secure(folder: Path) -> AsyncIterator[SecureServer]:
    server = SecureServer(folder)
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server.tls).start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "_CHECK_SECONDS", 0.0)


@pytest.mark.usefixtures("_at_once")
async def test_client_certificates_and_authorities_are_read_again_when_they_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with secure(tmp_path) as server:
        ca, certificate, key = (tmp_path / name for name in ("ca.crt", "client.crt", "client.key"))

        def present(name: str) -> None:
            pair = server.issue("old", name)
            certificate.write_bytes(pair.certificate)
            key.write_bytes(pair.key)

        ca.write_bytes(server.authorities["old"].certificate)
        present("first")
        user = {"client-certificate": "client.crt", "client-key": "client.key"}
        config = kubeconfig(tmp_path, f"https://127.0.0.1:{server.port}", user, **{"certificate-authority": "ca.crt"})
        async with Client.from_kubeconfig(config) as client:
            assert (await client.request("GET", "/api"))["user"] == "first"
            slow = asyncio.create_task(client.request("GET", "/api/slow"))
            await server.reached.wait()
            present("second")
            assert (await client.request("GET", "/api"))["user"] == "second"
            pair = server.issue("old", "third")
            for half in (b"", pair.certificate[:300], pair.certificate):
                certificate.write_bytes(half)
                assert (await client.request("GET", "/api"))["user"] == "second"
            assert "the previous value stays in use" in caplog.text
            key.write_bytes(pair.key)
            assert (await client.request("GET", "/api"))["user"] == "third"
            ca.unlink()
            assert (await client.request("GET", "/api"))["user"] == "third"
            server.serve_as("new")
            for half in (b"", b"\n", server.authorities["new"].certificate[:200]):
                ca.write_bytes(half)
                assert (await client.request("GET", "/api"))["user"] == "third"
            ca.write_bytes(server.authorities["new"].certificate)
            present("fourth")
            assert (await client.request("GET", "/api"))["user"] == "fourth"
            server.release.set()
            assert (await slow)["user"] == "first"


async def test_files_are_looked_at_every_ten_seconds_only(tmp_path: Path) -> None:
    now = 0.0
    path = tmp_path / "file"
    path.write_text("a")
    made = 0

    def read(_: bytes | None) -> str:
        nonlocal made
        made += 1
        return path.read_text()

    value = rotation.FileBacked("it", [path], read, clock=lambda: now)
    assert value.current() == "a"
    path.write_text("bb")
    now = 9.9
    assert value.current() == "a"
    now = 10.0
    assert value.current() == "bb"
    now = 30.0
    assert value.current() == "bb"
    assert made == 2
    path.write_text("ccc")
    assert value.current(now=True) == "ccc"


@pytest.mark.parametrize("content", [None, "", "\n"])
async def test_a_token_file_that_never_was_usable_is_an_error_of_the_credentials(
    api: FakeApi, tmp_path: Path, content: str | None
) -> None:
    token = tmp_path / "token"
    if content is not None:
        token.write_text(content)
    async with Client.from_kubeconfig(
        kubeconfig(tmp_path, f"http://127.0.0.1:{api.port}", {"tokenFile": "token"})
    ) as client:
        with pytest.raises(CredentialsError, match="token file"):
            await client.create(CONFIG_MAPS, config_map("a"))
        assert api.requests == []
        token.write_text("t")
        await client.create(CONFIG_MAPS, config_map("a"))


def test_credentials_are_infrastructure_and_never_a_finding_for_users() -> None:
    assert issubclass(CredentialsError, TransportError)
    assert not issubclass(CredentialsError, TrainyardError)
    error = CredentialsError("plug-in x: it failed", fix="Run it")
    assert (str(error), error.message, error.fix) == ("plug-in x: it failed (Run it)", "plug-in x: it failed", "Run it")


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ({"client-certificate": "c.pem"}, "together"),
        ({"client-certificate": "empty", "client-key": "c.pem"}, "empty is empty"),
        ({"client-certificate": "c.pem", "client-key": "locked"}, "unusable certificate"),
    ],
)
def test_a_client_certificate_that_is_invalid_at_the_start_is_an_immediate_error(
    tmp_path: Path, user: dict[str, str], said: str
) -> None:
    now = datetime.datetime.now(datetime.UTC)
    pair = pki.issue(pki.authority("ca", now=now, lifetime=LIFE), "me", now=now, lifetime=LIFE, client=True)
    (tmp_path / "c.pem").write_bytes(pair.certificate)
    (tmp_path / "empty").touch()
    parsed = serialization.load_pem_private_key(pair.key, None)
    (tmp_path / "locked").write_bytes(
        parsed.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(TrainyardError, match=said):
        credentials.kubeconfig(kubeconfig(tmp_path, "https://api", user))


async def test_an_exec_plugin_prints_a_client_certificate(tmp_path: Path) -> None:
    async with secure(tmp_path) as server:
        (tmp_path / "ca.crt").write_bytes(server.authorities["old"].certificate)
        printed = tmp_path / "printed"
        plugin = tmp_path / "plugin"
        plugin.write_text(f"#!/bin/sh\ncat {printed}\n")
        plugin.chmod(0o755)

        def prints(name: str, expires: datetime.timedelta) -> None:
            pair = server.issue("old", name)
            status = {
                "clientCertificateData": pair.certificate.decode(),
                "clientKeyData": pair.key.decode(),
                "expirationTimestamp": (datetime.datetime.now(datetime.UTC) + expires).isoformat(),
            }
            printed.write_text(json.dumps({"status": status}))

        prints("first", datetime.timedelta(seconds=0.5))
        user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin"}}
        config = kubeconfig(tmp_path, f"https://127.0.0.1:{server.port}", user, **{"certificate-authority": "ca.crt"})
        async with Client.from_kubeconfig(config) as client:
            assert await client.request("GET", "/api") == {"user": "first", "token": None}
            prints("second", datetime.timedelta(hours=1))
            assert await client.request("GET", "/api") == {"user": "first", "token": None}
            await asyncio.sleep(0.5)
            assert await client.request("GET", "/api") == {"user": "second", "token": None}


async def test_the_connection_of_another_user_presents_the_token_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, life = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    ca = pki.authority("ca", now=now, lifetime=life)
    pair = pki.issue(ca, "me", now=now, lifetime=life, client=True)
    user = {
        "client-certificate-data": base64.b64encode(pair.certificate).decode(),
        "client-key-data": base64.b64encode(pair.key).decode(),
        "token": "mine",
    }
    trust = {"certificate-authority-data": base64.b64encode(ca.certificate).decode()}
    identified: list[ssl.SSLContext] = []
    load = ssl.SSLContext.load_cert_chain

    def recorded(context: ssl.SSLContext, *arguments: object, **options: object) -> None:
        identified.append(context)
        load(context, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", recorded)
    own = credentials.kubeconfig(kubeconfig(tmp_path, "https://127.0.0.1:1", user, **trust))
    assert (await own.credentials.current()).tls in identified
    other = own.with_token("theirs")
    found = await other.credentials.current()
    assert found.token == "theirs"
    assert found.tls is not None
    assert found.tls not in identified
    assert [entry["subject"] for entry in found.tls.get_ca_certs()]
    assert await other.credentials.current(rejected=found) == found  # and there is no other one
