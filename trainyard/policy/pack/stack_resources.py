"""Kubernetes objects of a stack's resources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from trainyard.manifests.documents import Source
from trainyard.policy.check.sources import Manifest
from trainyard.policy.pack.stack_values import SUBSTITUTES, Properties, UnknownValue, paths, substituted

_TYPE: Final = "kubernetes:"
_RELEASE: Final = "kubernetes:helm.sh/v3:Release"
_DROPPED: Final = ("status",)
_DEPTH: Final = 8
_SOURCE: Final = Source("stack", "")


@dataclass(frozen=True)
class StackResource:
    """One resource of a stack.

    Parameters
    ----------
    urn, type
        URN and type in Pulumi.
    properties
        Declared properties.
    """

    urn: str
    type: str
    properties: Properties


@dataclass(frozen=True)
class StackObject:
    """One object.

    Parameters
    ----------
    urn
        URN of the resource that declares it.
    body
        The object, with unknown values.
    secrets
        Secret strings; to be masked in all output.
    prefix
        Path of the object in the resource.
    patch
        Whether it is a server-side apply patch of an existing object.
    """

    urn: str
    body: Mapping[str, Any]
    secrets: frozenset[str] = frozenset()
    prefix: str = ""
    patch: bool = False

    @property
    def kind(self) -> str:
        """The object's kind."""
        return str(self.body.get("kind", ""))

    @property
    def group(self) -> str:
        """The object's API group; empty for the core."""
        return str(self.body.get("apiVersion", "")).rpartition("/")[0]

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The object's metadata; empty if invalid."""
        metadata = self.body.get("metadata")
        return metadata if isinstance(metadata, Mapping) else {}

    @property
    def namespace(self) -> str | None:
        """The object's namespace; None if unknown."""
        if isinstance(self.body.get("metadata"), UnknownValue):
            return None
        namespace = self.metadata.get("namespace") or ""
        return namespace if isinstance(namespace, str) else None

    @cached_property
    def places(self) -> frozenset[str]:
        """Paths of all fields."""
        return frozenset(path for path, _ in paths(self.body))

    @cached_property
    def unknown(self) -> tuple[str, ...]:
        """Paths of fields with unknown values."""
        return tuple(path for path, value in paths(self.body) if isinstance(value, UnknownValue))

    def manifests(self) -> list[Manifest]:
        """Return the possible manifests of the object; exactly one if all values are known."""
        chosen = SUBSTITUTES if self.unknown else SUBSTITUTES[:1]
        return [Manifest(_SOURCE, 0, (), substituted(self.body, each)) for each in chosen]


def objects_of(resources: Iterable[StackResource]) -> Iterator[StackObject]:
    """Yield the objects that resources of the Kubernetes provider declare, with the items of Lists."""
    for resource in resources:
        if not resource.type.startswith(_TYPE):
            continue
        body = {
            key: value
            for key, value in resource.properties.body.items()
            if key not in _DROPPED and not key.startswith("__")
        }
        if not isinstance(body.get("apiVersion"), str) or not isinstance(body.get("kind"), str):
            continue
        patch = resource.type.endswith(f":{body['kind']}Patch")
        yield from _unpacked(resource, body, "", patch=patch, depth=_DEPTH)


def unreadable(resources: Iterable[StackResource]) -> Iterator[tuple[StackResource, str]]:
    """Yield resources whose objects cannot be reviewed before creation, with the reason."""
    for resource in resources:
        if resource.type == _RELEASE:
            yield resource, "the provider renders the objects of a Helm release; use helm.sh/v4:Chart to review them"
        elif resource.type.startswith(_TYPE):
            for key in ("apiVersion", "kind"):
                if isinstance(resource.properties.body.get(key), UnknownValue):
                    yield resource, f"{key} is unknown"


def _unpacked(
    resource: StackResource, body: Mapping[str, Any], prefix: str, *, patch: bool, depth: int
) -> Iterator[StackObject]:
    items = body.get("items")
    if not (depth and isinstance(items, list) and str(body["kind"]).endswith("List")):
        yield StackObject(resource.urn, body, resource.properties.secrets, prefix, patch)
        return
    of_items = {"apiVersion": body["apiVersion"], "kind": str(body["kind"]).removesuffix("List")}
    for index, item in enumerate(items):
        if isinstance(item, Mapping):
            inner = {**of_items, **{key: value for key, value in item.items() if value is not None}}
            yield from _unpacked(resource, inner, f"{prefix}items[{index}].", patch=patch, depth=depth - 1)
