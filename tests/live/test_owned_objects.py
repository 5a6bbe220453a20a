"""Objects with the label of a stack, of the kinds that the API server serves."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.kube.api_errors import ApiError
from trainyard.kube.collection_page import Listing
from trainyard.kube.resource import Resource
from trainyard.platform.takeover.owned_objects import read_owned

KINDS = {
    "v1": {"namespaces": "Namespace", "endpoints": "Endpoints"},
    "apps/v1": {"deployments": "Deployment", "replicasets": "ReplicaSet"},
    "example.com/v1": {"models": "Model"},
    "example.com/v1alpha1": {"models": "Model"},
}
OWNER = {"ownerReferences": [{"kind": "Deployment", "name": "a", "controller": True}]}


class Server:
    """Serves discovery and lists of metadata; the API example.com may be down or retired, and a kind be gone."""

    def __init__(
        self, *, down: bool = False, retired: bool = False, gone: str = "", denied: str = "", copied: str = ""
    ) -> None:
        self._down, self._retired, self._gone, self._denied, self._copied = down, retired, gone, denied, copied
        self.listed: list[str] = []

    async def request(self, _: str, path: str) -> dict[str, Any]:
        if path == "/apis":
            return {"groups": [{"versions": [{"groupVersion": name} for name in KINDS if "/" in name]}]}
        version = path.removeprefix("/apis/").removeprefix("/api/")
        if self._down and version.startswith("example.com"):
            raise ApiError(503, "ServiceUnavailable", "the server is currently unable to handle the request")
        if self._retired and version.startswith("example.com"):
            raise ApiError(404, "NotFound", "404 page not found")
        kinds = KINDS[version].items()
        return {
            "resources": [{"name": name, "kind": kind, "namespaced": True, "verbs": ["list"]} for name, kind in kinds]
        }

    async def page(self, resource: Resource, *, label_selector: str, limit: int, metadata_only: bool) -> Listing:
        assert (label_selector, limit, metadata_only) == ("trainyard.dev/stack=prod", 0, True)
        self.listed.append(f"{resource.api_version} {resource.kind}")
        if resource.kind == self._gone:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        if resource.kind == self._denied:
            raise ApiError(403, "Forbidden", f"{resource.plural} is forbidden")
        # Other managers set fields too: the controller, and a client that applies the object again.
        managers = ["kubectl-client-side-apply", *([] if resource.kind == self._copied else ["trainyard", "trainer"])]
        metadata = {"name": "a", **(OWNER if resource.kind == "ReplicaSet" else {})}
        metadata["managedFields"] = [{"manager": each, "operation": "Apply"} for each in managers]
        return Listing(({"kind": resource.kind, "metadata": metadata},), "1")


async def owned(server: Any, *kinds: tuple[str, str]) -> list[str]:
    return [each["kind"] for each in await read_owned(server, "prod", kinds or None)]


async def test_objects_of_every_kind_are_read_once_without_those_of_controllers() -> None:
    server = Server()
    assert await owned(server) == ["Namespace", "Deployment", "Model"]
    assert "example.com/v1 Model" in server.listed
    assert "example.com/v1alpha1 Model" not in server.listed


async def test_a_kind_that_is_deleted_meanwhile_has_no_objects() -> None:
    assert await owned(Server(gone="Model")) == ["Namespace", "Deployment"]
    # The list of groups follows the deletion of the last kind of a group later.
    assert await owned(Server(retired=True)) == ["Namespace", "Deployment"]


async def test_an_api_that_is_down_matters_only_where_it_is_read() -> None:
    kinds = [("v1", "Namespace"), ("apps/v1", "Deployment"), ("retired.example.com/v1", "Model")]
    assert await owned(Server(down=True), *kinds) == ["Namespace", "Deployment"]
    with pytest.raises(ApiError, match="unable to handle"):
        await owned(Server(down=True))


async def test_a_kind_that_may_not_be_listed_matters_only_where_it_is_read() -> None:
    server = Server(denied="Deployment")
    assert await owned(server, ("v1", "Namespace"), ("apps/v1", "ReplicaSet"), ("example.com/v1", "Model")) == [
        "Namespace",
        "Model",
    ]
    with pytest.raises(ApiError, match="deployments is forbidden"):
        await owned(server)


async def test_a_copy_of_an_object_with_its_label_is_not_of_the_stack() -> None:
    """Another team has applied the output of `kubectl get -o yaml` under another name."""
    assert await owned(Server(copied="Deployment")) == ["Namespace", "Model"]
