"""Policy decisions with the Platform, TenantPolicy and namespace from the cluster cache."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from trainyard.api import Runtime
from trainyard.api.constants import PLATFORM_NAME, TENANT_POLICY_NAME
from trainyard.checks.finding import Finding
from trainyard.checks.printable_text import printable
from trainyard.controller.attachments import ATTACHED
from trainyard.controller.cluster_cache import ClusterCache
from trainyard.controller.configuration import Configuration
from trainyard.kube.resource import Object
from trainyard.policy.gate import GateDecision, PolicyGate
from trainyard.policy.review import Operation, Review

if TYPE_CHECKING:
    from trainyard.policy.engines.opa.opa_client import OpaClient


_LOG = logging.getLogger(__name__)


class PolicyReviewer:
    """Reviews objects of this cluster.

    Parameters
    ----------
    cache
        Cluster cache, including namespaces.
    gate
        Gate to the policy server.
    """

    def __init__(self, cache: ClusterCache, gate: PolicyGate) -> None:
        self._cache = cache
        self._gate = gate

    async def review(
        self,
        operation: Operation,
        body: Object,
        *,
        old: Object | None = None,
        runtime: Runtime | None = None,
        rendered: Iterable[Object] = (),
        user: Mapping[str, Any] | None = None,
    ) -> GateDecision:
        """Return the decision on an object.

        Parameters
        ----------
        operation, body, old
            Admission operation, the object, and its previous version.
        runtime
            The runtime that a TrainJob references.
        rendered
            Objects rendered from the object. ConfigMaps and Secrets are not reviewed here: they have no pods and no
            queue, and the platform itself creates them.
        user
            ``userInfo`` of the admission request; None: the platform itself.

        Raises
        ------
        DecisionUnavailableError
            If there is no decision.
        ApiError, TransportError
            If a read of an object that is not cached failed.
        """
        namespace = body["metadata"].get("namespace") or ""
        cache, user_info = self._cache, user or {}
        platform = await cache.find(cache.platforms, PLATFORM_NAME)
        namespace_object = await cache.find(cache.namespaces, namespace) if namespace else None
        policy = await cache.find(cache.tenant_policies, TENANT_POLICY_NAME, namespace) if namespace else None
        review = Review(
            operation,
            body,
            old,
            namespace=namespace,
            namespace_labels=(namespace_object or {}).get("metadata", {}).get("labels") or {},
            user=user_info.get("username") or "",
            groups=tuple(user_info.get("groups") or ()),
            platform=None if platform is None else platform.get("spec") or {},
            tenant_policy=None if policy is None else policy.get("spec") or {},
            runtime=None if runtime is None else runtime.model_dump(by_alias=True, exclude_none=True, mode="json"),
        )
        return await self._gate.review(review, (each for each in rendered if each["kind"] not in ATTACHED))


def policy_client(configuration: Configuration) -> OpaClient | None:
    """Return a client of the configured policy server, or None if policies are off.

    Raises
    ------
    TrainyardError
        If the server's bundle has another revision than configured.
    """
    server = configuration.policy
    if server is None or not configuration.webhooks:
        _LOG.info("policies are off: %s", "no policy server" if configuration.webhooks else "no webhooks")
        return None
    from trainyard.policy.engines.opa.address import OpaAddress
    from trainyard.policy.engines.opa.bundle import verify_bundle
    from trainyard.policy.engines.opa.opa_client import OpaClient

    verify_bundle(server.bundle, server.revision)
    return OpaClient(OpaAddress(socket=server.socket, revision=server.revision), timeout=server.timeout_seconds)


def policy_gate(configuration: Configuration, client: OpaClient | None) -> PolicyGate | None:
    """Return the gate of a policy client."""
    server = configuration.policy
    if server is None or client is None:
        return None
    return PolicyGate(
        client, server.settings, server.exempt_namespaces, namespace=configuration.namespace, reported=server.told
    )


def policy_metrics(configuration: Configuration) -> Callable[[], Awaitable[bytes]] | None:
    """Return what reads the metrics of the configured policy server, or None without a server or a token for it."""
    server = configuration.policy
    from trainyard.policy.engines.opa.local_server import METRICS_TOKEN

    token = os.environ.get(METRICS_TOKEN)
    if server is None or not configuration.webhooks or not token:
        return None
    from trainyard.policy.engines.opa.server_metrics import server_metrics

    return partial(server_metrics, server.socket, token, seconds=server.timeout_seconds)


def message_of(finding: Finding) -> str:
    """Return the message of a finding, prefixed with the rule id."""
    text = str(finding)
    return printable(text if finding.rule is None or finding.rule in text else f"{finding.rule} {text}")
