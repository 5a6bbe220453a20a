"""Push images to a registry through the OCI distribution API."""

from __future__ import annotations

import asyncio
import json
import tarfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import aiohttp

from trainyard.errors import TrainyardError
from trainyard.jobs.runtimes.images.image_reference import ImageReference, parse_image
from trainyard.jobs.runtimes.images.registry import Registry, UnresolvedError, docker_credentials, trusting
from trainyard.local.images.built_image import BuiltImage
from trainyard.local.images.image_lock import moved
from trainyard.local.images.oci_archive import read_archive
from trainyard.progress import Progress, SilentProgress, Step

_TIMEOUT: Final = 900.0
"""Seconds of one request, which may carry a layer of 100 MB over a slow line."""
_ATTEMPTS: Final = 3
_CHUNK: Final = 1 << 18


async def push_images(
    images: Iterable[BuiltImage],
    registry: str,
    credentials: Path | None = None,
    ca: Path | None = None,
    progress: Progress | None = None,
) -> list[str]:
    """Push images and return their references with digests; layers that the registry has are not sent.

    Parameters
    ----------
    images
        Built images.
    registry
        Host, and prefix of the repositories.
    credentials
        Docker configuration with the login, as in a pull secret; None: that of ``docker login``.
    ca
        PEM file with the certificate authority of the registry; None: the system's.

    Raises
    ------
    TrainyardError
        A file is invalid, or the registry cannot be reached, rejects the login or an image. Credentials are not shown.
    """
    logins = docker_credentials(credentials)
    pushed = []
    async with Registry(logins, timeout=_TIMEOUT, tls=trusting(ca) if ca is not None else None) as client:
        for image in images:
            target = parse_image(moved(image.reference, registry))
            with (progress or SilentProgress()).step(f"Push {image.name}") as step:
                try:
                    await _push(client, image, target, step)
                except UnresolvedError as error:
                    raise TrainyardError(
                        f"{target} cannot be pushed: {error}",
                        fix="check the registry's address, its certificate (--ca) and the login (--credentials)",
                    ) from error
            pushed.append(f"{target}@{image.digest}")
    return pushed


async def _push(client: Registry, image: BuiltImage, target: ImageReference, step: Step) -> None:
    content = read_archive(image.archive)
    base = f"{client.origin(target.registry)}/v2/{target.repository}"
    with tarfile.open(image.archive) as archive:
        places = {member.name.rpartition("/")[2]: (member.offset_data, member.size) for member in archive}
    manifest = json.loads(content.manifest)
    blobs = [manifest["config"], *manifest["layers"]]
    sent = 0
    for number, blob in enumerate(blobs):
        step.update(f"layer {number + 1} of {len(blobs)}", fraction=number / len(blobs))
        offset, size = places[blob["digest"].removeprefix("sha256:")]
        sent += await _persistently(_blob, client, target, base, blob["digest"], (image.archive, offset, size))
    headers = {"Content-Type": manifest["mediaType"]}
    await _persistently(_manifest, client, target, f"{base}/manifests/{target.tag}", headers, content.manifest)
    found = await client.digest(ImageReference(target.registry, target.repository, digest=image.digest))
    if found != image.digest:
        raise UnresolvedError(f"{target.registry} has another digest, {found}")
    step.done(f"{sent / 1e6:.1f} MB sent")


async def _persistently(action: Callable[..., Any], *arguments: Any) -> Any:
    """Repeat an action after a broken connection; its requests may be repeated."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return await action(*arguments)
        except TimeoutError as error:
            raise UnresolvedError("the registry timed out") from error
        except aiohttp.ClientConnectorCertificateError as error:
            raise UnresolvedError("the certificate of the registry is not trusted") from error
        except aiohttp.ClientError as error:
            if attempt == _ATTEMPTS:
                raise UnresolvedError("the registry cannot be reached, or breaks connections") from error
            await asyncio.sleep(attempt)
    return None


async def _blob(client: Registry, target: ImageReference, base: str, digest: str, place: tuple[Path, int, int]) -> int:
    status, _, _ = await client.request("HEAD", f"{base}/blobs/{digest}", target)
    if status == 200:
        return 0
    if status != 404:
        _require(status, 404, target)
    uploads = f"{base}/blobs/uploads/"
    status, headers, _ = await client.request("POST", uploads, target, headers={"Content-Length": "0"})
    _require(status, 202, target)
    location = urljoin(uploads, headers.get("Location", ""))
    # The login is for this registry, and must not be sent to another host.
    if urlsplit(location).netloc != urlsplit(base).netloc or urlsplit(location).scheme != urlsplit(base).scheme:
        raise UnresolvedError(f"{target.registry} wants the layer at another address")
    location += f"{'&' if urlsplit(location).query else '?'}digest={digest}"
    size = place[2]
    sent: Mapping[str, str] = {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
    status, _, _ = await client.request("PUT", location, target, headers=sent, body=lambda: _chunks(*place))
    _require(status, 201, target)
    return size


async def _manifest(
    client: Registry, target: ImageReference, url: str, headers: Mapping[str, str], body: bytes
) -> None:
    status, _, _ = await client.request("PUT", url, target, headers=headers, body=lambda: body)
    _require(status, 201, target)


async def _chunks(file: Path, offset: int, size: int) -> AsyncIterator[bytes]:
    with file.open("rb") as content:
        content.seek(offset)
        while size > 0:
            chunk = content.read(min(_CHUNK, size))
            size -= len(chunk)
            yield chunk


def _require(status: int, expected: int, target: ImageReference) -> None:
    if status == expected:
        return
    reasons = {
        401: "rejects the login, or requires one",
        403: "does not allow this login to push",
        404: "has no such repository",
    }
    raise UnresolvedError(f"{target.registry} {reasons.get(status, f'returned status {status}')}")
