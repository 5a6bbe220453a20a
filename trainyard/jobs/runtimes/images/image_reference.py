"""Image references: parsing, and mapping to a stack's mirrors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trainyard.errors import TrainyardError

_DOCKER: Final = "docker.io"
_PART: Final = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY: Final = re.compile(rf"{_PART}(/{_PART})*")
_HOST: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?|\[[0-9a-fA-F:]+\](:[0-9]{1,5})?")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class ImageReference:
    """An image reference in canonical form.

    Parameters
    ----------
    registry
        Host, with optional port.
    repository
        Repository in the registry.
    tag, digest
        Tag and digest; the digest takes precedence.
    """

    registry: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    @property
    def name(self) -> str:
        """Registry and repository."""
        return f"{self.registry}/{self.repository}"

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.name}{tag}{f'@{self.digest}' if self.digest else ''}"


def parse_image(text: str) -> ImageReference:
    """Parse an image reference as used in containers.

    Raises
    ------
    TrainyardError
        It is invalid.
    """
    rest, at, digest = text.partition("@")
    first, slash, more = rest.partition("/")
    hosted = bool(slash) and (first == "localhost" or any(sign in first for sign in ".:["))
    registry, path = (first, more) if hosted else (_DOCKER, rest)
    if registry == "index.docker.io":
        registry = _DOCKER
    name, colon, tag = path.partition(":")
    repository = f"library/{name}" if registry == _DOCKER and "/" not in name else name
    valid = (
        _HOST.fullmatch(registry)
        and _REPOSITORY.fullmatch(repository)
        and (not colon or _TAG.fullmatch(tag))
        and (not at or _DIGEST.fullmatch(digest))
    )
    if not valid:
        raise TrainyardError(f"{text!r} is not a valid image reference", fix="use REGISTRY/REPOSITORY:TAG")
    return ImageReference(registry, repository, tag or None, digest or None)


def mirrored(reference: ImageReference, mirrors: Mapping[str, str]) -> ImageReference:
    """Return the reference in a mirror; unchanged if no mirror matches.

    Parameters
    ----------
    reference
        The reference.
    mirrors
        Replacements by registry, or by registry and repository prefix; the longest match applies.
    """
    for prefix in sorted(mirrors, key=len, reverse=True):
        source = prefix.rstrip("/")
        if reference.name == source or reference.name.startswith(f"{source}/"):
            place = mirrors[prefix].rstrip("/") + reference.name.removeprefix(source)
            registry, _, repository = place.partition("/")
            return ImageReference(registry, repository, reference.tag, reference.digest)
    return reference
