"""Fields of custom resources that the cluster does not serve yet: a preview leaves them out.

An upgrade adds fields to CustomResourceDefinitions, and sets them in objects afterwards. A preview sends these objects
to the API server as a dry run, which rejects fields that the stored definition lacks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pulumi

from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.credentials import kubeconfig
from trainyard.kube.kinds import CUSTOM_RESOURCE_DEFINITIONS
from trainyard.kube.resource import Object
from trainyard.local.cluster.provider import ClusterAccess

from .threads import run_in_thread

Schemas = Mapping[tuple[str, str], Mapping[str, Any]]
"""OpenAPI schema by API version and kind."""

_OPEN = ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource")


def read_schemas(access: ClusterAccess, definitions: Iterable[str]) -> Schemas:
    """Return the schemas of stored CustomResourceDefinitions, by name of the definition.

    Raises
    ------
    TrainyardError
        The API server is unreachable, or rejects the requests.
    """

    async def read() -> list[Object | None]:
        async with Client(kubeconfig(access.kubeconfig, access.context), user_agent="trainyard-program") as client:
            return await asyncio.gather(*(client.find(CUSTOM_RESOURCE_DEFINITIONS, name) for name in definitions))

    try:
        bodies = run_in_thread(read)
    except (ApiError, TransportError) as error:
        raise TrainyardError(
            f"CustomResourceDefinitions cannot be read: {error}",
            fix="use credentials with permission to get customresourcedefinitions",
        ) from error
    return {
        (f"{body['spec']['group']}/{version['name']}", body["spec"]["names"]["kind"]): version["schema"][
            "openAPIV3Schema"
        ]
        for body in filter(None, bodies)
        for version in body["spec"]["versions"]
    }


def served(
    manifest: Mapping[str, Any], schemas: Schemas, component: pulumi.Resource | None = None
) -> Mapping[str, Any]:
    """Return an object without the fields that its stored definition lacks; a note of its component names them."""
    schema = schemas.get((manifest["apiVersion"], manifest["kind"]))
    if schema is None:
        return manifest
    known = {**schema, "properties": {**schema.get("properties", {}), **_always_known()}}
    unserved: list[str] = []
    kept: Mapping[str, Any] = _kept(manifest, known, "", unserved.append)
    if unserved:
        name = f"{manifest['kind']}/{manifest['metadata']['name']}"
        pulumi.log.warn(
            f"{name}: `up` also sets {', '.join(unserved)}, once the CustomResourceDefinition has this",
            resource=component,
        )
    return kept


def _always_known() -> dict[str, Any]:
    anything = {_OPEN[0]: True}
    return {"apiVersion": anything, "kind": anything, "metadata": anything}


def _kept(value: Any, schema: Mapping[str, Any], path: str, drop: Callable[[str], object]) -> Any:
    if any(schema.get(key) for key in _OPEN):
        return value
    if isinstance(value, list) and "items" in schema:
        return [_kept(each, schema["items"], f"{path}[{index}]", drop) for index, each in enumerate(value)]
    if isinstance(value, Mapping) and "additionalProperties" not in schema:
        return dict(_fields(value, schema.get("properties", {}), path, drop))
    return value


def _fields(
    value: Mapping[str, Any], properties: Mapping[str, Any], path: str, drop: Callable[[str], object]
) -> Iterator[tuple[str, Any]]:
    for key, each in value.items():
        field = f"{path}.{key}" if path else key
        if key in properties:
            yield key, _kept(each, properties[key], field, drop)
        else:
            drop(field)
