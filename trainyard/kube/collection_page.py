"""One page of a collection of the Kubernetes API."""

from __future__ import annotations

from dataclasses import dataclass

from trainyard.kube.resource import Object, Resource


@dataclass(frozen=True)
class Listing:
    """One page of a collection, and the resourceVersion of the collection."""

    items: tuple[Object, ...]
    resource_version: str
    continues: str | None = None

    @classmethod
    def parse(cls, body: Object, resource: Resource, *, metadata_only: bool) -> Listing:
        """Return the page of a response; its objects get apiVersion and kind, which lists of a kind leave out."""
        stamp = {"apiVersion": resource.api_version, "kind": resource.kind}
        items = tuple({**item, **stamp} if metadata_only else {**stamp, **item} for item in body.get("items") or ())
        metadata = body.get("metadata") or {}
        return cls(items, str(metadata.get("resourceVersion") or ""), metadata.get("continue") or None)
