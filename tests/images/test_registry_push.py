"""Pushing: every blob arrives once, with the login of a pull secret, and nothing shows it."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.images.small_project import builder, project
from tests.images.upload_registry import UploadRegistry, accepting
from trainyard.errors import TrainyardError
from trainyard.jobs.runtimes.images.image_reference import parse_image
from trainyard.local.images.built_image import BuiltImage
from trainyard.local.images.image_lock import moved
from trainyard.local.images.oci_archive import read_archive
from trainyard.local.images.registry_push import push_images

PASSWORD = "open sesame"


@pytest.fixture
def image(tmp_path: Path) -> BuiltImage:
    return builder(project(tmp_path / "project")).build()[0]


def pull_secret(folder: Path, address: str, password: str = PASSWORD, *, encoded: bool = True) -> Path:
    file = folder / "pull.json"
    entry = (
        {"auth": base64.b64encode(f"ann:{password}".encode()).decode()}
        if encoded
        else {"username": "ann", "password": password}
    )
    file.write_text(json.dumps({"auths": {address: entry}}))
    return file


@pytest.mark.parametrize("encoded", [True, False])
async def test_an_image_arrives_whole_with_the_login_of_a_pull_secret(
    tmp_path: Path, image: BuiltImage, encoded: bool
) -> None:
    registry = UploadRegistry(login=("ann", PASSWORD))
    async with accepting(registry) as address:
        pushed = await push_images([image], f"{address}/team", pull_secret(tmp_path, address, encoded=encoded))
        assert pushed == [f"{address}/team/tool:v1.0@{image.digest}"]
        content = read_archive(image.archive)
        assert registry.manifests["v1.0"] == content.manifest
        assert registry.blobs.keys() >= {digest for digest, _ in content.layers}
        assert content.config in registry.blobs.values()
        sent = len([each for each in registry.requests if "uploads" in each])
        await push_images([image], f"{address}/team", pull_secret(tmp_path, address))
        assert len([each for each in registry.requests if "uploads" in each]) == sent


@pytest.mark.slow
async def test_a_broken_connection_is_repeated(image: BuiltImage) -> None:
    registry = UploadRegistry(broken_connections=1)
    async with accepting(registry) as address:
        await push_images([image], f"{address}/team")
    assert "v1.0" in registry.manifests


async def test_a_wrong_password_is_an_error_that_does_not_show_it(tmp_path: Path, image: BuiltImage) -> None:
    registry = UploadRegistry(login=("ann", PASSWORD))
    async with accepting(registry) as address:
        with pytest.raises(TrainyardError, match="rejects the credentials") as caught:
            await push_images([image], f"{address}/team", pull_secret(tmp_path, address, "wrong word"))
        assert "wrong word" not in str(caught.value)
        with pytest.raises(TrainyardError, match=r"requires a login.*\n.*--credentials"):
            await push_images([image], f"{address}/team")
    assert registry.blobs == {}


async def test_a_registry_that_refuses_is_named(image: BuiltImage) -> None:
    async with accepting(UploadRegistry(refused=True)) as address:
        with pytest.raises(TrainyardError, match="does not allow this login to push"):
            await push_images([image], f"{address}/team")


async def test_a_layer_is_sent_to_no_other_host(image: BuiltImage) -> None:
    registry = UploadRegistry(location="http://127.0.0.2:1/upload?state=a")
    async with accepting(registry) as address:
        with pytest.raises(TrainyardError, match="wants the layer at another address"):
            await push_images([image], f"{address}/team")


@pytest.mark.parametrize("request_", ["POST blobs", "PUT blobs", "PUT manifests"])
async def test_no_upload_follows_a_redirect_to_another_host(image: BuiltImage, request_: str) -> None:
    other = UploadRegistry()
    async with accepting(other, "127.0.0.2") as elsewhere:
        registry = UploadRegistry(redirected=request_, elsewhere=elsewhere)
        async with accepting(registry) as address:
            with pytest.raises(TrainyardError, match=f"{address} redirects an upload to another address"):
                await push_images([image], f"{address}/team")
    assert other.requests == []


async def test_files_that_cannot_be_read_are_named(tmp_path: Path, image: BuiltImage) -> None:
    with pytest.raises(TrainyardError, match=r"missing\.json cannot be read"):
        await push_images([image], "registry.example", tmp_path / "missing.json")
    with pytest.raises(TrainyardError, match=r"ca\.pem is not a PEM file"):
        await push_images([image], "registry.example", ca=tmp_path / "ca.pem")


@pytest.mark.parametrize("registry", ["", "https://registry.example", "a@b"])
def test_a_registry_is_a_host_with_a_prefix(registry: str) -> None:
    with pytest.raises(TrainyardError, match="is not a registry"):
        moved("localhost/trainyard/tool:v1", registry)


def test_a_registry_name_without_a_dot_needs_a_port() -> None:
    with pytest.raises(TrainyardError, match=r"'harbor/team' is not a registry\n.*harbor:443; Docker Hub is docker"):
        moved("localhost/trainyard/tool:v1", "harbor/team")
    for host in ("harbor:443", "localhost", "docker.io", "[::1]:5000"):
        reference = moved("localhost/trainyard/tool:v1", f"{host}/team")
        assert parse_image(reference).registry == host
