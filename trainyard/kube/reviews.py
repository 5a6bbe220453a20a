"""Reviews: objects that the API server answers and does not store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainyard.kube.client import Client
from trainyard.kube.resource import Resource

__all__ = ["review"]


async def review(client: Client, resource: Resource, spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the status of a TokenReview or SubjectAccessReview.

    Raises
    ------
    ApiError, TransportError
        The API server rejects the review, or does not answer.
    """
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}, "spec": spec}
    return (await client.create(resource, body)).get("status") or {}
