"""Pushing to Debian's registry program over TLS with a pull secret, and pulling back by digest."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.images.small_project import builder, project
from tests.images.test_registry_push import pull_secret
from trainyard.errors import TrainyardError
from trainyard.jobs.runtimes.images.image_reference import parse_image
from trainyard.jobs.runtimes.images.registry import Registry, docker_credentials, trusting
from trainyard.local.images.oci_archive import read_archive
from trainyard.local.images.registry_push import push_images
from trainyard.pki import authority, issue

pytestmark = pytest.mark.slow

PROGRAM = shutil.which("docker-registry")
HASHED = "ann:$2y$05$abcdefghijklmnopqrstuupx2xBUC4954936wVIjyyPHmUBFu0wCW"
"""Password of the user, as bcrypt hash."""
ADDRESS = "127.0.0.2"
"""An address of this machine, in TLS."""


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Run the registry and yield its address and certificate authority."""
    if PROGRAM is None:
        pytest.skip("docker-registry is not installed (Debian: apt-get install docker-registry)")
    now = datetime.datetime.now(datetime.UTC)
    ca = authority("registry", now=now, lifetime=datetime.timedelta(hours=1))
    server = issue(ca, "registry", ip_addresses=[ADDRESS], server=True, now=now, lifetime=datetime.timedelta(hours=1))
    (tmp_path / "ca.pem").write_bytes(ca.certificate)
    (tmp_path / "server.pem").write_bytes(server.certificate)
    (tmp_path / "server.key").write_bytes(server.key)
    (tmp_path / "users").write_text(f"{HASHED}\n")
    with socket.socket() as free:
        free.bind((ADDRESS, 0))
        port = free.getsockname()[1]
    configuration = {
        "version": "0.1",
        "storage": {"filesystem": {"rootdirectory": str(tmp_path / "storage")}},
        "http": {
            "addr": f"{ADDRESS}:{port}",
            "tls": {"certificate": str(tmp_path / "server.pem"), "key": str(tmp_path / "server.key")},
        },
        "auth": {"htpasswd": {"realm": "private", "path": str(tmp_path / "users")}},
    }
    (tmp_path / "registry.yml").write_text(json.dumps(configuration))
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([PROGRAM, "serve", tmp_path / "registry.yml"], stdout=log, stderr=log)
    try:
        asyncio.run(_listening(port, process))
        yield f"{ADDRESS}:{port}", tmp_path / "ca.pem"
    finally:
        process.terminate()
        process.wait(20)


async def _listening(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = asyncio.get_running_loop().time() + 20
    while True:
        assert process.poll() is None, "the registry has ended"
        assert asyncio.get_running_loop().time() < deadline, "the registry does not listen"
        try:
            _, writer = await asyncio.open_connection(ADDRESS, port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return


def test_an_image_is_pushed_with_a_pull_secret_and_pulled_by_digest(tmp_path: Path, registry: tuple[str, Path]) -> None:
    address, ca = registry
    (image,) = builder(project(tmp_path / "project")).build()
    secret = pull_secret(tmp_path, address)
    (pushed,) = asyncio.run(push_images([image], f"{address}/team", secret, ca))
    assert pushed == f"{address}/team/tool:v1.0@{image.digest}"
    content = read_archive(image.archive)

    async def pulled(path: str) -> bytes:
        reference = parse_image(pushed)
        async with Registry(docker_credentials(secret), tls=trusting(ca)) as client:
            url = f"{client.origin(reference.registry)}/v2/{reference.repository}/{path}"
            status, _, body = await client.request("GET", url, reference)
            assert status == 200
            return body

    assert asyncio.run(pulled(f"manifests/{image.digest}")) == content.manifest
    for digest, size in (*content.layers, (json.loads(content.manifest)["config"]["digest"], len(content.config))):
        blob = asyncio.run(pulled(f"blobs/{digest}"))
        assert (f"sha256:{hashlib.sha256(blob).hexdigest()}", len(blob)) == (digest, size)


def test_a_registry_rejects_a_wrong_password_and_an_unknown_authority(
    tmp_path: Path, registry: tuple[str, Path]
) -> None:
    address, ca = registry
    (image,) = builder(project(tmp_path / "project")).build()
    with pytest.raises(TrainyardError) as wrong:
        asyncio.run(push_images([image], address, pull_secret(tmp_path, address, "wrong word"), ca))
    assert "rejects the login" in str(wrong.value)
    assert "wrong word" not in str(wrong.value)
    now = datetime.datetime.now(datetime.UTC)
    other = tmp_path / "other.pem"
    other.write_bytes(authority("other", now=now, lifetime=datetime.timedelta(hours=1)).certificate)
    with pytest.raises(TrainyardError, match="the certificate of the registry is not trusted"):
        asyncio.run(push_images([image], address, pull_secret(tmp_path, address), other))
