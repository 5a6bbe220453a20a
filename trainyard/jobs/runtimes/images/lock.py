"""``images.lock``: the digest of each image of a catalog, as resolved from its registry."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.jobs.runtimes.catalog import Catalog
from trainyard.jobs.runtimes.folder import LOCK, CatalogFolder
from trainyard.jobs.runtimes.images.image_reference import mirrored, parse_image
from trainyard.jobs.runtimes.pods import containers_of, job_templates
from trainyard.manifests.loader import load
from trainyard.manifests.text_edits import dumped

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_VARIABLES: Final = ("CACHE_IMAGE",)
"""Variables with the image of pods that an initializer creates: those of the data cache."""
_HEADING: Final = """\
# The digest of each image of this catalog. Written by `trainyard runtimes resolve`.
# Images under unresolved have no digest; clusters pull them by tag.
"""


@dataclass(frozen=True)
class ImageLock:
    """Content of an image lock.

    Parameters
    ----------
    digests
        Digest by image, as used in containers.
    unresolved
        Reason by image without a digest.
    """

    digests: Mapping[str, str] = field(default_factory=dict)
    unresolved: Mapping[str, str] = field(default_factory=dict)


def images_of(catalog: Catalog) -> dict[str, list[str]]:
    """Return the images of a catalog, sorted, each with the versions that use it."""
    found: dict[str, list[str]] = {}
    for runtime in catalog.runtimes:
        for version in runtime.versions:
            for image in {place[key] for place, key in _named_images(version.body)}:
                found.setdefault(image, []).append(version.object_name)
    return {image: sorted(found[image]) for image in sorted(found)}


def read_lock(folder: CatalogFolder) -> ImageLock:
    """Return the lock of a folder; empty if it does not exist.

    Raises
    ------
    TrainyardError
        It is invalid.
    """
    path = folder.path(LOCK)
    if LOCK not in folder.texts:
        return ImageLock()
    fix = "regenerate it: trainyard runtimes resolve"
    document = load(folder.texts[LOCK], str(path), fix=fix)
    document = {} if document is None else document
    sections = document if isinstance(document, dict) else {"": document}
    findings = [
        Finding(f"{path}: {section}", "is not a mapping of images", fix)
        for section, entries in sections.items()
        if section not in ("images", "unresolved") or not _is_table(entries)
    ]
    digests = sections.get("images") or {}
    if not findings:
        findings = [
            Finding(
                f"{path}: images[{image}]",
                f"{digest!r} is not a valid digest",
                "use sha256: and 64 hexadecimal digits, or resolve it again",
            )
            for image, digest in digests.items()
            if not _DIGEST.fullmatch(digest)
        ]
    if findings:
        raise TrainyardError("The image lock is invalid", findings=findings)
    return ImageLock(digests, sections.get("unresolved") or {})


def _is_table(entries: Any) -> bool:
    if entries is None:
        return True
    return isinstance(entries, dict) and all(
        isinstance(key, str) and isinstance(value, str) for key, value in entries.items()
    )


def written_lock(lock: ImageLock) -> str:
    """Return the text of a lock; deterministic."""
    sections = {
        name: dict(sorted(entries.items()))
        for name, entries in (("images", lock.digests), ("unresolved", lock.unresolved))
        if entries
    }
    return _HEADING + (dumped(sections) if sections else "images: {}\n")


def installed(catalog: Catalog, digests: Mapping[str, str], mirrors: Mapping[str, str]) -> Catalog:
    """Return a catalog as installed: images in the stack's mirrors, pinned to locked digests.

    The tag is kept beside the digest for readability.

    Parameters
    ----------
    catalog
        The catalog as loaded.
    digests
        Digest by image; see `ImageLock`.
    mirrors
        See `mirrored`.
    """
    if not digests and not mirrors:
        return catalog
    return catalog.changed(lambda body: _replaced(body, digests, mirrors))


def _replaced(body: Mapping[str, Any], digests: Mapping[str, str], mirrors: Mapping[str, str]) -> dict[str, Any]:
    changed: dict[str, Any] = _copy(body)
    for place, key in _named_images(changed):
        place[key] = _image(place[key], digests, mirrors)
    return changed


def _image(image: str, digests: Mapping[str, str], mirrors: Mapping[str, str]) -> str:
    digest = digests.get(image)
    reference = parse_image(image)
    moved = mirrored(reference, mirrors)
    text = image if moved == reference else str(moved)
    return f"{text}@{digest}" if digest and reference.digest is None else text


def _copy(value: Any) -> Any:
    if isinstance(value, dict | Mapping):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list) else value


def _named_images(body: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the locations of images in a runtime: an object and its key."""
    for job in job_templates(body):
        for _, _, container in containers_of(job.pod):
            if _is_text(container.get("image")):
                yield container, "image"
            variables = container.get("env")
            for variable in variables if isinstance(variables, list) else ():
                if (
                    isinstance(variable, dict)
                    and variable.get("name") in _VARIABLES
                    and _is_text(variable.get("value"))
                ):
                    yield variable, "value"


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)
