"""The Open Policy Agent as the engine that judges whole requests: bundle, server and a client that fails closed."""

from trainyard.policy.opa.adapter import DecisionUnavailableError, OpaAddress, OpaClient
from trainyard.policy.opa.bundle import Bundle, build_bundle
from trainyard.policy.opa.server import OpaServer

__all__ = ["Bundle", "DecisionUnavailableError", "OpaAddress", "OpaClient", "OpaServer", "build_bundle"]
