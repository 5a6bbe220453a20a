"""API client: plain dictionaries, server-side apply, and no retries that could repeat a write."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainyard.kube.api_errors import ApiError
from trainyard.kube.api_reader import ApiReader, without_unset
from trainyard.kube.resource import Object, Resource
from trainyard.kube.response import Response
from trainyard.kube.transport import JSON, Headers

_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"


class Client(ApiReader):
    """Client of one API server."""

    def fenced(self, remaining: Callable[[], float]) -> Client:
        """Return a view of this client whose writes time out within ``remaining()`` seconds.

        Writes raise `FencedError` while less than half a second remains; `LeaderElector` explains why that suffices.
        """
        view = copy.copy(self)
        view._transport = self._transport.fenced(remaining)
        return view

    @property
    def unanswered_at(self) -> float:
        """`time.monotonic` of the newest write that was sent and not answered, so it may still be executed; else -inf.

        A fenced client knows of its own writes only.
        """
        return self._transport.unanswered_at

    async def create(
        self,
        resource: Resource,
        body: Mapping[str, Any],
        *,
        field_manager: str | None = None,
        dry_run: bool = False,
        strict: bool = False,
    ) -> Object:
        """Create an object; raises `ApiError` with status 409 if it exists; a dry run persists nothing.

        With ``strict``, a field that the schema lacks is an `ApiError` with status 400, instead of being dropped.
        """
        query = {"fieldManager": field_manager} if field_manager else {}
        query |= {"dryRun": "All"} if dry_run else {}
        query |= {"fieldValidation": "Strict"} if strict else {}
        path = resource.path(namespace=body["metadata"].get("namespace"))
        return await self.request("POST", path, resource=resource, body=body, query=query)

    async def create_subresource(
        self, resource: Resource, name: str, subresource: str, body: Mapping[str, Any], *, namespace: str | None = None
    ) -> Object:
        """POST to a subresource, for instance ``token`` of a ServiceAccount or ``eviction`` of a Pod."""
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        return await self.request("POST", path, resource=resource, body=body)

    async def replace(self, resource: Resource, body: Mapping[str, Any]) -> Object:
        """Replace an object; its uid and resourceVersion, if set, are preconditions (409)."""
        metadata = body["metadata"]
        path = resource.path(namespace=metadata.get("namespace"), name=metadata["name"])
        return await self.request("PUT", path, resource=resource, body=body)

    async def apply(
        self,
        resource: Resource,
        body: Mapping[str, Any],
        *,
        field_manager: str,
        force: bool = True,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> Object:
        """Apply an object server-side: create it, or own the fields in ``body``; a dry run persists nothing.

        ``metadata.uid`` and ``metadata.resourceVersion`` are preconditions; with a uid, no object is created.
        """
        metadata = body["metadata"]
        path = resource.path(namespace=metadata.get("namespace"), name=metadata["name"], subresource=subresource)
        query = {"fieldManager": field_manager, "force": "true" if force else "false"}
        query |= {"dryRun": "All"} if dry_run else {}
        return await self.request("PATCH", path, resource=resource, body=body, query=query, content_type=_APPLY)

    async def merge_patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        subresource: str | None = None,
        field_manager: str | None = None,
    ) -> Object:
        """Apply a JSON merge patch; ``uid`` and ``resource_version`` are preconditions.

        `ApiError.conflict` recognizes a failed precondition: 409, or 422 for a uid without a resourceVersion.
        """
        preconditions = without_unset(uid=uid, resourceVersion=resource_version)
        if preconditions:
            patch = {**patch, "metadata": {**(patch.get("metadata") or {}), **preconditions}}
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        query = {"fieldManager": field_manager} if field_manager else {}
        return await self.request("PATCH", path, resource=resource, body=patch, query=query, content_type=_MERGE)

    async def json_patch(
        self,
        resource: Resource,
        name: str,
        operations: Sequence[Mapping[str, Any]],
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        subresource: str | None = None,
        field_manager: str | None = None,
    ) -> Object:
        """Apply a JSON patch (RFC 6902); a failed ``test`` or precondition is `ApiError.conflict`."""
        preconditions = without_unset(uid=uid, resourceVersion=resource_version)
        tests = [{"op": "test", "path": f"/metadata/{field}", "value": value} for field, value in preconditions.items()]
        operations = [*tests, *operations]
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        query = {"fieldManager": field_manager} if field_manager else {}
        return await self.request(
            "PATCH", path, resource=resource, body=operations, query=query, content_type=_JSON_PATCH
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str = "Background",
    ) -> bool:
        """Delete an object; return False if it did not exist.

        Parameters
        ----------
        uid, resource_version
            Preconditions (status 409 if they do not match).
        propagation
            Background, Foreground or Orphan.
        """
        preconditions = without_unset(uid=uid, resourceVersion=resource_version)
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if preconditions:
            body["preconditions"] = preconditions
        try:
            await self.request("DELETE", resource.path(namespace=namespace, name=name), resource=resource, body=body)
        except ApiError as error:
            if error.not_found:
                return False
            raise
        return True

    async def request(
        self,
        method: str,
        path: str,
        *,
        resource: Resource | None = None,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
    ) -> Object:
        """Send any request with a JSON response and return its object."""
        return await self._transport.request(
            method, path, resource=resource, body=body, query=query, content_type=content_type
        )

    async def exchange(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
        headers: Headers = (),
    ) -> Response:
        """Send any request and return the response, with its warnings, whatever its status."""
        return await self._transport.exchange(
            method, path, body=body, query=query, content_type=content_type, headers=headers
        )
