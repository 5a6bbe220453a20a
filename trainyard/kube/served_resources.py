"""Discovery: the resources that an API server serves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from trainyard.kube.client import Client
from trainyard.kube.resource import Resource


async def served_versions(client: Client) -> list[str]:
    """Return the group versions that are served, such as ``v1`` and ``batch/v1``; preferred ones come first.

    Raises
    ------
    ApiError
        The API server rejects the request.
    """
    groups = (await client.request("GET", "/apis")).get("groups") or ()
    return ["v1", *(version["groupVersion"] for group in groups for version in group["versions"])]


async def preferred_version(client: Client, group: str) -> str:
    """Return the preferred version of a group, such as ``batch/v1``.

    Raises
    ------
    ApiError
        The group is not served.
    """
    if not group:
        return "v1"
    return str((await client.request("GET", f"/apis/{group}"))["preferredVersion"]["groupVersion"])


async def served_resources(client: Client, versions: Iterable[str]) -> list[Resource]:
    """Return the resources of group versions that can be listed; subresources are left out.

    Raises
    ------
    ApiError
        A group version is not served.
    """
    versions = list(versions)
    paths = [f"/apis/{version}" if "/" in version else f"/api/{version}" for version in versions]
    lists = await asyncio.gather(*(client.request("GET", path) for path in paths))
    return [
        Resource(version.rpartition("/")[0], version.rpartition("/")[2], each["name"], each["kind"], each["namespaced"])
        for version, served in zip(versions, lists, strict=True)
        for each in served.get("resources") or ()
        if "/" not in each["name"] and "list" in each.get("verbs", ())
    ]
