"""Resources: URL paths and cache keys of objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote

Object = dict[str, Any]
Key = tuple[str, str]


@dataclass(frozen=True)
class Resource:
    """One API resource.

    Parameters
    ----------
    group
        API group; empty for the core group.
    version
        API version.
    plural
        Lower-case plural, as in URLs.
    kind
        Kind of its objects.
    namespaced
        Whether its objects live in namespaces.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Return ``group/version``, or the bare version of the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, *, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the URL path of a collection, an object or a subresource.

        Raises
        ------
        ValueError
            If an object of a namespaced resource is addressed without its namespace.
        """
        if self.namespaced and name is not None and not namespace:
            raise ValueError(f"{self} {name}: a namespace is required")
        parts = ["api", self.version] if not self.group else ["apis", self.group, self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [self.plural, *([name] if name else []), *([subresource] if subresource else [])]
        return "/" + "/".join(map(_quoted, parts))


@lru_cache(maxsize=4096)
def _quoted(part: str) -> str:
    return quote(part, safe="")


def key_of(body: Mapping[str, Any]) -> Key:
    """Return (namespace, name); the namespace is empty for cluster-scoped objects."""
    metadata = body["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def uid_of(body: Mapping[str, Any]) -> str:
    """Return the uid, or an empty string for an object that has not been stored."""
    return str(body["metadata"].get("uid") or "")


def version_of(body: Mapping[str, Any]) -> int:
    """Return the resourceVersion as a number; the versions of one resource are ordered."""
    return int(body["metadata"].get("resourceVersion") or 0)


def controller_of(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the controller owner reference."""
    owners = body["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)
