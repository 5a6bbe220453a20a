"""NetworkPolicies on real nodes: connections that they deny and allow, between pods of two namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.real.conftest import RealCluster
from tests.real.real_jobs import IMAGE, PYTHON
from tests.support import awaited, require

pytestmark = pytest.mark.real

PORT = 8080
NAMESPACES = ("left", "right")


def pod(name: str, namespace: str, node: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "main",
                    "image": IMAGE,
                    "command": [PYTHON, "-m", "http.server", str(PORT), "--directory", "/tmp"],
                    "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
                }
            ],
        },
    }


def policy(name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "left"}
    body = {"podSelector": {"matchLabels": {"app": "server"}}, "policyTypes": ["Ingress"], **spec}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": body}


@pytest.fixture(scope="module")
def address(real: RealCluster) -> Iterator[str]:
    """The address of a server, with a client beside it and one on another node in each namespace."""
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES]
    pods = [pod("server", "left", "worker-0"), pod("client", "left", "worker-0"), pod("client", "right", "worker-1")]
    require(real.cluster.apply(*spaces))
    awaited(
        "the accounts",
        lambda: all(real.cluster.get("serviceaccount", "default", "-n", name) for name in NAMESPACES) or None,
    )
    require(real.cluster.apply(*pods))
    for name in NAMESPACES:
        require(real.cluster.kubectl("wait", "--for=condition=Ready", "pods", "--all", "-n", name, "--timeout=60s"))
    yield real.cluster.get("pod", "server", "-n", "left")["status"]["podIP"]
    require(real.cluster.kubectl("delete", "namespace", *NAMESPACES, "--timeout=90s"))


def connects(real: RealCluster, namespace: str, address: str) -> bool:
    code = f"import socket; socket.create_connection(('{address}', {PORT}), 2)"
    done = real.cluster.kubectl("exec", "client", "-n", namespace, "--", PYTHON, "-c", code)
    assert done.returncode == 0 or "timed out" in done.stderr, done.stderr
    return done.returncode == 0


def reached(real: RealCluster, address: str, *expected: bool) -> None:
    """Wait until the client of the same and that of the other namespace connect as expected."""
    wanted = list(expected)
    awaited(f"{wanted}", lambda: [connects(real, name, address) for name in NAMESPACES] == wanted or None, timeout=20)


def test_connections_follow_the_policies(real: RealCluster, address: str) -> None:
    reached(real, address, True, True)
    require(real.cluster.apply(policy("deny")))
    reached(real, address, False, False)
    require(real.cluster.apply(policy("own", ingress=[{"from": [{"podSelector": {}}]}])))
    reached(real, address, True, False)
    other = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "right"}}}
    ports = [{"port": PORT, "protocol": "TCP"}]
    require(real.cluster.apply(policy("other", ingress=[{"from": [other], "ports": ports}])))
    reached(real, address, True, True)
    require(real.cluster.kubectl("delete", "networkpolicy", "own", "other", "-n", "left"))
    reached(real, address, False, False)
    ready = real.cluster.get("pod", "server", "-n", "left")["status"]["containerStatuses"][0]["ready"]
    assert ready, "probes of the kubelet are allowed"
    require(real.cluster.kubectl("delete", "networkpolicy", "deny", "-n", "left"))
    reached(real, address, True, True)
