"""Source `ibnetdiscover`: the links of an InfiniBand fabric as printed by that tool.

Switches with host adapters are leaf switches; each further level of switches is a tier. Nodes with several adapters on
different leaf switches (rails) form one domain with the nodes on the same leaf switches.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from trainyard.errors import TrainyardError
from trainyard.scheduling.topology.inventory import Inventory, dns_label
from trainyard.scheduling.topology.sources.base import FabricSource, Options
from trainyard.scheduling.topology.sources.rails import Adapter, Wiring, levels_of, place
from trainyard.scheduling.topology.to_settings import ImportedFabric, to_settings

_WHAT = "The output of ibnetdiscover"
_HEAD = re.compile(r'(Switch|Ca|Rt|Router)\s+\d+\s+"([SHR]-[0-9a-fA-F]{1,16})"\s*(?:#\s*"([^"]*)")?')
_LINK = re.compile(
    r'\[(\d+)\](?:\[[^\]]*\])?(?:\([0-9a-fA-F]+\))?\s+"([SHR]-[0-9a-fA-F]{1,16})"\[(\d+)\](?:\[[^\]]*\])?'
    r'(?:\([0-9a-fA-F]+\))?\s*(?:#\s*(?:"([^"]*)")?.*)?'
)
_PASSED_OVER = re.compile(r"#|vendid=|devid=|sysimgguid=|switchguid=|caguid=|rtguid=|Chassis|Non-Chassis|DR path|ext ")
_HOST = re.compile(r"(\S+)\s+((?:HCA|mlx|ib|hfi|bnxt|irdma|efa|roce)\S*)", re.IGNORECASE)
_MANAGED = re.compile(r"MF\d;([^:;]+)[:;]")
_FACTORY = re.compile(r"technologies|mellanox|nvidia|infiniscale|connectx|quantum|isr\d|voltaire|aggregation", re.I)
_TIERS = ("leaf", "spine", "core")


@dataclass
class _Fabric:
    """Parsed text, by the tool's identifiers (``S-<guid>``, ``H-<guid>``)."""

    descriptions: dict[str, str] = field(default_factory=dict)
    links: set[tuple[str, str]] = field(default_factory=set)
    unread: Counter[str] = field(default_factory=Counter)


def _read(text: str, options: Options) -> ImportedFabric:
    fabric = _parse(text)
    if not any(identifier.startswith("S-") for identifier in fabric.descriptions):
        raise TrainyardError(
            f"{_WHAT} contains no switch", fix="use the unchanged output of `ibnetdiscover` on a node of the fabric"
        )
    notes: list[str] = []
    if fabric.unread:
        first = next(iter(fabric.unread))
        notes.append(f"{sum(fabric.unread.values())} lines were ignored, such as {first[:60]!r}")
    names = _switch_names(fabric)
    adapters, others = _adapters(fabric)
    if others:
        shown = ", ".join(repr(name) for name in sorted(others)[:3])
        notes.append(f"{len(others)} adapters are left out because their node is unknown: {shown}")
    wiring = _wiring(fabric, names, adapters)
    levels, dropped = levels_of(wiring)
    notes += dropped
    found, placement_notes, depth = place(wiring, levels)
    if not found:
        raise TrainyardError(
            f"{_WHAT} contains no link between an adapter of a node and a switch",
            fix="describe adapters as `<node> <adapter>`, such as `gpu-01 mlx5_0`",
        )
    notes += placement_notes
    tiers = tuple(dns_label(name) for name in options.tiers) or _tier_names(depth, found.rails)
    if len(tiers) != depth:
        raise TrainyardError(
            f"{len(tiers)} tier names for {depth} levels", fix="set one --tier per level, lowest first"
        )
    return to_settings(Inventory(tiers, found.nodes, {}, tuple(notes)), what=_WHAT, qualify=options.qualify)


def _parse(text: str) -> _Fabric:
    fabric, current = _Fabric(), ""
    for raw in text.splitlines():
        line = raw.strip()
        if not line:
            continue
        head = _HEAD.match(line)
        if head is not None:
            current = head[2].lower().capitalize()
            fabric.descriptions[current] = head[3] or fabric.descriptions.get(current, "")
            continue
        link = _LINK.fullmatch(line)
        if link is not None and current:
            peer = link[2].lower().capitalize()
            if link[4] and current.startswith("S-"):
                fabric.descriptions.setdefault(peer, link[4])
            fabric.descriptions.setdefault(peer, "")
            fabric.links.add((min(current, peer), max(current, peer)))
        elif not _PASSED_OVER.match(line):
            fabric.unread[line] += 1
    return fabric


def _switch_names(fabric: _Fabric) -> dict[str, str]:
    """Return the name of each switch: its own if it is unique, otherwise its GUID."""
    given = {}
    for identifier, description in fabric.descriptions.items():
        if identifier.startswith("S-"):
            managed = _MANAGED.match(description)
            name = dns_label(managed[1] if managed else description)
            given[identifier] = "" if managed is None and _FACTORY.search(description) else name
    count = Counter(given.values())
    return {
        identifier: name if name and count[name] == 1 else f"switch-{identifier[2:].lower()}"
        for identifier, name in given.items()
    }


def _adapters(fabric: _Fabric) -> tuple[dict[str, Adapter], set[str]]:
    adapters: dict[str, Adapter] = {}
    others: set[str] = set()
    for identifier, description in fabric.descriptions.items():
        if not identifier.startswith("H-"):
            continue
        host = _HOST.fullmatch(description.strip())
        if host is not None:
            adapters[identifier] = Adapter(host[1].lower(), host[2])
        elif description.strip() and " " not in description.strip() and not _FACTORY.search(description):
            adapters[identifier] = Adapter(description.strip().lower(), "")
        else:
            others.add(description or identifier)
    return adapters, others


def _wiring(fabric: _Fabric, names: dict[str, str], adapters: dict[str, Adapter]) -> Wiring:
    wiring = Wiring({name: set() for name in names.values()})
    for one, other in sorted(fabric.links):
        for adapter, switch in _ends(one, other):
            if adapter in adapters:
                wiring.hosts.setdefault(adapters[adapter].node, set()).add((adapters[adapter].name, names[switch]))
        if one in names and other in names and one != other:
            wiring.switches[names[one]].add(names[other])
            wiring.switches[names[other]].add(names[one])
    return wiring


def _ends(one: str, other: str) -> Iterator[tuple[str, str]]:
    if one.startswith("H-") and other.startswith("S-"):
        yield one, other
    elif one.startswith("S-") and other.startswith("H-"):
        yield other, one


def _tier_names(depth: int, rails: bool) -> tuple[str, ...]:
    names = ["rail-group" if rails else _TIERS[0], *_TIERS[1:]]
    return tuple(names[level] if level < len(names) else f"level-{level + 1}" for level in range(depth))


SOURCE = FabricSource("ibnetdiscover", "the links of an InfiniBand fabric, as printed by ibnetdiscover", _read)
