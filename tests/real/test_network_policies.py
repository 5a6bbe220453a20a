"""NetworkPolicies on real nodes: connections that they deny and allow, between pods of two namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.real.conftest import RealCluster
from tests.real.real_jobs import IMAGE, PYTHON, WAIT, job
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


def connects(real: RealCluster, namespace: str, address: str, name: str = "client", port: int = PORT) -> bool:
    code = f"import socket; socket.create_connection(('{address}', {port}), 2)"
    done = real.cluster.kubectl("exec", name, "-n", namespace, "--", PYTHON, "-c", code)
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


SERVER = f"""
import http.server, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
http.server.ThreadingHTTPServer(("", {PORT}), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


def test_workers_of_a_job_reach_each_other_and_no_other_tenant_reaches_them(real: RealCluster) -> None:
    require(real.cluster.apply(job("served", code=SERVER, workers=2), job("caller", namespace="vision", code=WAIT)))
    homes = {"served": ("language", 2), "caller": ("vision", 1)}
    pods = {
        name: awaited(
            f"{name} to run",
            lambda name=name, space=space, size=size: (  # type: ignore[misc]
                found
                if len(found := [p for p in real.cluster.pods(name, space) if p["status"]["phase"] == "Running"])
                == size
                else None
            ),
        )
        for name, (space, size) in homes.items()
    }
    (server, peer), (caller,) = pods["served"], pods["caller"]
    names = [pod["metadata"]["name"] for pod in (peer, caller)]
    address = server["status"]["podIP"]
    awaited("its peer", lambda: connects(real, "language", address, names[0]))
    awaited("the rules for the other tenant", lambda: not connects(real, "vision", address, names[1]))
    assert connects(real, "language", address, names[0])
    code = "import socket; print(socket.getaddrinfo('kubernetes.default.svc.cluster.local', 443)[0][4][0])"
    found = real.cluster.kubectl("exec", names[1], "-n", "vision", "--", PYTHON, "-c", code)
    assert require(found) == "10.96.0.1\n", "names are resolved"
    assert not connects(real, "vision", "10.96.0.1", names[1], 443), "egressTo names no address"
    for name, (space, _) in homes.items():
        require(real.cluster.kubectl("delete", "trainjob", name, "-n", space, "--timeout=90s"))
