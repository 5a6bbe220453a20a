"""NetworkPolicies as a table of nftables; pure.

The network of pods is routed, so every packet between pods passes the forward hook of its nodes. A pod that a policy
selects has a chain for each direction, which pods with the same rules share: it returns for what a policy allows, and
drops the rest. A packet passes only if the chain of its source and that of its destination return. Packets of the node
itself, such as probes of its kubelet, are not forwarded, and are always allowed, as is what a pod sends to itself. The
pods that a peer of a policy selects are a set, so the size of the table grows with the number of pods, not its square.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trainyard.local.cluster.node.address_blocks import block_match

TABLE = "trainyard-policies"

Body = Mapping[str, Any]
Labels = Mapping[str, Mapping[str, str]]
Rule = tuple[str, str, Sequence[Body], Sequence[Body]]
"""Match of the peer, its address field, the ports, and the pods of the peer."""

_ENDED = ("Succeeded", "Failed")
_PROTOCOLS = {"TCP": "tcp", "UDP": "udp", "SCTP": "sctp"}
_SIDES = {"Ingress": ("daddr", "saddr", "from"), "Egress": ("saddr", "daddr", "to")}
"""Field with the address of the selected pod and of its peer, and key of the peers, by direction."""

_log = logging.getLogger(__name__)


class _Table:
    """Sets and chains of the table, each once."""

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}

    def add(self, kind: str, name: str, lines: Sequence[str]) -> str:
        """Add what is not there, and return its name."""
        text = "\n".join(f"    {line}" for line in lines)
        own = f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        self.parts[own] = f"  {kind} {own} {{\n{text}\n  }}"
        return own

    def set(self, name: str, kind: str, elements: Sequence[str]) -> str:
        """Add a set, and return its name."""
        return self.add("set", name, [f"type {kind}", *_elements(elements)])


def _elements(elements: Sequence[str]) -> list[str]:
    return [f"elements = {{ {', '.join(elements)} }}"] if elements else []


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
    running = _by_address(pods)
    table = _Table()
    jumps: dict[str, list[str]] = {direction: [] for direction in _SIDES}
    isolated: list[str] = []
    peers: dict[str, tuple[str, list[Body]]] = {}
    ordered = sorted(policies, key=lambda policy: (policy["metadata"]["namespace"], policy["metadata"]["name"]))
    compiled = [
        (policy, {way: _rules(policy, way, running, labels, table, peers) for way in _types(policy)})
        for policy in ordered
    ]
    for pod in running:
        selected = [rules for policy, rules in compiled if _selected(policy, pod)]
        if selected:
            isolated.append(f"{_address(pod)} . {_address(pod)}")
        for direction in _SIDES:
            own = [rules[direction] for rules in selected if direction in rules]
            if own:
                allowed = dict.fromkeys(
                    text for rules in own for rule in rules for text in _texts(rule, direction, pod, table)
                )
                chain = table.add("chain", direction.lower(), [*(f"{rule} return".strip() for rule in allowed), "drop"])
                jumps[direction].append(f"{_address(pod)} : jump {chain}")
    forward = [
        "  chain forward {",
        "    type filter hook forward priority filter; policy accept;",
        "    ct state established,related accept",
    ]
    if isolated:
        forward.append(f"    ip saddr . ip daddr @{table.set('itself', 'ipv4_addr . ipv4_addr', isolated)} accept")
    for direction, (side, _, _) in _SIDES.items():
        if jumps[direction]:
            name = table.add("map", direction.lower(), ["type ipv4_addr : verdict", *_elements(jumps[direction])])
            forward.append(f"    ip {side} vmap @{name}")
    # What a line names comes before it. The first line makes the deletion succeed when there is no table.
    head = [f"table ip {TABLE}", f"delete table ip {TABLE}", f"table ip {TABLE} {{"]
    return "\n".join([*head, *table.parts.values(), *forward, "  }", "}", ""])


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


def _by_address(pods: Iterable[Body]) -> list[Body]:
    """Return one pod for each address: the one that has it now, also while a former one's status still shows it."""
    found: dict[str, Body] = {}
    for pod in sorted(pods, key=_recency):
        if (address := _address(pod)) is not None:
            found[address] = pod
    return [found[address] for address in sorted(found)]


