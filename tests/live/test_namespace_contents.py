"""What the deletion of a namespace would delete, of every kind that the API server serves."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.kube.api_errors import ApiError
from trainyard.kube.collection_page import Listing
from trainyard.kube.resource import Resource
from trainyard.platform.takeover.namespace_contents import NamespaceContents, read_contents

SERVED = {
    "v1": {"configmaps": "ConfigMap", "persistentvolumeclaims": "PersistentVolumeClaim", "events": "Event"},
    "example.com/v1": {"models": "Model", "roles": "Role"},
    "example.com/v1alpha1": {"models": "Model", "drafts": "Draft"},
}


class Server:
    """Serves discovery and lists of metadata."""

    listed: list[Resource]

    def __init__(self, *objects: dict[str, Any], forbidden: str = "") -> None:
        self._objects = objects
        self._forbidden = forbidden
        self.listed = []

    async def request(self, method: str, path: str) -> dict[str, Any]:
        assert method == "GET"
        if path == "/apis":
            return {"groups": [{"versions": [{"groupVersion": name} for name in SERVED if "/" in name]}]}
        kinds = SERVED[path.removeprefix("/apis/").removeprefix("/api/")]
        listed = [{"name": name, "kind": kind, "namespaced": True, "verbs": ["list"]} for name, kind in kinds.items()]
        return {
            "resources": [
                *listed,
                {"name": "configmaps/status", "kind": "ConfigMap", "namespaced": True, "verbs": ["list"]},
                {"name": "reviews", "kind": "Review", "namespaced": True, "verbs": ["create"]},
                {"name": "nodes", "kind": "Node", "namespaced": False, "verbs": ["list"]},
            ]
        }

    async def page(self, resource: Resource, *, namespace: str, limit: int, metadata_only: bool) -> Listing:
        assert (namespace, limit, metadata_only) == ("vision", 0, True)
        self.listed.append(resource)
        if resource.kind == self._forbidden:
            raise ApiError(403, "forbidden", "Forbidden")
        return Listing(tuple(each for each in self._objects if each["kind"] == resource.kind), "1")


def body(kind: str, name: str, **metadata: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "uid": f"{kind}-{name}", **metadata}}


async def contents(*objects: dict[str, Any], forbidden: str = "") -> NamespaceContents:
    server: Any = Server(*objects, forbidden=forbidden)
    return await read_contents(server, "vision", stack="prod")


OURS = {"labels": {"trainyard.dev/stack": "prod"}}


async def test_objects_of_users_are_counted_and_named() -> None:
    found = await contents(*(body("Model", f"m{number}") for number in range(5)), body("PersistentVolumeClaim", "data"))
    assert str(found) == "5 Model (m0, m1, m2 and 2 more), 1 PersistentVolumeClaim (data)"
    assert found


async def test_objects_of_the_platform_and_of_kubernetes_do_not_count() -> None:
    generated = [body("ConfigMap", "kube-root-ca.crt"), body("Event", "started"), body("Role", "submit", **OURS)]
    owned = body("ConfigMap", "hosts", ownerReferences=[{"kind": "TrainJob", "name": "a", "controller": True}])
    assert not await contents(*generated, owned)


async def test_a_label_that_users_may_write_hides_nothing() -> None:
    assert (await contents(body("PersistentVolumeClaim", "data", **OURS))).objects == {
        "PersistentVolumeClaim": ("data",)
    }


async def test_a_kind_that_may_not_be_listed_is_an_error() -> None:
    with pytest.raises(ApiError):
        await contents(forbidden="Model")


async def test_each_kind_is_listed_once_in_whatever_version_it_has() -> None:
    server: Any = Server()
    assert not await read_contents(server, "vision", stack="prod")
    versions = {each.plural: each.version for each in server.listed}
    assert versions == {
        "configmaps": "v1", "persistentvolumeclaims": "v1", "models": "v1", "roles": "v1", "drafts": "v1alpha1"
    }  # fmt: skip
    assert len(server.listed) == len(versions)
