"""Source `topograph`: output of NVIDIA Topograph for Slurm: ``topology.conf``, ``topology.yaml`` or a ConfigMap.

The tree form (``SwitchName=… Switches=…`` and ``Nodes=…``) is converted to tiers by height; the block form
(``BlockName=… Nodes=…``) to a tier of blocks, the lowest one if both are present. Source `nodes` reads its node labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.manifests.loader import load_all
from trainyard.scheduling.topology.inventory import Inventory, InventoryNode, dns_label, raise_findings
from trainyard.scheduling.topology.layout import MAX_DOMAINS, MAX_NODES
from trainyard.scheduling.topology.sources.base import FabricSource, Options
from trainyard.scheduling.topology.sources.hostlist import expand
from trainyard.scheduling.topology.to_settings import ImportedFabric, to_settings

_WHAT = "The topology"
_PAIR = re.compile(r"(?<!\w)(\w+)\s*=\s*((?:\[[^\]]*\]|\S)+)")
_LEVELS = ("leaf", "spine", "core")
_MAX_LEVELS = 16


@dataclass(frozen=True)
class _Switch:
    where: str
    switches: str = ""
    nodes: str = ""


@dataclass
class _Topology:
    """Declarations of a text, by name."""

    switches: dict[str, _Switch] = field(default_factory=dict)
    blocks: dict[str, _Switch] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def add(self, kind: str, name: str, switch: _Switch) -> None:
        known = self.switches if kind == "switch" else self.blocks
        if name in known:
            message = f"{kind} {name!r} is declared twice, first at {known[name].where}"
            self.findings.append(Finding(switch.where, message, "declare it once"))
        else:
            known[name] = switch


def _read(text: str, options: Options) -> ImportedFabric:
    topology = _Topology()
    if re.search(r"(?im)^\s*(SwitchName|BlockName)\s*=", text) and not re.search(r"(?m)^\s*(kind|data):|^\s*[{]", text):
        _conf(text, topology)
    else:
        for document in load_all(text, "It", fix="correct it"):
            _document(document, topology)
    if not topology.switches and not topology.blocks and not topology.findings:
        raise TrainyardError(
            f"{_WHAT} contains no switch and no block",
            fix="use topology.conf or topology.yaml of Topograph, or the ConfigMap that contains it",
        )
    inventory = _inventory(topology, options)
    raise_findings(f"{_WHAT} is invalid", topology.findings)
    return to_settings(inventory, what=_WHAT, qualify=options.qualify)


def _document(document: object, topology: _Topology) -> None:
    if isinstance(document, Mapping) and isinstance(document.get("data"), Mapping):
        for key, value in document["data"].items():
            if not isinstance(value, str):
                continue
            if re.search(r"(?im)^\s*(SwitchName|BlockName)\s*=", value):
                _conf(value, topology, f"{key} ")
            elif str(key).endswith((".yaml", ".yml")) and "topology" in value:
                for inner in load_all(value, "It", fix="correct it"):
                    _entries(inner, topology)
    else:
        _entries(document, topology)


def _conf(text: str, topology: _Topology, where: str = "") -> None:
    for line, statement in _statements(text):
        pairs = {key.lower(): value for key, value in _PAIR.findall(statement)}
        at = f"{where}line {line}"
        if "switchname" in pairs:
            switch = _Switch(at, pairs.get("switches", ""), pairs.get("nodes", ""))
            topology.add("switch", pairs["switchname"], switch)
        elif "blockname" in pairs:
            topology.add("block", pairs["blockname"], _Switch(at, "", pairs.get("nodes", "")))
        elif "blocksizes" in pairs:
            _sizes(pairs["blocksizes"], topology)
        else:
            message = f"{statement[:80]!r} is neither SwitchName, BlockName nor BlockSizes"
            topology.findings.append(Finding(at, message, "correct or remove the line"))


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines without comments, with the number of the first; lines that end in a backslash are joined."""
    held, start = "", 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.partition("#")[0].strip()
        start = start or number
        held += line.removesuffix("\\")
        if line.endswith("\\"):
            continue
        if held.strip():
            yield start, held.strip()
        held, start = "", 0
    if held.strip():
        yield start, held.strip()


def _entries(document: object, topology: _Topology) -> None:
    """Read ``topology.yaml``: a list of topologies, each a tree, blocks, or flat."""
    entries = [entry for entry in document if isinstance(entry, Mapping)] if isinstance(document, list) else []
    for kind, plural, name_key, below_key in (
        ("tree", "switches", "switch", "children"),
        ("block", "blocks", "block", ""),
    ):
        having = [entry for entry in entries if isinstance(entry.get(kind), Mapping)]
        if not having:
            continue
        chosen = next((entry for entry in having if entry.get("cluster_default") is True), having[0])
        if len(having) > 1:
            others = ", ".join(str(entry.get("topology", "?"))[:40] for entry in having if entry is not chosen)
            topology.notes.append(f"only {kind} {str(chosen.get('topology', '?'))[:40]!r} is used, not {others}")
        items = chosen[kind].get(plural)
        for position, item in enumerate(items if isinstance(items, list) else []):
            where = f"{kind}.{plural}[{position}]"
            if not isinstance(item, Mapping) or not isinstance(item.get(name_key), str):
                topology.findings.append(Finding(where, f"{name_key} is missing", f"set {name_key}"))
                continue
            below = _text(item.get(below_key)) if below_key else ""
            switch = _Switch(where, below, _text(item.get("nodes")))
            topology.add("switch" if kind == "tree" else "block", item[name_key], switch)
        if kind == "block" and chosen[kind].get("block_sizes"):
            _sizes(_text(chosen[kind]["block_sizes"]), topology)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "" if value is None else str(value)


