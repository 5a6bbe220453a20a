"""NetworkPolicies as rules of nftables."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import Any

import pytest

from trainyard.local.cluster.node.policy_rules import TABLE, ruleset, selects

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
APP_A = {"matchLabels": {"app": "a"}}
APP_B = {"matchLabels": {"app": "b"}}
TEAM_L = {"matchLabels": {"team": "l"}}


def policy(**spec: Any) -> Any:
    return {"metadata": {"name": "p", "namespace": "vision"}, "spec": {"podSelector": {}, **spec}}


def blocks(text: str) -> dict[str, list[str]]:
    """Return the lines of each chain, set and map by its name."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if started := re.fullmatch(r"  (chain|set|map) (\S+) \{", line):
            found[name := started[2]] = []
        elif line.startswith("    "):
            found[name].append(line.strip())
    return found


def elements(lines: list[str]) -> str:
    return next((line.removeprefix("elements = ") for line in lines if line.startswith("elements")), "{ }")


def chains(*policies: Any, pods: list[Any] = PODS) -> dict[str, list[str]]:
    """Return the lines of the chain of each direction and address, with the elements of the sets that they name."""
    found = blocks(ruleset(policies, pods, NAMESPACES))
    result = {}
    for name, lines in found.items():
        if lines[0] == "type ipv4_addr : verdict":
            for address, chain in re.findall(r"([\d.]+) : jump ([\w-]+)", elements(lines)):
                rules = [re.sub(r"@([\w-]+)", lambda match: elements(found[match[1]]), rule) for rule in found[chain]]
                result[f"{name.rpartition('-')[0]} {address}"] = rules
    return result


def test_without_policies_everything_is_forwarded() -> None:
    assert ruleset([], PODS, NAMESPACES).splitlines() == EMPTY


def test_a_policy_without_rules_isolates_the_pods_that_it_selects() -> None:
    assert chains(policy(podSelector=APP_A)) == {"ingress 10.245.0.2": ["drop"]}


def test_both_directions_are_isolated_where_both_are_named() -> None:
    both = policy(policyTypes=["Ingress", "Egress"])
    found = blocks(ruleset([both], PODS, NAMESPACES))
    itself, ingress, egress = found["forward"][2:]
    assert re.fullmatch(r"ip saddr \. ip daddr @itself-\w+ accept", itself)
    assert re.fullmatch(r"ip daddr vmap @ingress-\w+", ingress)
    assert re.fullmatch(r"ip saddr vmap @egress-\w+", egress)
    assert chains(both) == {
        f"{direction} {address}": ["drop"]
        for direction in ("ingress", "egress")
        for address in ("10.245.0.2", "10.245.1.2")
    }


def test_a_pod_always_reaches_itself() -> None:
    found = blocks(ruleset([policy(podSelector=APP_A)], PODS, NAMESPACES))
    (name,) = [name for name in found if name.startswith("itself-")]
    assert elements(found[name]) == "{ 10.245.0.2 . 10.245.0.2 }"
    assert found["forward"][2] == f"ip saddr . ip daddr @{name} accept"


def test_pods_of_the_namespace_or_of_another_one_are_allowed_by_their_labels() -> None:
    inside = policy(ingress=[{"from": [{"podSelector": APP_B}]}])
    assert chains(inside)["ingress 10.245.0.2"] == ["ip saddr { 10.245.1.2 } return", "drop"]
    other = policy(ingress=[{"from": [{"namespaceSelector": TEAM_L}]}])
    assert chains(other)["ingress 10.245.0.2"] == ["ip saddr { 10.245.2.2 } return", "drop"]
    neither = {"namespaceSelector": TEAM_L, "podSelector": APP_B}
    assert chains(policy(ingress=[{"from": [neither]}]))["ingress 10.245.0.2"] == ["ip saddr { } return", "drop"]


def test_policies_add_up() -> None:
    first = policy(ingress=[{"from": [{"podSelector": APP_B}]}])
    second = policy(ingress=[{"ports": [{"port": 80}]}])
    wanted = ["ip saddr { 10.245.1.2 } return", "tcp dport 80 return", "drop"]
    assert chains(first, second)["ingress 10.245.0.2"] == wanted


@pytest.mark.parametrize(
    ("port", "match"),
    [
        ({"port": 53, "protocol": "UDP"}, "udp dport 53"),
        ({"port": 100, "endPort": 200}, "tcp dport 100-200"),
        ({"port": 100, "endPort": 100}, "tcp dport 100"),
        ({"protocol": "SCTP"}, "meta l4proto sctp"),
    ],
)
def test_ports_are_numbers_ranges_or_protocols(port: Any, match: str) -> None:
    assert chains(policy(ingress=[{"ports": [port]}]))["ingress 10.245.0.2"] == [f"{match} return", "drop"]
    to = [{"podSelector": APP_B}]
    found = chains(policy(egress=[{"to": to, "ports": [port]}], policyTypes=["Egress"]))
    assert found["egress 10.245.0.2"] == [f"ip daddr {{ 10.245.1.2 }} {match} return", "drop"]


def test_a_named_port_is_one_of_the_pod_that_is_connected_to() -> None:
    ports = [{"port": "rendezvous"}]
    assert chains(policy(ingress=[{"ports": ports}]))["ingress 10.245.0.2"] == ["tcp dport 29500 return", "drop"]
    to = [{"podSelector": APP_B}]
    some = chains(policy(egress=[{"to": to, "ports": ports}], policyTypes=["Egress"]))["egress 10.245.0.2"]
    assert some == ["ip daddr . tcp dport { 10.245.1.2 . 29500 } return", "drop"]
    every = chains(policy(egress=[{"ports": ports}], policyTypes=["Egress"]))["egress 10.245.0.2"]
    pairs = "10.245.0.2 . 29500, 10.245.1.2 . 29500, 10.245.2.2 . 29500"
    assert every == [f"ip daddr . tcp dport {{ {pairs} }} return", "drop"]


def test_a_named_port_may_be_that_of_a_sidecar() -> None:
    own = pod("a", "10.245.0.2")
    metrics = {"ports": [{"name": "metrics", "containerPort": 9000}]}
    rule = policy(ingress=[{"ports": [{"port": "metrics"}]}])
    own["spec"]["initContainers"] = [metrics]
    assert chains(rule, pods=[own])["ingress 10.245.0.2"] == ["drop"]
    own["spec"]["initContainers"] = [{**metrics, "restartPolicy": "Always"}]
    assert chains(rule, pods=[own])["ingress 10.245.0.2"] == ["tcp dport 9000 return", "drop"]


def test_a_name_that_no_pod_has_allows_nothing() -> None:
    assert chains(policy(ingress=[{"ports": [{"port": "other"}]}]))["ingress 10.245.0.2"] == ["drop"]


def test_an_empty_rule_allows_everything() -> None:
    assert chains(policy(ingress=[{}]))["ingress 10.245.0.2"] == ["return", "drop"]


@pytest.mark.parametrize(
    ("block", "match"),
    [
        (
            {"cidr": "10.0.0.0/8", "except": ["10.3.0.0/16", "10.5.0.0/16"]},
            "ip daddr 10.0.0.0/8 ip daddr != { 10.3.0.0/16, 10.5.0.0/16 } ",
        ),
        ({"cidr": "10.245.0.5/16"}, "ip daddr 10.245.0.0/16 "),
        ({"cidr": "010.020.0.0/16"}, "ip daddr 10.20.0.0/16 "),
        ({"cidr": "::ffff:10.0.0.0/104"}, "ip daddr 10.0.0.0/8 "),
        ({"cidr": "0.0.0.0/0"}, ""),
        ({"cidr": "0.0.0.0/0", "except": ["10.1.2.0/24", "10.1.0.0/16"]}, "ip daddr != { 10.1.0.0/16 } "),
    ],
)
def test_blocks_of_addresses_are_allowed_without_their_exceptions(block: Any, match: str) -> None:
    six = {"ipBlock": {"cidr": "fd00::/8"}}
    found = chains(policy(policyTypes=["Egress"], egress=[{"to": [{"ipBlock": block}, six]}]))
    assert found["egress 10.245.0.2"] == [f"{match}return", "drop"]


def test_pods_without_an_address_of_their_own_have_no_rule() -> None:
    own = pod("host", "10.98.0.11")
    own["spec"]["hostNetwork"] = True
    others = [pod("pending", None), pod("ended", "10.245.0.9", phase="Succeeded"), own]
    assert chains(policy(), pods=others) == {}


@pytest.mark.parametrize("terminating", [False, True])
def test_the_pod_that_has_an_address_now_decides_which_policies_apply_to_it(terminating: bool) -> None:
    former, present = pod("former", "10.245.0.2", app="a"), pod("present", "10.245.0.2", app="b")
    former["status"]["startTime"] = "2026-01-01T00:00:00Z"
    present["status"]["startTime"] = "2026-01-02T00:00:00Z"
    if terminating:
        former["metadata"]["deletionTimestamp"] = former["status"]["startTime"] = "2026-01-03T00:00:00Z"
    deny = policy(podSelector=APP_B)
    allow = policy(podSelector=APP_A, ingress=[{}])
    for pods in ([former, present], [present, former]):
        assert chains(allow, deny, pods=pods) == {"ingress 10.245.0.2": ["drop"]}


def test_a_policy_that_cannot_be_read_allows_nothing_and_others_hold(caplog: pytest.LogCaptureFixture) -> None:
    broken = policy(ingress=[{"from": [{"ipBlock": {"cidr": "ten"}}]}, {"ports": [{"port": 1, "protocol": "ICMP"}]}])
    other = policy(ingress=[{"ports": [{"port": 80}]}])
    assert chains(broken)["ingress 10.245.0.2"] == ["drop"]
    assert "network policy vision/p allows nothing" in caplog.text
    assert chains(broken, other)["ingress 10.245.0.2"] == ["tcp dport 80 return", "drop"]


def test_the_table_grows_with_the_number_of_pods_and_not_its_square() -> None:
    def size(count: int) -> int:
        pods = [pod(f"p{number}", f"10.245.{number // 200}.{number % 200 + 2}") for number in range(count)]
        rules = policy(
            policyTypes=["Ingress", "Egress"],
            ingress=[{"from": [{"podSelector": {}}]}],
            egress=[{"to": [{"podSelector": {}}], "ports": [{"port": "rendezvous"}]}],
        )
        return len(ruleset([rules], pods, NAMESPACES))

    assert size(400) < 2.5 * size(200)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("nft"), reason="needs root and nft (nftables)")
def test_nftables_accepts_the_table_and_its_replacement() -> None:
    block = {"cidr": "0.0.0.0/0", "except": ["10.1.2.0/24", "10.1.0.0/16", "10.2.0.0/16"]}
    none = {"namespaceSelector": TEAM_L, "podSelector": APP_B}
    ports = [{"port": "rendezvous"}, {"port": 1, "endPort": 9}, {"protocol": "UDP"}]
    everything = policy(
        policyTypes=["Ingress", "Egress"],
        ingress=[{"from": [{"podSelector": {}}, {"ipBlock": block}, none], "ports": ports}, {"ports": ports}],
        egress=[{"to": [{"namespaceSelector": {}}, {"ipBlock": block}, none], "ports": ports}, {"ports": ports}, {}],
    )
    text = ruleset([everything], PODS, NAMESPACES)
    command = [
        "unshare",
        "--net",
        "sh",
        "-c",
        'input=$(cat); for _ in 1 2; do echo "$input" | nft --file - || exit; done',
    ]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


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
