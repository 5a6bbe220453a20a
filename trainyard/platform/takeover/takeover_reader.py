"""Reader of existing objects for a takeover: the objects, dry runs, Helm releases, other parts of the installation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from trainyard.kube.api_errors import ApiError
from trainyard.kube.blocking import BlockingSession
from trainyard.kube.client import Client
from trainyard.kube.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    JOBS,
    MUTATING_WEBHOOKS,
    NETWORK_POLICIES,
    POD_DISRUPTION_BUDGETS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    VALIDATING_WEBHOOKS,
)
from trainyard.kube.resource import Object, Resource
from trainyard.platform.takeover.takeover import Observation, is_replaceable

_NAMESPACED = (
    *(DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, JOBS, CRON_JOBS),
    *(SERVICES, SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, CONFIG_MAPS),
    *(POD_DISRUPTION_BUDGETS, HORIZONTAL_POD_AUTOSCALERS, NETWORK_POLICIES),
)
"""Kinds of which an installation consists, in its namespace; of Secrets only the metadata is read."""
_CLUSTER = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)
_FREE_NAME = "-takeover"
"""Suffix of a name that no object has."""
_DRY_RUN = {"dryRun": "All"}
_RELEASE, _HOME = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"


class TakeoverReader:
    """Reader of one cluster; it connects with the first request.

    Parameters
    ----------
    kubeconfig
        File with server and credentials.
    context
        Context in the file.
    field_manager
        Field manager of the dry runs.
    """

    def __init__(self, kubeconfig: Path, context: str | None, field_manager: str) -> None:
        self._address = (kubeconfig, context)
        self._field_manager = field_manager
        self._session: BlockingSession | None = None
        self._releases: dict[tuple[str, str], tuple[str, ...]] = {}

    def __enter__(self) -> TakeoverReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            self._session.close()

    def observe(self, resource: Resource, declared: Mapping[str, Any]) -> Observation | None:
        """Return an object and the dry run of its declaration; None if it does not exist any more.

        Raises
        ------
        ApiError
            The object, or the records of its Helm release, cannot be read.
        """
        return self._connected().run(lambda client: self._observe(client, resource, declared))

    def parts(self, namespaces: Iterable[str]) -> list[Object]:
        """Return objects of installations in some namespaces, and cluster-scoped ones that refer to any namespace."""
        return self._connected().run(lambda client: _parts(client, sorted(set(namespaces))))

    def find(self, resource: Resource, name: str) -> Object | None:
        """Return a cluster-scoped object; None if it does not exist."""
        return self._connected().run(lambda client: client.find(resource, name))

    def _connected(self) -> BlockingSession:
        if self._session is None:
            self._session = BlockingSession(*self._address)
        return self._session

    async def _observe(self, client: Client, resource: Resource, declared: Mapping[str, Any]) -> Observation | None:
        metadata = declared["metadata"]
        live = await client.find(resource, metadata["name"], namespace=metadata.get("namespace"))
        if live is None:
            return None
        releases = await self._releases_of(client, live)
        try:
            applied = await client.apply(resource, declared, field_manager=self._field_manager, dry_run=True)
        except ApiError as error:
            replaced = error.status == 422 and is_replaceable(declared["apiVersion"], declared["kind"])
            unable = await _creation_error(client, resource, declared) if replaced else None
            return Observation(live, error=error, creation_error=unable, releases=releases)
        return Observation(live, applied, releases=releases)

    async def _releases_of(self, client: Client, live: Object) -> tuple[str, ...]:
        """Return the records of the Helm release of an object: Helm deletes and rewrites only what it has recorded."""
        annotations = live["metadata"].get("annotations") or {}
        release = annotations.get(_RELEASE)
        home = annotations.get(_HOME) or live["metadata"].get("namespace")
        if not release or not home:
            return ()
        if (home, release) not in self._releases:
            self._releases[home, release] = await _records(client, home, release)
        return self._releases[home, release]


async def _creation_error(client: Client, resource: Resource, declared: Mapping[str, Any]) -> ApiError | None:
    """Return why an object could not be created if its name were free: an invalid one must not replace another."""
    metadata = {**declared["metadata"], "name": f"{declared['metadata']['name']}{_FREE_NAME}"}
    path = resource.path(namespace=metadata.get("namespace"))
    try:
        await client.request("POST", path, resource=resource, body={**declared, "metadata": metadata}, query=_DRY_RUN)
    except ApiError as error:
        return error
    return None


async def _records(client: Client, namespace: str, release: str) -> tuple[str, ...]:
    selector = f"owner=helm,name={release}"
    pages = await asyncio.gather(
        *(
            client.page(each, namespace=namespace, label_selector=selector, limit=0, metadata_only=True)
            for each in (SECRETS, CONFIG_MAPS)
        )
    )
    return tuple(f"{item['kind']} {item['metadata']['name']}" for page in pages for item in page.items)


async def _parts(client: Client, namespaces: list[str]) -> list[Object]:
    lists = await asyncio.gather(
        *(client.list(each, namespace=namespace) for namespace in namespaces for each in _NAMESPACED),
        *(client.list(each) for each in _CLUSTER),
        *(_secrets(client, namespace) for namespace in namespaces),
    )
    return [item for items in lists for item in items]


async def _secrets(client: Client, namespace: str) -> list[Object]:
    """Return the metadata of the Secrets of a namespace; none without the permission to list them."""
    try:
        return list((await client.page(SECRETS, namespace=namespace, limit=0, metadata_only=True)).items)
    except ApiError as error:
        if error.status == 403:
            return []
        raise