def _sizes(value: str, topology: _Topology) -> None:
    topology.notes.append(f"BlockSizes={value[:80]} limits allocations of Slurm and is ignored")


def _inventory(topology: _Topology, options: Options) -> Inventory:
    block_of = _enclosing(topology, topology.blocks)
    leaf_of = _enclosing(topology, topology.switches)
    above = _parents(topology)
    nodes: list[InventoryNode] = []
    depths: dict[int, str] = {}
    for node, (leaf, where) in (leaf_of or block_of).items():
        path = _upward(leaf, above) if leaf_of else [leaf]
        if leaf_of and block_of:
            if node not in block_of:
                message = f"node {node!r} is on switch {leaf!r} but in no block"
                topology.findings.append(Finding(where, message, "add it to a block, or remove the blocks"))
                continue
            path = [block_of[node][0], *path]
        depths.setdefault(len(path), node)
        nodes.append(InventoryNode(node, tuple(path), where))
    for node, (_, where) in block_of.items():
        if leaf_of and node not in leaf_of:
            message = f"node {node!r} is in a block but on no switch"
            topology.findings.append(Finding(where, message, "add it to a switch, or remove the switches"))
    if len(depths) > 1:
        (one, first), (other, second) = sorted(depths.items())[:2]
        message = f"node {first!r} is {one} level(s) deep, but node {second!r} {other}"
        topology.findings.append(Finding("", message, "use the same number of switches above all nodes"))
    deepest = max(depths, default=0)
    found = tuple(node for node in nodes if len(node.path) == deepest)
    tiers = _tier_names(deepest, bool(leaf_of), bool(block_of), options, topology)
    return Inventory(tiers, found, {}, tuple(topology.notes))


def _enclosing(topology: _Topology, declared: Mapping[str, _Switch]) -> dict[str, tuple[str, str]]:
    """Return the leaf switch, or block, of each node, and its position."""
    homes: dict[str, tuple[str, str]] = {}
    for name, switch in declared.items():
        for node in _expanded(switch.nodes, switch.where, MAX_NODES - len(homes), topology):
            if node in homes:
                message = f"node {node!r} is in {name!r} and in {homes[node][0]!r} ({homes[node][1]})"
                topology.findings.append(Finding(switch.where, message, "remove it from one"))
            homes.setdefault(node, (name, switch.where))
    return homes


def _parents(topology: _Topology) -> dict[str, str]:
    above: dict[str, str] = {}
    for name, switch in topology.switches.items():
        for child in _expanded(switch.switches, switch.where, MAX_DOMAINS, topology):
            if child not in topology.switches:
                message = f"switch {name!r} lists {child!r}, which is not declared"
                topology.findings.append(Finding(switch.where, message, "declare it, or remove it"))
            elif above.setdefault(child, name) != name:
                message = f"switch {child!r} is listed by {name!r} and by {above[child]!r}"
                topology.findings.append(Finding(switch.where, message, "remove it from one"))
        if switch.switches and switch.nodes:
            message = f"switch {name!r} lists both switches and nodes"
            topology.findings.append(Finding(switch.where, message, "add a switch between it and the nodes"))
        elif not switch.switches and not switch.nodes:
            message = f"switch {name!r} lists neither switches nor nodes"
            topology.findings.append(Finding(switch.where, message, "remove it, or set Switches or Nodes"))
    for name in topology.switches:
        chain = [name]
        while chain[-1] in above and len(chain) <= _MAX_LEVELS:
            chain.append(above[chain[-1]])
        if len(chain) > _MAX_LEVELS:
            message = f"switch {name!r} is in a cycle, or more than {_MAX_LEVELS} levels deep"
            finding = Finding(topology.switches[name].where, message, "correct its ancestors")
            topology.findings.append(finding)
            return {}
    return above


def _expanded(text: str, where: str, limit: int, topology: _Topology) -> list[str]:
    try:
        return expand(text, limit=limit)
    except ValueError as error:
        topology.findings.append(Finding(where, str(error), "correct the list"))
        return []


def _upward(switch: str, above: Mapping[str, str]) -> list[str]:
    path = [switch]
    while path[-1] in above:
        path.append(above[path[-1]])
    return path


def _tier_names(count: int, tree: bool, blocks: bool, options: Options, topology: _Topology) -> tuple[str, ...]:
    if options.tiers:
        if len(options.tiers) != count:
            message = f"{len(options.tiers)} tier names for {count} levels"
            topology.findings.append(Finding("--tier", message, f"set {count} tiers, lowest first"))
        return tuple(dns_label(name) for name in options.tiers)
    names = ["block"] if blocks else []
    if tree:
        levels = count - len(names)
        names += [_LEVELS[level] if level < len(_LEVELS) else f"level-{level + 1}" for level in range(levels)]
    return tuple(names)


SOURCE = FabricSource(
    "topograph", "output of NVIDIA Topograph for Slurm (topology.conf, topology.yaml, a ConfigMap)", _read
)
