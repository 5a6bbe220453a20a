"""Objects of a stack in the cluster and in its state."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from components.registry import cluster_kinds, namespaced_kinds
from tests.support import shared_session
from trainyard.api.constants import STACK_LABEL
from trainyard.kube.api_errors import ApiError
from trainyard.kube.client import Client
from trainyard.kube.resource import Object, Resource


def live_uids(kubeconfig: Path, stack: str = "local") -> dict[str, str]:
    """Return the uid of each live object with the label of a stack, by kind, namespace and name."""
    kinds = [(kind, plural, False) for kind, plural in cluster_kinds().items()]
    kinds += [(kind, plural, True) for kind, plural in namespaced_kinds().items()]

    async def listed(client: Client, kind: tuple[str, str], plural: str, *, namespaced: bool) -> tuple[Object, ...]:
        group, _, version = kind[0].rpartition("/")
        resource = Resource(group, version, plural, kind[1], namespaced=namespaced)
        try:
            page = await client.page(resource, label_selector=f"{STACK_LABEL}={stack}", limit=0, metadata_only=True)
        except ApiError as error:
            if error.not_found:
                return ()
            raise
        return page.items

    async def read(client: Client) -> dict[str, str]:
        found = await asyncio.gather(*(listed(client, *kind, namespaced=each) for *kind, each in kinds))
        return {_address(body): body["metadata"]["uid"] for items in found for body in items}

    return shared_session(kubeconfig).run(read)


def recorded_uids(state: Path) -> dict[str, str]:
    """Return the uid of each object in a state file; patches of objects of other owners are left out."""
    if not state.is_file():
        return {}
    latest = json.loads(state.read_text())["checkpoint"]["latest"] or {}
    objects = [
        each["outputs"]
        for each in latest.get("resources", [])
        if each["type"].startswith("kubernetes:") and not each["type"].endswith("Patch") and "outputs" in each
    ]
    return {_address(body): body["metadata"]["uid"] for body in objects}


def _address(body: Object) -> str:
    metadata = body["metadata"]
    return "/".join((body["kind"], metadata.get("namespace", ""), metadata["name"]))
