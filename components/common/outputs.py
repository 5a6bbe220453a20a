"""Outputs of an installation: the names of what its components declare, and the context of the kubeconfig."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pulumi
import yaml

from trainyard.local.cluster.provider import ClusterAccess

from .objects import Component


def installation_outputs(components: Iterable[Component], context: pulumi.Input[str]) -> dict[str, Any]:
    """Return the outputs of a stack or a platform; a Service is ``namespace/name``. A kubeconfig is none of them."""
    names = [each.names for each in components]

    def of(kind: str) -> list[str]:
        return [name for each in names for name in each.get(kind, ())]

    return {
        "namespaces": of("namespaces"),
        "services": of("services"),
        "queues": of("queues"),
        "kubeconfigContext": context,
    }


def context_of(access: ClusterAccess) -> str:
    """Return the name of the context: the selected one, or the current one of the kubeconfig; empty without a file."""
    if access.context or not access.kubeconfig.is_file():
        return access.context or ""
    return str((yaml.safe_load(access.kubeconfig.read_text()) or {}).get("current-context", ""))
