"""NetworkPolicies as a table of nftables; pure.

The network of pods is routed, so every packet between pods passes the forward hook of its nodes. A pod that a policy
selects has a chain for each direction: it returns for what a policy allows, and drops the rest. A packet passes only if
the chain of its source and that of its destination return. Packets of the node itself, such as probes of its kubelet,
are not forwarded, and are always allowed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

__all__ = ["TABLE", "ruleset", "selects"]

TABLE = "trainyard-policies"

Body = Mapping[str, Any]

_ENDED = ("Succeeded", "Failed")
_PROTOCOLS = {"TCP": "tcp", "UDP": "udp", "SCTP": "sctp"}


def ruleset(policies: Iterable[Body], pods: Iterable[Body], namespaces: Iterable[Body]) -> str:
    """Return the input of ``nft`` that replaces the table.

    Parameters
    ----------
    policies
        NetworkPolicies of all namespaces.
    pods, namespaces
        All pods and namespaces.
    """
    labels = {each["metadata"]["name"]: each["metadata"].get("labels") or {} for each in namespaces}
    running = sorted((pod for pod in pods if _address(pod) is not None), key=lambda pod: str(_address(pod)))
    ordered = sorted(policies, key=lambda policy: (policy["metadata"]["namespace"], policy["metadata"]["name"]))
    jumps: list[str] = []
    chains: list[str] = []
    for pod in running:
        selected = [policy for policy in ordered if _selected(policy, pod)]
        for direction in ("Ingress", "Egress"):
            own = [policy for policy in selected if direction in _types(policy)]
            if not own:
                continue
            name = f"{direction.lower()}-{str(_address(pod)).replace('.', '-')}"
            side = "daddr" if direction == "Ingress" else "saddr"
            jumps.append(f"    ip {side} {_address(pod)} jump {name}")
            allowed = dict.fromkeys(
                rule for policy in own for rule in _allowed(policy, direction, pod, running, labels)
            )
            chains.append(
                "\n".join([f"  chain {name} {{", *(f"    {rule} return" for rule in allowed), "    drop", "  }"])
            )
    forward = [
        "  chain forward {",
        "    type filter hook forward priority filter; policy accept;",
        "    ct state established,related accept",
        *jumps,
        "  }",
    ]
    # Chains come first: a jump names one that exists. The first line makes the deletion succeed when there is no table.
    return "\n".join(
        [f"table ip {TABLE}", f"delete table ip {TABLE}", f"table ip {TABLE} {{", *chains, *forward, "}", ""]
    )


def selects(selector: Body, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector selects labels; an empty one selects all."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_satisfies(labels, each) for each in selector.get("matchExpressions") or ())


def _satisfies(labels: Mapping[str, str], expression: Body) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


def _address(pod: Body) -> str | None:
    """Return the address of a pod that has one of its own; None if it has ended."""
    if pod["spec"].get("hostNetwork") or pod.get("status", {}).get("phase") in _ENDED:
        return None
    return pod.get("status", {}).get("podIP") or None


def _selected(policy: Body, pod: Body) -> bool:
    if policy["metadata"]["namespace"] != pod["metadata"]["namespace"]:
        return False
    return selects(policy["spec"].get("podSelector") or {}, pod["metadata"].get("labels") or {})


def _types(policy: Body) -> Sequence[str]:
    given: Sequence[str] | None = policy["spec"].get("policyTypes")
    return given or ["Ingress", *(["Egress"] if policy["spec"].get("egress") else [])]


def _allowed(
    policy: Body, direction: str, pod: Body, pods: Sequence[Body], namespaces: Mapping[str, Mapping[str, str]]
) -> Iterator[str]:
    """Return the matches of what a policy allows a pod in one direction."""
    rules, peers_of = policy["spec"].get(direction.lower()) or (), "from" if direction == "Ingress" else "to"
    side = "saddr" if direction == "Ingress" else "daddr"
    for rule in rules:
        ports = rule.get("ports") or ()
        for match, peer in _peers(rule.get(peers_of), policy["metadata"]["namespace"], side, pods, namespaces):
            # A named port is one of the pod that is connected to.
            for port in _ports(ports, pod if direction == "Ingress" else peer):
                yield " ".join(part for part in (match, port) if part)


def _peers(
    peers: Sequence[Body] | None,
    namespace: str,
    side: str,
    pods: Sequence[Body],
    labels: Mapping[str, Mapping[str, str]],
) -> Iterator[tuple[str, Body | None]]:
    """Return the match of each peer, and the pod if it is one; an absent or empty list allows every peer."""
    if not peers:
        yield "", None
        return
    for peer in peers:
        if block := peer.get("ipBlock"):
            if ipaddress.ip_network(block["cidr"], strict=False).version == 4:
                excluded = ", ".join(each for each in block.get("except") or () if ":" not in each)
                yield f"ip {side} {block['cidr']}" + (f" ip {side} != {{ {excluded} }}" if excluded else ""), None
            continue
        for pod in pods:
            home = pod["metadata"]["namespace"]
            in_scope = (
                selects(peer["namespaceSelector"] or {}, labels.get(home, {}))
                if "namespaceSelector" in peer
                else home == namespace
            )
            if in_scope and selects(peer.get("podSelector") or {}, pod["metadata"].get("labels") or {}):
                yield f"ip {side} {_address(pod)}", pod


def _ports(ports: Sequence[Body], target: Body | None) -> Iterator[str]:
    """Return the match of each port; an empty list allows every port."""
    if not ports:
        yield ""
    for port in ports:
        protocol = _PROTOCOLS[port.get("protocol") or "TCP"]
        number = port.get("port")
        if number is None:
            yield f"meta l4proto {protocol}"
        elif isinstance(number, int):
            yield f"{protocol} dport {number}" + (f"-{port['endPort']}" if port.get("endPort") else "")
        else:
            yield from (f"{protocol} dport {found}" for found in _named(target, number, port.get("protocol") or "TCP"))


def _named(target: Body | None, name: str, protocol: str) -> Iterator[int]:
    for container in (target or {"spec": {}})["spec"].get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("name") == name and port.get("protocol", "TCP") == protocol:
                yield port["containerPort"]
