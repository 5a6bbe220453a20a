"""Software bill of materials of an image, as CycloneDX JSON."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

_SPECIFICATION = "1.6"


@dataclass(frozen=True, order=True)
class ImageComponent:
    """A component of an image.

    Parameters
    ----------
    purl
        Package URL, which identifies it.
    name, version
        Name and version.
    sha256
        SHA-256 of the package; empty if it has none.
    """

    purl: str
    name: str
    version: str
    sha256: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the entry, also for the cache."""
        hashes = [{"alg": "SHA-256", "content": self.sha256}] if self.sha256 else []
        return {
            "bom-ref": self.purl,
            "name": self.name,
            "purl": self.purl,
            "type": "library",
            "version": self.version,
            **({"hashes": hashes} if hashes else {}),
        }


def debian_component(package: str, version: str, architecture: str, sha256: str) -> ImageComponent:
    """Return a Debian package."""
    purl = f"pkg:deb/debian/{quote(package)}@{quote(version)}?arch={architecture}&distro=debian-12"
    return ImageComponent(purl, package, version, sha256)


def python_component(name: str, version: str, sha256: str = "") -> ImageComponent:
    """Return a Python package."""
    return ImageComponent(f"pkg:pypi/{quote(name.lower().replace('_', '-'))}@{quote(version)}", name, version, sha256)


def go_components(listing: str) -> list[ImageComponent]:
    """Return the modules in the output of ``go version -m`` of one program, with the Go standard library."""
    found: dict[str, ImageComponent] = {}
    last = ""
    for line in listing.splitlines():
        parts = line.strip().split("\t")
        if parts[0] in ("dep", "mod") and len(parts) > 2 and parts[2] != "(devel)":
            last = parts[1]
            found[last] = _go(parts[1], parts[2])
        elif parts[0] == "=>" and len(parts) > 2:
            found[last] = _go(parts[1], parts[2])
        elif ": go" in line and not line.startswith("\t"):
            version = line.rpartition(": go")[2].split()[0]
            found["stdlib"] = ImageComponent(f"pkg:golang/stdlib@{quote(version)}", "stdlib", version)
    return sorted(found.values())


def _go(module: str, version: str) -> ImageComponent:
    return ImageComponent(f"pkg:golang/{quote(module)}@{quote(version)}", module, version)


def bill_of_materials(reference: str, digest: str, components: Iterable[ImageComponent]) -> str:
    """Return the document; equal for equal images, so it has no time."""
    document = {
        "$schema": f"http://cyclonedx.org/schema/bom-{_SPECIFICATION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": _SPECIFICATION,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{reference}@{digest}')}",
        "version": 1,
        "metadata": {
            "component": {
                "bom-ref": reference,
                "hashes": [{"alg": "SHA-256", "content": digest.removeprefix("sha256:")}],
                "name": reference.rpartition(":")[0],
                "type": "container",
                "version": reference.rpartition(":")[2],
            },
            "tools": {"components": [{"name": "trainyard", "type": "application"}]},
        },
        "components": [component.as_json() for component in sorted(set(components))],
    }
    return json.dumps(document, indent=2) + "\n"
