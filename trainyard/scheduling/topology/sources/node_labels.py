"""Source `nodes`: the labels of a cluster's nodes, from ``kubectl get nodes -o yaml`` or ``-o json``.

Labels of Topograph, AWS, Google Cloud, Oracle Cloud and Trainyard are detected without configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainyard import quantity
from trainyard.checks.finding import Finding
from trainyard.checks.report.text import listed
from trainyard.errors import TrainyardError
from trainyard.manifests.loader import load_all
from trainyard.scheduling.topology.fabric_names import LABEL_PREFIX, SHAPE_LABEL
from trainyard.scheduling.topology.hypernode_manifests import Node, read_manifests
from trainyard.scheduling.topology.inventory import Inventory, InventoryNode, dns_label, raise_findings
from trainyard.scheduling.topology.sources.base import FabricSource, Options
from trainyard.scheduling.topology.to_settings import ImportedFabric, to_settings
from trainyard.settings.fabric import NodeShape

_WHAT = "The list of nodes"
_SHOWN = 5
_PRODUCT = (SHAPE_LABEL, "nvidia.com/gpu.product", "node.kubernetes.io/instance-type")
_ALWAYS = ("cpu", "memory", "pods")


@dataclass(frozen=True)
class _Tier:
    name: str
    keys: tuple[str, ...]


_NVIDIA = "network.topology.nvidia.com"
_FAMILIES = (
    (
        _Tier("nvlink", (f"{_NVIDIA}/accelerator", "nvidia.com/gpu.clique")),
        _Tier("leaf", (f"{_NVIDIA}/leaf",)),
        _Tier("spine", (f"{_NVIDIA}/spine",)),
        _Tier("core", (f"{_NVIDIA}/core",)),
    ),
    (
        _Tier("layer-3", ("topology.k8s.aws/network-node-layer-3",)),
        _Tier("layer-2", ("topology.k8s.aws/network-node-layer-2",)),
        _Tier("layer-1", ("topology.k8s.aws/network-node-layer-1",)),
    ),
    (
        _Tier("subblock", ("cloud.google.com/gce-topology-subblock",)),
        _Tier("block", ("cloud.google.com/gce-topology-block",)),
    ),
    (
        _Tier("rack", ("oci.oraclecloud.com/host.rack_id",)),
        _Tier("network-block", ("oci.oraclecloud.com/host.network_block_id",)),
    ),
)
"""Labels that name network domains, lowest tier first, by their origin."""


def _read(text: str, options: Options) -> ImportedFabric:
    manifests = read_manifests(("", document) for document in load_all(text, "It", fix="correct it"))
    if manifests.nodes is None:
        raise TrainyardError(f"{_WHAT} contains no nodes", fix="use the output of `kubectl get nodes -o yaml`")
    return fabric_of_nodes(manifests.nodes, options)


def fabric_of_nodes(nodes: Sequence[Node], options: Options) -> ImportedFabric:
    """Return the fabric described by the labels of nodes.

    Raises
    ------
    TrainyardError
        No node has the labels, or they are inconsistent.
    """
    tiers = [_Tier(dns_label(name), (key,)) for name, key in options.labels] or _known_tiers(nodes)
    present = [tier for tier in tiers if options.labels or any(_value(node, tier) for node in nodes)]
    if not present:
        raise TrainyardError(
            f"None of the {len(nodes)} nodes has a label of a network domain",
            fix="set the labels, lowest tier first: --label rack=example.com/rack --label spine=example.com/spine",
        )
    keys = ", ".join(" or ".join(tier.keys) for tier in present)
    findings: list[Finding] = []
    placed: list[tuple[Node, tuple[str, ...]]] = []
    outside: list[Node] = []
    for node in nodes:
        path = tuple(_value(node, tier) for tier in present)
        if not any(path):
            outside.append(node)
            continue
        for tier, value in zip(present, path, strict=True):
            if not value:
                message = f"label {' or '.join(tier.keys)} is missing, but other nodes have it"
                findings.append(Finding(f"Node/{node.name}", message, "label it, or set other labels with --label"))
        placed.append((node, path))
    raise_findings(f"{_WHAT} is invalid", findings)
    shapes, names = shapes_of([node for node, _ in placed])
    found = tuple(InventoryNode(node.name, path, f"Node/{node.name}", names[node.name]) for node, path in placed)
    notes = [f"tiers from labels, lowest first: {keys}", *_outside(outside)]
    inventory = Inventory(tuple(tier.name for tier in present), found, shapes, tuple(notes))
    return to_settings(inventory, what=_WHAT, qualify=options.qualify)


def _known_tiers(nodes: Sequence[Node]) -> list[_Tier]:
    own: dict[str, set[str]] = {}
    for node in nodes:
        for key, value in node.labels.items():
            if key.startswith(LABEL_PREFIX):
                own.setdefault(key, set()).add(value)
    if own:
        lowest_first = sorted(own, key=lambda key: (-len(own[key]), key))
        return [_Tier(dns_label(key.removeprefix(LABEL_PREFIX)), (key,)) for key in lowest_first]
    for family in _FAMILIES:
        if any(_value(node, tier) for node in nodes for tier in family):
            return list(family)
    return []


def _value(node: Node, tier: _Tier) -> str:
    return next((node.labels[key] for key in tier.keys if node.labels.get(key)), "")


def shapes_of(nodes: Sequence[Node]) -> tuple[dict[str, NodeShape], Mapping[str, str]]:
    """Group nodes by product and devices; the capacity of a shape is the minimum of its nodes."""
    groups: dict[str, list[Node]] = {}
    names: dict[str, str] = {}
    for node in nodes:
        product = next((node.labels[key] for key in _PRODUCT if node.labels.get(key)), "")
        devices = "-".join(f"{amount}-{name.rpartition('/')[2]}" for name, amount in sorted(node.devices.items()))
        name = dns_label(product if node.labels.get(SHAPE_LABEL) else f"{product}-{devices}")
        names[node.name] = name if node.capacity else ""
        if name and node.capacity:
            groups.setdefault(name, []).append(node)
    shapes = {}
    for name, members in groups.items():
        capacity = {}
        for resource in (*_ALWAYS, *members[0].devices):
            offers = [amount for node in members if (amount := node.capacity.get(resource)) and _readable(amount)]
            if offers:
                capacity[resource] = quantity.format(min(map(quantity.parse, offers)), resource)
        shapes[name] = NodeShape.model_construct(capacity=capacity)
    return shapes, names


def _readable(amount: str) -> bool:
    try:
        return quantity.parse(amount) >= 0
    except ValueError:
        return False


def _outside(nodes: Sequence[Node]) -> list[str]:
    idle = [node.name for node in nodes if not node.devices]
    others = [node.name for node in nodes if node.devices]
    notes = []
    if idle:
        notes.append(f"left out, without devices and labels: {listed(idle, _SHOWN)}")
    if others:
        notes.append(f"left out, with devices but without labels: {listed(others, _SHOWN)}")
    return notes


SOURCE = FabricSource("nodes", "the labels of a cluster's nodes (kubectl get nodes -o yaml)", _read)
