"""Open Policy Agent engine: bundle, server and a client that fails closed.

The client is imported lazily: its HTTP library takes longer to import than the server takes to start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainyard.policy.engines.opa.address import OpaAddress
from trainyard.policy.engines.opa.bundle import Bundle, build_bundle, bundle_files, verify_bundle
from trainyard.policy.engines.opa.local_server import METRICS_TOKEN, SOCKET_AUTHORIZATION, OpaServer

if TYPE_CHECKING:
    from trainyard.policy.engines.opa.opa_client import DecisionUnavailableError, OpaClient

__all__ = [
    "METRICS_TOKEN",
    "SOCKET_AUTHORIZATION",
    "Bundle",
    "DecisionUnavailableError",
    "OpaAddress",
    "OpaClient",
    "OpaServer",
    "build_bundle",
    "bundle_files",
    "verify_bundle",
]


def __getattr__(name: str) -> Any:
    if name in ("DecisionUnavailableError", "OpaClient"):
        from trainyard.policy.engines.opa import opa_client

        return getattr(opa_client, name)
    raise AttributeError(name)
