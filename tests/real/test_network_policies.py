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


LISTENER = """
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("", 9999))
while True:
    text, (sender, _) = server.recvfrom(100)
    print(text.decode(), sender, flush=True)
"""
SENDER = """
import socket, struct, sys
def sent(text, to):
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(text, (to, 9999))
def sent_as(text, to, sender):
    addresses = socket.inet_aton(sender) + socket.inet_aton(to)
    datagram = struct.pack("!4H", 9999, 9999, 8 + len(text), 0) + text
    header = struct.pack("!2B3H2BH8s", 69, 0, 20 + len(datagram), 1, 0, 64, 17, 0, addresses)
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW).sendto(header + datagram, (to, 0))
to, own, other = sys.argv[1:]
sent_as(b"own", to, own)
for _ in range(5): sent_as(b"false", to, other)
sent(b"last", to)
"""


@pytest.mark.parametrize("node", ["worker-0", "worker-1"])
def test_a_packet_with_the_address_of_another_pod_is_dropped(real: RealCluster, address: str, node: str) -> None:
    """A pod of root may make such packets; a policy that allows the other pod would let them pass."""
    listener, sender = pod("listener", "left", "worker-0"), pod("sender", "left", node)
    for each, code in ((listener, LISTENER), (sender, WAIT)):
        (container,) = each["spec"]["containers"]
        del container["readinessProbe"]
        container["command"] = [PYTHON, "-c", code]
    sender["spec"]["containers"][0]["securityContext"] = {"runAsUser": 0, "capabilities": {"add": ["NET_RAW"]}}
    require(real.cluster.apply(listener, sender))
    ready = ("wait", "--for=condition=Ready", "pod/listener", "pod/sender", "-n", "left", "--timeout=60s")
    require(real.cluster.kubectl(*ready))
    to, own = (real.cluster.get("pod", name, "-n", "left")["status"]["podIP"] for name in ("listener", "sender"))
    command = ("exec", "sender", "-n", "left", "--", PYTHON, "-c", SENDER, to, own, address)

    def received() -> set[str]:
        return set(require(real.cluster.kubectl("logs", "listener", "-n", "left")).splitlines())

    def last() -> bool:
        require(real.cluster.kubectl(*command))
        return f"last {own}" in received()

    awaited("the last packet", last)
    assert received() == {f"own {own}", f"last {own}"}
    require(real.cluster.kubectl("delete", "pod", "listener", "sender", "-n", "left"))


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
