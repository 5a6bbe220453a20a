"""Digests come from registries or not at all."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.runtimes.fake_registry import FakeRegistry, served
from trainyard.data import data_folder
from trainyard.errors import TrainyardError
from trainyard.jobs.runtimes.catalog_loader import load_catalog
from trainyard.jobs.runtimes.folder import CatalogFolder
from trainyard.jobs.runtimes.images.image_reference import mirrored, parse_image
from trainyard.jobs.runtimes.images.lock import ImageLock, images_of, installed, read_lock, written_lock
from trainyard.jobs.runtimes.images.registry import Registry, UnresolvedError, docker_credentials
from trainyard.jobs.runtimes.images.resolve import ImageResolution, Resolved, locked, resolve

DIGEST = "sha256:" + "a" * 64
INDEX = b'{"schemaVersion": 2, "manifests": []}'


async def ask(registry: FakeRegistry, image: str = "team/train:1.0", **options: Any) -> str:
    """Return what a tag means in a registry, or why it means nothing."""
    async with served(registry) as address, Registry(patience=0, timeout=5, **options) as client:
        try:
            return await client.digest(parse_image(f"{address}/{image}"))
        except UnresolvedError as error:
            return str(error).replace(address, "REGISTRY")


@pytest.mark.parametrize("named", [True, False])
async def test_a_tag_has_the_digest_of_its_index(named: bool) -> None:
    registry = FakeRegistry(named=named)
    digest = registry.put("team/train:1.0", INDEX)
    assert await ask(registry) == digest
    assert registry.asked[0] == "HEAD /v2/team/train/manifests/1.0"


async def test_a_token_is_fetched_where_one_is_wanted() -> None:
    registry = FakeRegistry(token="secret")
    digest = registry.put("team/train:1.0", INDEX)
    assert await ask(registry) == digest
    assert registry.asked[1] == "token fake repository:x:pull"


async def test_a_private_image_needs_the_login() -> None:
    registry = FakeRegistry(token="secret", login=("ann", "pass"))
    digest = registry.put("team/train:1.0", INDEX)
    assert await ask(registry) == "REGISTRY requires a login"
    async with served(registry) as address, Registry({address: ("ann", "pass")}) as client:
        assert await client.digest(parse_image(f"{address}/team/train:1.0")) == digest
    async with served(registry) as address, Registry({address: ("ann", "wrong")}) as client:
        with pytest.raises(UnresolvedError, match="rejects the credentials"):
            await client.digest(parse_image(f"{address}/team/train:1.0"))


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ({}, "REGISTRY does not have the image"),
        ({"statuses": [429] * 3}, "REGISTRY limits the request rate"),
        ({"statuses": [503] * 3}, "REGISTRY returned status 503"),
        ({"statuses": [418]}, "REGISTRY returned status 418"),
        ({"statuses": [403]}, "REGISTRY requires a login"),
        ({"token": "x", "challenge": "Digest realm"}, "REGISTRY requires an unsupported kind of login"),
        (
            {"token": "x", "challenge": 'Bearer realm="http://example.com/t"'},
            "REGISTRY requires an unsupported kind of login",
        ),
        ({"token": "x", "challenge": 'Basic realm="x"'}, "REGISTRY requires a login"),
        ({"token": "x", "token_body": {}}, "REGISTRY returned no token"),
        ({"token": "x", "token_body": {"token": "a\r\nX: y"}}, "REGISTRY returned no token"),
        ({"token": "x", "token_body": b"not json"}, "REGISTRY does not support the distribution API"),
        ({"token": "x", "token_body": b" " * 300_000}, "127.0.0.1 returned more than 262144 bytes"),
    ],
)
async def test_what_a_registry_does_not_say_is_not_known(behaviour: dict[str, Any], reason: str) -> None:
    assert await ask(FakeRegistry(**behaviour)) == reason


async def test_a_registry_that_is_busy_is_asked_again() -> None:
    registry = FakeRegistry(statuses=[429, 500])
    digest = registry.put("team/train:1.0", INDEX)
    assert await ask(registry) == digest


async def test_a_registry_may_send_us_on_but_not_without_tls() -> None:
    registry = FakeRegistry(redirect="/v2/other/train/manifests/1.0")
    digest = registry.put("other/train:1.0", INDEX)
    assert await ask(registry) == digest
    registry.redirect = "http://example.com/v2/"
    assert await ask(registry) == "REGISTRY redirects to an address without TLS"


async def test_a_digest_that_is_none_is_refused() -> None:
    registry = FakeRegistry(digest="sha256:short")
    registry.put("team/train:1.0", INDEX)
    assert await ask(registry) == "REGISTRY returned a digest that is not SHA-256"


async def test_a_manifest_has_a_bound() -> None:
    registry = FakeRegistry(named=False)
    registry.put("team/train:1.0", b" " * (4 * 1024 * 1024 + 1))
    assert await ask(registry) == "127.0.0.1 returned more than 4194304 bytes"


async def test_a_registry_that_is_not_there_is_named() -> None:
    async with Registry(timeout=5) as client:
        with pytest.raises(UnresolvedError, match=r"127.0.0.1:9 cannot be reached"):
            await client.digest(parse_image("127.0.0.1:9/team/train:1.0"))


async def test_the_lock_keeps_what_it_knows() -> None:
    registry = FakeRegistry()
    digest = registry.put("hub/a/one:1", INDEX)
    registry.put("hub/a/moved:1", INDEX)
    registry.put("hub/a/same:1", INDEX)
    images = ["docker.io/a/one:1", "a/moved:1", "a/same:1", "a/gone:1", "a/never:1", f"a/own:1@{DIGEST}", "NO:1"]
    lock = ImageLock({"a/moved:1": DIGEST, "a/same:1": digest, "a/gone:1": DIGEST, "dropped:1": DIGEST})
    async with served(registry) as address, Registry(patience=0) as client:
        found = await resolve(images, lock, client, mirrors={"docker.io": f"{address}/hub"})
        again = await resolve(images, lock, client, mirrors={"docker.io": f"{address}/hub"}, update=True)
    by_image = {each.image: each for each in found}
    assert {image: (each.state.value, each.digest) for image, each in by_image.items()} == {
        "docker.io/a/one:1": ("resolved", digest),
        "a/moved:1": ("moved", DIGEST),
        "a/same:1": ("locked", digest),
        "a/gone:1": ("locked", DIGEST),
        "a/never:1": ("unresolved", None),
        f"a/own:1@{DIGEST}": ("locked", DIGEST),
        "NO:1": ("unresolved", None),
    }
    assert by_image["docker.io/a/one:1"].asked == f"{address}/hub/a/one:1"
    assert {each.image: each.digest for each in again}["a/moved:1"] == digest
    kept = locked(found)
    assert sorted(kept.digests) == ["a/gone:1", "a/moved:1", "a/same:1", "docker.io/a/one:1"]
    assert sorted(kept.unresolved) == ["NO:1", "a/never:1"]


def test_a_lock_is_written_the_same_every_time_and_read_back() -> None:
    lock = ImageLock({"b/c:1": DIGEST, "a/b:1": DIGEST}, {"x/y:1": "x cannot be reached"})
    text = written_lock(lock)
    assert text.index("a/b:1") < text.index("b/c:1") < text.index("x/y:1")
    assert read_lock(CatalogFolder(Path("c"), {"images.lock": text})) == lock
    assert read_lock(CatalogFolder(Path("c"), {"images.lock": written_lock(ImageLock())})) == ImageLock()
    assert read_lock(CatalogFolder(Path("c"), {})) == ImageLock()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("images: {a: latest}", r"c/images.lock: images\[a\]: 'latest' is not a valid digest"),
        ("images: [a]", "is not a mapping of images"),
        ("other: {}", "is not a mapping of images"),
        ("- a", "is not a mapping of images"),
        ("a: [", "is not valid YAML"),
    ],
)
def test_a_lock_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(TrainyardError, match=message):
        read_lock(CatalogFolder(Path("c"), {"images.lock": text}))


def test_an_answer_for_a_program_has_every_field() -> None:
    entry = Resolved("a:1", "m/a:1", ImageResolution.MOVED, DIGEST, "moved").as_json()
    assert entry == {"image": "a:1", "asked": "m/a:1", "state": "moved", "digest": DIGEST, "message": "moved"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python:3.13", "docker.io/library/python:3.13"),
        ("pytorch/pytorch:2", "docker.io/pytorch/pytorch:2"),
        ("index.docker.io/a/b:1", "docker.io/a/b:1"),
        ("localhost/a:1", "localhost/a:1"),
        ("mirror:5000/a/b:1", "mirror:5000/a/b:1"),
        ("[::1]:5000/a:1", "[::1]:5000/a:1"),
        (f"ghcr.io/a/b:1@{DIGEST}", f"ghcr.io/a/b:1@{DIGEST}"),
        ("ghcr.io/a/b", "ghcr.io/a/b"),
    ],
)
def test_references_have_a_long_form(text: str, expected: str) -> None:
    assert str(parse_image(text)) == expected


@pytest.mark.parametrize(
    "text", ["", "A/b:1", "a//b:1", "a:", "a:b c", "a@sha256:1", "-x.io/a:1", "a/b:1:2", "ghcr.io/"]
)
def test_what_no_registry_accepts_is_refused(text: str) -> None:
    with pytest.raises(TrainyardError, match="not a valid image reference"):
        parse_image(text)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("python:3", "m.example/hub/library/python:3"),
        ("ghcr.io/kubeflow/x:1", "m.example:5000/kubeflow/x:1"),
        ("ghcr.io/kubeflowers/x:1", "ghcr.io/kubeflowers/x:1"),
        ("quay.io/x:1", "quay.io/x:1"),
        ("docker.io/team/x:1", "other.example/x:1"),
    ],
)
def test_the_longest_mirror_counts(image: str, expected: str) -> None:
    mirrors = {
        "docker.io": "m.example/hub",
        "ghcr.io/kubeflow": "m.example:5000/kubeflow",
        "docker.io/team": "other.example",
    }
    assert str(mirrored(parse_image(image), mirrors)) == expected


def test_logins_are_those_of_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert docker_credentials() == {}
    token = base64.b64encode(b"ann:pa:ss").decode()
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"auths": {"r.example": {"auth": token}, "h.example": {}, "b.example": {"auth": "%"}}}))
    assert docker_credentials()["r.example"] == ("ann", "pa:ss")
    assert "h.example" not in docker_credentials()
    for text in ("{", "[]"):
        file.write_text(text)
        with pytest.raises(TrainyardError, match="not a valid Docker configuration"):
            docker_credentials()
    assert os.environ["DOCKER_CONFIG"] == str(tmp_path)


def test_the_image_of_the_cache_is_resolved_and_mirrored_like_that_of_a_container() -> None:
    catalog = load_catalog([data_folder("runtimes")], include=["torch-distributed-with-cache"])
    cache = "ghcr.io/kubeflow/trainer/data-cache:v2.3.0"
    assert images_of(catalog)[cache] == ["torch-distributed-with-cache-1.0"]
    cluster = installed(catalog, {cache: DIGEST}, {"ghcr.io/kubeflow": "mirror.example"})
    (body, *_) = cluster.objects()
    assert f"mirror.example/trainer/data-cache:v2.3.0@{DIGEST}" in str(body)
    assert "ghcr.io" not in str(body["spec"])
