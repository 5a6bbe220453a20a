"""A client that lists the objects of a recorded cluster."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from trainyard.cluster_state.cluster_index import kind_of
from trainyard.kube.api_errors import ApiError
from trainyard.kube.resource import Resource

Body = dict[str, Any]


class Reads:
    """A client that lists recorded objects by name, and forbids some kinds in all namespaces or entirely."""

    def __init__(
        self,
        bodies: Sequence[Body],
        *,
        narrow: Collection[str] = (),
        forbidden: Collection[str] = (),
        absent: Collection[str] = (),
        broken: str = "",
    ) -> None:
        self.bodies, self.narrow, self.forbidden, self.absent, self.broken = bodies, narrow, forbidden, absent, broken
        self.requests: list[tuple[str, str | None, str | None]] = []

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        field_selector: str | None = None,
        label_selector: str | None = None,
    ) -> Any:
        self.requests.append((resource.kind, namespace, label_selector or field_selector))
        if resource.kind in self.absent:
            raise ApiError(404, "NotFound", "not found")
        if resource.kind in self.forbidden or (resource.kind in self.narrow and namespace is None):
            raise ApiError(403, "Forbidden", "forbidden")
        if resource.kind == self.broken:
            raise ApiError(500, "InternalError", "broken")
        kind = kind_of({"apiVersion": resource.api_version, "kind": resource.kind})
        found = [each for each in self.bodies if kind_of(each) == kind]
        found = [each for each in found if namespace in (None, each["metadata"].get("namespace"))]
        for term in (field_selector or "").split(","):
            found = [each for each in found if not term or _has(each, term)]
        if label_selector:
            selected = re.fullmatch(r"(\S+) in \(([^)]*)\)", label_selector)
            assert selected is not None, label_selector
            values = selected[2].split(",")
            found = [each for each in found if (each["metadata"].get("labels") or {}).get(selected[1]) in values]
        return found


def _has(body: Body, term: str) -> bool:
    """Return whether an object has, or with ``!=`` has not, the value of one term of a field selector."""
    path, value = re.split(r"!?=", term)
    actual: Any = body
    for step in path.split("."):
        actual = (actual or {}).get(step)
    return (str(actual or "") == value) is ("!=" not in term)
