"""Reads from an API server: objects as plain dictionaries, whole collections, and watches."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from trainyard.kube import credentials
from trainyard.kube.api_errors import ApiError
from trainyard.kube.collection_page import Listing
from trainyard.kube.resource import Object, Resource
from trainyard.kube.stream import WatchEvent, events
from trainyard.kube.transport import Transport

_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class ApiReader:
    """The reading part of `Client`.

    Parameters
    ----------
    connection
        Address, certificate authority and credentials.
    user_agent
        User agent, shown in audit logs.
    timeout
        Seconds for a write in total, and for a read between received bytes. Retries after 429 are not included.
    patience
        Seconds for which a throttled request (429) is retried before its error is raised.
    concurrency
        Requests in flight at the same time, watches excluded.
    observe
        Called with method, resource and status code (0: no response) of every request.
    """

    def __init__(
        self,
        connection: credentials.Connection,
        *,
        user_agent: str = "trainyard",
        timeout: float = 30.0,
        patience: float = 30.0,
        concurrency: int = 64,
        observe: Callable[[str, str, int], None] | None = None,
    ) -> None:
        self.connection = connection
        self._transport = Transport(
            connection,
            user_agent=user_agent,
            timeout=timeout,
            patience=patience,
            concurrency=concurrency,
            observe=observe or (lambda method, resource, code: None),
        )

    @classmethod
    def from_kubeconfig(cls, path: str | Path, context: str | None = None, **options: Any) -> Self:
        """Return a client for a context of a kubeconfig file (the current one by default)."""
        return cls(credentials.kubeconfig(path, context), **options)

    @classmethod
    def in_cluster(cls, **options: Any) -> Self:
        """Return a client that authenticates as the pod's ServiceAccount."""
        return cls(credentials.in_cluster(), **options)

    def separate(self, **options: Any) -> Self:
        """Return a client of the same server with its own connections and request slots.

        Its requests never wait for those of this client. It is closed with this client.

        Parameters
        ----------
        options
            Overrides of timeout, patience and concurrency.
        """
        other = copy.copy(self)
        other._transport = self._transport.separate(**options)
        return other

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> Object:
        """Return one object.

        Raises
        ------
        ApiError
            With status 404 if it does not exist.
        """
        return await self._transport.request("GET", _object_path(resource, name, namespace), resource=resource)

    async def find(self, resource: Resource, name: str, *, namespace: str | None = None) -> Object | None:
        """Return one object, or None if it does not exist."""
        try:
            return await self.get(resource, name, namespace=namespace)
        except ApiError as error:
            if error.not_found:
                return None
            raise

    async def find_confirmed(
        self, resource: Resource, name: str, *, namespace: str | None = None, metadata_only: bool = False
    ) -> Object | None:
        """Return one object, or None if the API server says that this object does not exist.

        Raises
        ------
        ApiError
            With status 404 if the kind is not served, or a proxy answered: the object may exist.
        """
        try:
            path, accept = _object_path(resource, name, namespace), _METADATA if metadata_only else None
            return await self._transport.request("GET", path, resource=resource, accept=accept)
        except ApiError as error:
            error.require_absence_of(resource, name)
            return None

    async def page(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = 500,
        continues: str | None = None,
        metadata_only: bool = False,
    ) -> Listing:
        """Return one page of a collection; a limit of 0 requests all objects at once."""
        query = _selectors(label_selector, field_selector)
        if limit:
            query["limit"] = str(limit)
        if continues:
            query["continue"] = continues
        body = await self._transport.request(
            "GET",
            resource.path(namespace=namespace),
            resource=resource,
            query=query,
            accept=_METADATA_LIST if metadata_only else None,
        )
        return Listing.parse(body, resource, metadata_only=metadata_only)

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = 500,
    ) -> list[Object]:
        """Return a whole collection, fetched in pages; listed again without pages if the continue token expires."""
        selection: dict[str, Any] = {
            "namespace": namespace,
            "label_selector": label_selector,
            "field_selector": field_selector,
        }
        found: list[Object] = []
        continues: str | None = None
        while True:
            try:
                page = await self.page(resource, limit=limit, continues=continues, **selection)
            except ApiError as error:
                if not (error.expired and continues):
                    raise
                return list((await self.page(resource, limit=0, **selection)).items)
            found += page.items
            continues = page.continues
            if not continues:
                return found

    async def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        timeout_seconds: int = 36,
        grace: float = 7.0,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield the events after a resourceVersion until the server ends the stream.

        A dead connection or a frozen server is detected because the stream does not end when it should: within 45 s,
        as with client-go's HTTP/2 pings. HTTP/1.1 has no pings, and a health check on another connection may reach
        another server. A short stream costs one small request on the same connection. The server sends a bookmark
        before it ends a stream, so the next watch resumes from there.

        Parameters
        ----------
        timeout_seconds
            Seconds after which the server ends the stream.
        grace
            Further seconds without data after which the watch is considered broken.

        Raises
        ------
        ApiError
            If the server rejects the watch or sends an ERROR event; relist if `ApiError.expired`.
        WatchBrokenError, TransportError
            If the stream broke or did not end in time; resume from the last resourceVersion observed.
        """
        query = _selectors(label_selector, field_selector)
        query |= {"watch": "true", "resourceVersion": resource_version, "allowWatchBookmarks": "true"}
        query["timeoutSeconds"] = str(timeout_seconds)
        path = resource.path(namespace=namespace)
        async with self._transport.stream(path, resource=resource, query=query) as content:
            async for event in events(content, timeout_seconds=timeout_seconds, grace=grace):
                yield event


def _selectors(label_selector: str | None, field_selector: str | None) -> dict[str, str]:
    return without_unset(labelSelector=label_selector, fieldSelector=field_selector)


def without_unset(**fields: str | None) -> dict[str, str]:
    """Return the fields that have a value."""
    return {field: value for field, value in fields.items() if value}


def _object_path(resource: Resource, name: str, namespace: str | None) -> str:
    """Return the path of an object to read; a name that no object can have is not found.

    The API server decodes the path before it splits it, so a quoted slash in a name would address something else.
    """
    if name in ("", ".", "..") or "/" in name or "%" in name:
        raise ApiError(404, "NotFound", f'{resource} "{name}" not found', name=name)
    return resource.path(namespace=namespace, name=name)