def _recency(pod: Body) -> tuple[bool, str]:
    metadata = pod["metadata"]
    since = pod.get("status", {}).get("startTime") or metadata.get("creationTimestamp") or ""
    return "deletionTimestamp" not in metadata, since


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


def _rules(
    policy: Body,
    direction: str,
    pods: Sequence[Body],
    labels: Labels,
    table: _Table,
    sets: dict[str, tuple[str, list[Body]]],
) -> list[Rule]:
    """Return what a policy allows in one direction; nothing if it cannot be read."""
    metadata = policy["metadata"]
    _, side, key = _SIDES[direction]
    found: list[Rule] = []
    try:
        for rule in policy["spec"].get(direction.lower()) or ():
            ports = rule.get("ports") or ()
            if not rule.get(key):
                found.append(("", side, ports, pods))
            for peer in rule.get(key) or ():
                if "ipBlock" in peer:
                    if (match := block_match(peer["ipBlock"], side)) is not None:
                        found.append((match, side, ports, ()))
                    continue
                identity = json.dumps([peer, "" if "namespaceSelector" in peer else metadata["namespace"]])
                if identity not in sets:
                    members = list(_members(peer, metadata["namespace"], pods, labels))
                    sets[identity] = table.set("peers", "ipv4_addr", [str(_address(pod)) for pod in members]), members
                name, members = sets[identity]
                found.append((f"ip {side} @{name}", side, ports, members))
        for _, _, ports, _ in found:
            list(_port_matches(ports))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        _log.warning("network policy %s/%s allows nothing: %r", metadata["namespace"], metadata["name"], error)
        return []
    return found


def _members(peer: Body, namespace: str, pods: Iterable[Body], labels: Labels) -> Iterator[Body]:
    for pod in pods:
        home = pod["metadata"]["namespace"]
        in_scope = (
            selects(peer["namespaceSelector"] or {}, labels.get(home, {}))
            if "namespaceSelector" in peer
            else home == namespace
        )
        if in_scope and selects(peer.get("podSelector") or {}, pod["metadata"].get("labels") or {}):
            yield pod


def _texts(rule: Rule, direction: str, pod: Body, table: _Table) -> Iterator[str]:
    """Return the matches of a rule for a pod. A named port is one of the pod that is connected to."""
    match, side, ports, members = rule
    if not ports:
        yield match
    for port_match, name, protocol in _port_matches(ports):
        if name is None:
            yield f"{match} {port_match}".strip()
        elif direction == "Ingress":
            yield from (f"{match} {port_match} {number}".strip() for number in _numbers(pod, name, protocol))
        else:
            pairs = [f"{_address(each)} . {number}" for each in members for number in _numbers(each, name, protocol)]
            if pairs:
                named = table.set("named", "ipv4_addr . inet_service", list(dict.fromkeys(pairs)))
                yield f"ip {side} . {port_match} @{named}"


def _port_matches(ports: Sequence[Body]) -> Iterator[tuple[str, str | None, str]]:
    """Return the match of each port, and its name if it has one instead of a number, with its protocol."""
    for port in ports:
        protocol = port.get("protocol") or "TCP"
        field, number = _PROTOCOLS[protocol], port.get("port")
        if number is None:
            yield f"meta l4proto {field}", None, protocol
        elif isinstance(number, int):
            last = port.get("endPort") or number
            yield f"{field} dport {number}" + (f"-{last}" if last != number else ""), None, protocol
        else:
            yield f"{field} dport", number, protocol


def _numbers(pod: Body, name: str, protocol: str) -> Iterator[int]:
    """Return the numbers of a named port of a pod's containers and sidecars."""
    sidecars = [each for each in pod["spec"].get("initContainers") or () if each.get("restartPolicy") == "Always"]
    for container in (*(pod["spec"].get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            if port.get("name") == name and port.get("protocol", "TCP") == protocol:
                yield port["containerPort"]
