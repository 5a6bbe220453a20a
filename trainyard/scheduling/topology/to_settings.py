"""Convert an inventory to settings: the tree of domains, sorted by name, in its shortest form."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from trainyard.checks.finding import Finding
from trainyard.scheduling.topology.inventory import Inventory, InventoryNode, dns_label, natural, raise_findings
from trainyard.scheduling.topology.layout import MAX_NODES
from trainyard.settings.fabric import Domain, FabricSettings

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_VALUE_LIMIT = 63


@dataclass(frozen=True)
class ImportedFabric:
    """Settings of an imported fabric.

    Parameters
    ----------
    settings
        Value of ``trainyard:fabric``.
    notes
        Notes for the user.
    """

    settings: FabricSettings
    notes: tuple[str, ...] = ()


@dataclass
class _Draft:
    """One domain under construction."""

    name: str
    children: dict[str, _Draft] = field(default_factory=dict)
    nodes: list[InventoryNode] = field(default_factory=list)


def to_settings(inventory: Inventory, *, what: str, qualify: bool = False) -> ImportedFabric:
    """Return the settings that declare an inventory.

    Parameters
    ----------
    inventory
        The nodes and their domains.
    what
        Description of the source, the start of an error message.
    qualify
        Prefix each domain with its ancestors (``spine-a-rack-1``), for names that are unique only within a spine.

    Raises
    ------
    TrainyardError
        The inventory is inconsistent: each error is listed with its position.
    """
    nodes, findings = _named(inventory, qualify)
    findings += _contradictions(nodes)
    if not nodes and not findings:
        findings.append(Finding("", "no nodes found", "check that it is the right file"))
    if len(nodes) > MAX_NODES:
        findings.append(Finding("", f"{len(nodes):,} nodes; at most {MAX_NODES:,} are supported"))
    raise_findings(f"{what} is invalid", findings)
    root = _Draft("")
    for node in nodes:
        draft = root
        for name in reversed(node.path):
            draft = draft.children.setdefault(name, _Draft(name))
        draft.nodes.append(node)
    shapes = {node.shape for node in nodes}
    only = next(iter(shapes)) if len(shapes) == 1 else None
    values: dict[str, object] = {"tierNames": list(inventory.tiers)}
    known = {name: shape.model_dump(by_alias=True, exclude_unset=True) for name, shape in inventory.shapes.items()}
    if only is not None and only in known:
        values["nodeShape"] = known[only]
    elif only is None or only:
        values["shapes"] = {name: known.get(name, {}) for name in sorted(shapes) if name}
    single = only is not None and only in known
    domains = _sorted(root)
    values["domains"] = [_domain(draft, "", _usual({}, draft), flat=single) for draft in domains]
    notes = [*inventory.notes, *_renamed(inventory, qualify), *_unknown(sorted(shapes), known)]
    try:
        settings = FabricSettings.model_validate(values)
    except ValidationError as error:
        raise_findings(f"{what} is invalid", [_finding(entry["loc"], entry["msg"]) for entry in error.errors()])
        raise
    return ImportedFabric(settings, tuple(notes))


def _named(inventory: Inventory, qualify: bool) -> tuple[list[InventoryNode], list[Finding]]:
    """Return the nodes with valid Kubernetes names, and findings for the others."""
    nodes: list[InventoryNode] = []
    findings: list[Finding] = []
    labels: dict[str, str] = {}
    for node in inventory.nodes:
        name = node.name.lower()
        if len(name) > _VALUE_LIMIT or not _SUBDOMAIN.fullmatch(name):
            message = f"{node.name[:80]!r} is not a valid node name"
            findings.append(Finding(node.where, message, "use lower case, digits, - and ., at most 63 characters"))
            continue
        path: list[str] = []
        for tier, raw in reversed(list(zip(inventory.tiers, node.path, strict=True))):
            if raw not in labels:
                labels[raw] = dns_label(raw)
            label = labels[raw]
            if not label:
                message = (
                    f"node {name!r} has no {tier}" if not raw.strip() else f"{tier} {raw!r} has no letter or digit"
                )
                findings.append(Finding(node.where, message, "name it, or remove the node"))
                break
            path.append(dns_label(f"{path[-1]}-{label}") if qualify and path else label)
        else:
            rails = tuple(_label_value(rail) for rail in node.rails)
            nodes.append(InventoryNode(name, tuple(reversed(path)), node.where, dns_label(node.shape), rails))
    findings += _same_label(inventory)
    return nodes, findings


def _same_label(inventory: Inventory) -> list[Finding]:
    """Find different names in the source that map to the same name."""
    first: dict[tuple[int, str], tuple[str, str]] = {}
    findings: dict[str, Finding] = {}
    for node in inventory.nodes:
        for tier, raw in enumerate(node.path):
            known, where = first.setdefault((tier, dns_label(raw)) if raw else (tier, ""), (raw, node.where))
            if known != raw:
                message = f"{inventory.tiers[tier]} {raw!r} and {known!r} ({where}) both map to {dns_label(raw)!r}"
                findings.setdefault(raw, Finding(node.where, message, "rename one of them"))
    return list(findings.values())


def _contradictions(nodes: list[InventoryNode]) -> list[Finding]:
    findings: list[Finding] = []
    seen: dict[str, InventoryNode] = {}
    homes: dict[str, tuple[int, str, str]] = {}
    for node in nodes:
        if node.name in seen:
            message = f"node {node.name!r} is listed twice, first at {seen[node.name].where}"
            findings.append(Finding(node.where, message, "list it once"))
            continue
        seen[node.name] = node
        for tier, name in enumerate(node.path):
            above = node.path[tier + 1] if tier + 1 < len(node.path) else ""
            known = homes.setdefault(name, (tier, above, node.where))
            if known[0] != tier:
                message = f"{name!r} is a domain of tier {known[0] + 1} ({known[2]}) and of tier {tier + 1}"
                findings.append(Finding(node.where, message, "use unique names"))
            elif known[1] != above:
                message = f"domain {name!r} is in {above!r} here and in {known[1]!r} at {known[2]}"
                fix = "correct one, or use --qualify if names are unique only within a domain"
                findings.append(Finding(node.where, message, fix))
    return findings


def _renamed(inventory: Inventory, qualify: bool) -> list[str]:
    if qualify:
        return []
    raw = {name for node in inventory.nodes for name in node.path}
    changed = sorted(name for name in raw if dns_label(name) != name)
    if not changed:
        return []
    shown = ", ".join(f"{name!r} is {dns_label(name)}" for name in changed[:3])
    return [f"{len(changed)} domain names were changed to valid ones: {shown}{', …' if len(changed) > 3 else ''}"]


def _finding(location: tuple[int | str, ...], message: str) -> Finding:
    return Finding(".".join(map(str, location)), message.removeprefix("Value error, "), "correct it in the source")


def _unknown(shapes: list[str], known: Mapping[str, object]) -> list[str]:
    if shapes == [""]:
        return ["the capacity of nodes is unknown: set nodeShape"]
    unknown = [name for name in shapes if name and name not in known]
    return [f"the capacity of nodes of shape {', '.join(unknown)} is unknown: set shapes"] if unknown else []


def _label_value(text: str) -> str:
    if not text or (len(text) <= _VALUE_LIMIT and _LABEL_VALUE.fullmatch(text)):
        return text
    return dns_label(text)


def _sorted(draft: _Draft) -> list[_Draft]:
    return sorted(draft.children.values(), key=lambda child: natural(child.name))


def _usual(known: Mapping[str, str], draft: _Draft) -> dict[str, str]:
    """Return the most frequent shape of each domain's nodes, by domain; ancestors inherit it from below."""
    found = dict(known)
    if draft.children:
        votes: Counter[str] = Counter()
        for child in draft.children.values():
            found |= _usual({}, child)
            votes[found[child.name]] += 1
    else:
        votes = Counter(node.shape for node in draft.nodes)
    # The unnamed shape cannot be set below a domain with a named one.
    found[draft.name] = "" if "" in votes else min(votes, key=lambda shape: (-votes[shape], shape))
    return found


def _domain(draft: _Draft, above: str, usual: Mapping[str, str], *, flat: bool) -> Domain:
    shape = usual[draft.name]
    values: dict[str, object] = {"name": draft.name}
    if not flat and shape and shape != above:
        values["shape"] = shape
    if draft.children:
        values["domains"] = tuple(_domain(child, shape, usual, flat=flat) for child in _sorted(draft))
    else:
        nodes = sorted(draft.nodes, key=lambda node: natural(node.name))
        values["nodes"] = tuple(node.name for node in nodes)
        others = {node.name: node.shape for node in nodes if node.shape != shape and node.shape}
        if others and not flat:
            values["shape_by_node"] = others
        rails = {node.rails for node in nodes}
        if len(rails) == 1 and any(next(iter(rails))):
            values["rails"] = next(iter(rails))
    return Domain.model_construct(**values)  # type: ignore[arg-type]
