"""Policy facts (leader only): copy TenantPolicies and the Platform to annotations of Namespaces.

ValidatingAdmissionPolicies read facts from annotations of Namespaces (`trainyard.policy.engines.vap.facts`). The
sources are the TenantPolicies and the Platform; manual changes of the annotations are reverted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from trainyard.api.constants import PLATFORM_NAME, TENANT_POLICY_NAME
from trainyard.controller.level_triggered import log_failure, run_level_triggered
from trainyard.kube.api_errors import FencedError
from trainyard.kube.backoff import Backoff
from trainyard.kube.client import Client
from trainyard.kube.informer import Informer
from trainyard.kube.kinds import NAMESPACES
from trainyard.kube.resource import Object
from trainyard.kube.store import StoreChange
from trainyard.policy.engines.vap.facts import (
    PLATFORM_FACTS,
    PLATFORM_FACTS_NAMESPACE,
    TENANT_FACTS,
    platform_facts,
    policy_facts_in,
    tenant_facts,
)

_LOG = logging.getLogger(__name__)
_FIELD_MANAGER = "trainyard-controller"


class PolicyFacts:
    """Reconcile the annotations of Namespaces.

    All decisions depend only on stored objects, so the controller can be stopped between any two writes. Facts are left
    unchanged while their source kind is not served: a starting API server serves CustomResourceDefinitions last.

    Parameters
    ----------
    client
        Fenced API client.
    tenant_policies, platforms
        Shared informers; not started here.
    backoff
        Delays after failures.
    """

    def __init__(
        self, client: Client, tenant_policies: Informer, platforms: Informer, *, backoff: Backoff | None = None
    ) -> None:
        self._client = client
        self._tenant_policies = tenant_policies
        self._platforms = platforms
        self._backoff = backoff or Backoff(0.1, 30.0)
        self._namespaces = Informer(client, NAMESPACES, transform=_facts_only)
        self._stale: set[str] = set()
        self._changed = asyncio.Event()
        self._namespaces.subscribe(lambda change: self._mark(change.key[1]))
        tenant_policies.subscribe(lambda change: self._mark(change.key[0]))
        platforms.subscribe(self._on_platform)

    @property
    def informers(self) -> Sequence[Informer]:
        """Informers that `run` starts."""
        return (self._namespaces,)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._namespaces.run())
            group.create_task(self._run_steps())

    async def _run_steps(self) -> None:
        sources = (self._namespaces, self._tenant_policies, self._platforms)
        await asyncio.gather(*(informer.wait_settled() for informer in sources))
        # The shared watches may lag behind what the former leader read and wrote.
        await asyncio.gather(self._tenant_policies.refresh(), self._platforms.refresh())
        await run_level_triggered("policy facts", self.step, self._changed, self._backoff)

    async def step(self) -> bool:
        """Write changed facts; return whether all sources are synced and all writes succeeded."""
        stale, self._stale = self._stale, set()
        synced = self._tenant_policies.synced and self._platforms.synced
        unsettled = set() if synced else set(stale)
        for name in sorted(stale):
            try:
                await self._write(name)
            except FencedError:
                raise
            except Exception as error:
                unsettled.add(name)
                log_failure(f"facts of namespace {name}", error)
        self._stale |= unsettled
        return synced and not unsettled

    async def _write(self, name: str) -> None:
        namespace = self._namespaces.store.get("", name)
        if namespace is None or namespace["metadata"].get("deletionTimestamp"):
            return
        patch = _difference(namespace["metadata"]["annotations"], self._desired(name))
        if not patch:
            return
        identity = {field: namespace["metadata"][field] for field in ("uid", "resourceVersion")}
        body = {"metadata": {**identity, "annotations": patch}}
        self._namespaces.record_write(
            await self._client.merge_patch(NAMESPACES, name, body, field_manager=_FIELD_MANAGER)
        )
        _LOG.info("facts of namespace %s written: %s", name, ", ".join(sorted(patch)))

    def _desired(self, name: str) -> dict[str, str | None]:
        """Return the desired facts of a Namespace; None for a fact to remove."""
        desired: dict[str, str | None] = {}
        if self._tenant_policies.synced:
            policy = self._tenant_policies.store.get(name, TENANT_POLICY_NAME)
            desired |= {**dict.fromkeys(TENANT_FACTS), **tenant_facts(_spec(policy))}
        if name == PLATFORM_FACTS_NAMESPACE and self._platforms.synced:
            platform = self._platforms.store.get("", PLATFORM_NAME)
            desired |= {**dict.fromkeys(PLATFORM_FACTS), **platform_facts(_spec(platform))}
        return desired

    def _on_platform(self, change: StoreChange) -> None:
        self._mark(PLATFORM_FACTS_NAMESPACE)

    def _mark(self, namespace: str) -> None:
        self._stale.add(namespace)
        self._changed.set()


def _difference(stored: Mapping[str, str], desired: Mapping[str, str | None]) -> dict[str, str | None]:
    return {key: value for key, value in desired.items() if stored.get(key) != value}


def _spec(body: Object | None) -> Object | None:
    return None if body is None else body.get("spec") or {}


def _facts_only(namespace: Object) -> Object:
    metadata = namespace["metadata"]
    kept = {key: metadata[key] for key in ("name", "uid", "resourceVersion", "deletionTimestamp") if key in metadata}
    return {"metadata": {**kept, "annotations": policy_facts_in(metadata.get("annotations"))}}
