"""Policy decisions from this process's cache: the platform, the tenant, the namespace."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from trainyard.api import Runtime
from trainyard.api.constants import PLATFORM_NAME, TENANT_POLICY_NAME
from trainyard.controller.attachments import ATTACHED
from trainyard.controller.cluster_cache import ClusterView
from trainyard.controller.configuration import Configuration
from trainyard.kube import Object
from trainyard.policy.gate import Gate, Ruling
from trainyard.policy.review import Operation, Review
from trainyard.problem import Problem

if TYPE_CHECKING:
    from trainyard.policy.opa import OpaClient

__all__ = ["Policies", "policy_client", "policy_gate", "told"]

_LOG = logging.getLogger(__name__)


class Policies:
    """Judges objects of this cluster.

    Parameters
    ----------
    view
        The informers, that of the namespaces among them.
    gate
        Asks for decisions.
    """

    def __init__(self, view: ClusterView, gate: Gate) -> None:
        self._view = view
        self._gate = gate

    async def judge(
        self,
        operation: Operation,
        body: Object,
        *,
        old: Object | None = None,
        runtime: Runtime | None = None,
        made: Iterable[Object] = (),
        user: Mapping[str, Any] | None = None,
    ) -> Ruling:
        """Return the ruling about an object.

        Parameters
        ----------
        operation, body, old
            What is done.
        runtime
            The runtime that a TrainJob names.
        made
            What will be made of the object. ConfigMaps and Secrets are left to the API server: they hold no pods and
            no place in a queue, and their author is the platform itself here.
        user
            Who asks, as an admission request says it; None: the platform itself.

        Raises
        ------
        DecisionUnavailableError
            There is no decision.
        ApiError, TransportError
            If the API server was asked for what is not known yet and did not answer.
        """
        namespace = body["metadata"].get("namespace") or ""
        view, who = self._view, user or {}
        platform = await view.known(view.platforms, PLATFORM_NAME)
        home = await view.known(view.namespaces, namespace) if namespace else None
        policy = await view.known(view.tenant_policies, TENANT_POLICY_NAME, namespace) if namespace else None
        review = Review(
            operation,
            body,
            old,
            namespace=namespace,
            namespace_labels=(home or {}).get("metadata", {}).get("labels") or {},
            user=who.get("username") or "",
            groups=tuple(who.get("groups") or ()),
            platform=None if platform is None else platform.get("spec") or {},
            tenant_policy=None if policy is None else policy.get("spec") or {},
            runtime=None if runtime is None else runtime.model_dump(by_alias=True, exclude_none=True, mode="json"),
        )
        return await self._gate.judge(review, (each for each in made if each["kind"] not in ATTACHED))


def policy_client(configuration: Configuration) -> OpaClient | None:
    """Return a client of the configured policy server, None where policies are off.

    Raises
    ------
    TrainyardError
        The server's bundle holds other rules than configured.
    """
    server = configuration.policy
    if server is None or not configuration.webhooks:
        _LOG.info("policies are off here: %s", "no policy server" if configuration.webhooks else "no webhooks")
        return None
    from trainyard.policy.opa import OpaAddress, OpaClient, verify_bundle

    verify_bundle(server.bundle, server.revision)
    return OpaClient(OpaAddress(socket=server.socket, revision=server.revision), timeout=server.timeout_seconds)


def policy_gate(configuration: Configuration, client: OpaClient | None) -> Gate | None:
    """Return the gate that asks a client."""
    server = configuration.policy
    if server is None or client is None:
        return None
    return Gate(client, server.settings, server.exempt_namespaces, namespace=configuration.namespace, told=server.told)


def told(problem: Problem) -> str:
    """Return a finding as people are told it, the rule's id first."""
    text = str(problem)
    return text if problem.rule is None or problem.rule in text else f"{problem.rule} {text}"
