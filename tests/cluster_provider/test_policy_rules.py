"""NetworkPolicies as rules of nftables."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.cluster.node.policy_rules import TABLE, ruleset, selects

NAMESPACES = [
    {"metadata": {"name": "vision", "labels": {"team": "v"}}},
    {"metadata": {"name": "language", "labels": {"team": "l"}}},
]
EMPTY = [
    f"table ip {TABLE}",
    f"delete table ip {TABLE}",
    f"table ip {TABLE} {{",
    "  chain forward {",
    "    type filter hook forward priority filter; policy accept;",
    "    ct state established,related accept",
    "  }",
    "}",
]


def pod(name: str, address: str | None, namespace: str = "vision", *, phase: str = "Running", **labels: str) -> Any:
    ports = [{"name": "rendezvous", "containerPort": 29500}]
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [{"ports": ports}]},
        "status": {"phase": phase, "podIP": address},
    }


PODS = [pod("a", "10.245.0.2", app="a"), pod("b", "10.245.1.2", app="b"), pod("c", "10.245.2.2", "language", app="c")]


def policy(**spec: Any) -> Any:
    return {"metadata": {"name": "p", "namespace": "vision"}, "spec": {"podSelector": {}, **spec}}


def chains(*policies: Any, pods: list[Any] = PODS) -> dict[str, list[str]]:
    """Return the lines of each chain."""
    found: dict[str, list[str]] = {}
    for line in ruleset(policies, pods, NAMESPACES).splitlines():
        if line.startswith("  chain "):
            found[name := line.split()[1]] = []
        elif line.startswith("    "):
            found[name].append(line.strip())
    return found


def test_without_policies_everything_is_forwarded() -> None:
    assert ruleset([], PODS, NAMESPACES).splitlines() == EMPTY


def test_a_policy_without_rules_isolates_the_pods_that_it_selects() -> None:
    found = chains(policy(podSelector={"matchLabels": {"app": "a"}}))
    assert found.pop("forward")[2:] == ["ip daddr 10.245.0.2 jump ingress-10-245-0-2"]
    assert found == {"ingress-10-245-0-2": ["drop"]}


def test_both_directions_are_isolated_where_both_are_named() -> None:
    found = chains(policy(policyTypes=["Ingress", "Egress"]))
    assert found["forward"][2:] == [
        "ip daddr 10.245.0.2 jump ingress-10-245-0-2",
        "ip saddr 10.245.0.2 jump egress-10-245-0-2",
        "ip daddr 10.245.1.2 jump ingress-10-245-1-2",
        "ip saddr 10.245.1.2 jump egress-10-245-1-2",
    ]


def test_pods_of_the_namespace_or_of_another_one_are_allowed_by_their_labels() -> None:
    inside = policy(ingress=[{"from": [{"podSelector": {"matchLabels": {"app": "b"}}}]}])
    assert chains(inside)["ingress-10-245-0-2"] == ["ip saddr 10.245.1.2 return", "drop"]
    other = policy(ingress=[{"from": [{"namespaceSelector": {"matchLabels": {"team": "l"}}}]}])
    assert chains(other)["ingress-10-245-0-2"] == ["ip saddr 10.245.2.2 return", "drop"]
    neither = {"namespaceSelector": {"matchLabels": {"team": "l"}}, "podSelector": {"matchLabels": {"app": "b"}}}
    assert chains(policy(ingress=[{"from": [neither]}]))["ingress-10-245-0-2"] == ["drop"]


def test_policies_add_up() -> None:
    first = policy(ingress=[{"from": [{"podSelector": {"matchLabels": {"app": "b"}}}]}])
    second = policy(ingress=[{"ports": [{"port": 80}]}])
    assert chains(first, second)["ingress-10-245-0-2"] == ["ip saddr 10.245.1.2 return", "tcp dport 80 return", "drop"]


@pytest.mark.parametrize(
    ("port", "match"),
    [
        ({"port": 53, "protocol": "UDP"}, "udp dport 53"),
        ({"port": 100, "endPort": 200}, "tcp dport 100-200"),
        ({"protocol": "SCTP"}, "meta l4proto sctp"),
        ({"port": "rendezvous"}, "tcp dport 29500"),
    ],
)
def test_ports_are_numbers_ranges_protocols_or_names_of_the_pod_that_is_connected_to(port: Any, match: str) -> None:
    assert chains(policy(ingress=[{"ports": [port]}]))["ingress-10-245-0-2"] == [f"{match} return", "drop"]
    to = [{"podSelector": {"matchLabels": {"app": "b"}}}]
    found = chains(policy(egress=[{"to": to, "ports": [port]}], policyTypes=["Egress"]))
    assert found["egress-10-245-0-2"] == [f"ip daddr 10.245.1.2 {match} return", "drop"]


def test_a_name_that_no_pod_has_allows_nothing() -> None:
    assert chains(policy(ingress=[{"ports": [{"port": "other"}]}]))["ingress-10-245-0-2"] == ["drop"]


def test_an_empty_rule_allows_everything() -> None:
    assert chains(policy(ingress=[{}]))["ingress-10-245-0-2"] == ["return", "drop"]


def test_blocks_of_addresses_are_allowed_without_their_exceptions() -> None:
    block = {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "10.2.0.0/16"]}
    six = {"ipBlock": {"cidr": "fd00::/8"}}
    found = chains(policy(policyTypes=["Egress"], egress=[{"to": [{"ipBlock": block}, six]}]))
    assert found["egress-10-245-0-2"] == ["ip daddr 10.0.0.0/8 ip daddr != { 10.1.0.0/16, 10.2.0.0/16 } return", "drop"]


def test_pods_without_an_address_of_their_own_have_no_rule() -> None:
    own = pod("host", "10.98.0.11")
    own["spec"]["hostNetwork"] = True
    others = [pod("pending", None), pod("ended", "10.245.0.9", phase="Succeeded"), own]
    assert list(chains(policy(), pods=others)) == ["forward"]


def test_selectors_are_those_of_kubernetes() -> None:
    labels = {"app": "a"}
    assert selects({}, labels)
    for operator, values, expected in (
        ("In", ["a"], True),
        ("In", ["b"], False),
        ("NotIn", ["b"], True),
        ("NotIn", ["a"], False),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
    ):
        assert (
            selects({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]}, labels) is expected
        )
