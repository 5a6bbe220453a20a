"""Checks of a declared fabric, before anything is compiled or applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from trainyard.checks.finding import Finding, Severity
from trainyard.scheduling.topology.fabric_names import HOSTNAME_LABEL, LABEL_PREFIX, RAIL_PREFIX, SHAPE_LABEL
from trainyard.scheduling.topology.fabric_selectors import selector_findings
from trainyard.scheduling.topology.layout import MAX_DOMAINS, MAX_NODES, PlacedNode, domain_count, walk_fabric
from trainyard.scheduling.topology.rules import RULES
from trainyard.settings.fabric import FabricSettings, NodeSelector

_NEITHER, _BOTH = "neither nodes nor domains", "both nodes and domains"
_LABEL_VALUE_LIMIT = 63
_MAX_MEMBERS = 10_000


def check_fabric(settings: FabricSettings) -> list[Finding]:
    """Find errors that prevent the compilation of a fabric.

    Parameters
    ----------
    settings
        The fabric.

    Returns
    -------
    list of Finding
        Errors only, in settings order; empty if the fabric can be compiled.
    """
    return [finding for finding in fabric_findings(settings) if finding.severity is Severity.ERROR]


def fabric_findings(settings: FabricSettings, *, path: str = "trainyard:fabric", file: str = "") -> list[Finding]:
    """Find all errors and warnings of a fabric.

    Parameters
    ----------
    settings
        The fabric.
    path
        Path of the settings, the prefix of each finding's path.
    file
        Name of the file of the settings.
    """
    return [replace(finding, file=file) for finding in _findings(settings, path)]


def _findings(settings: FabricSettings, path: str) -> Iterator[Finding]:
    size = list(_size(settings, path))
    if size:
        yield from size
        return
    placed = list(walk_fabric(settings, path))
    yield from _names(placed)
    written = list({each.where: each for each in reversed(placed)}.values())[::-1]
    yield from _contents(written)
    yield from _tiers(settings, placed, path)
    yield from _nodes(placed)
    yield from _shapes(settings, written, path)
    yield from _labels(settings, path)
    yield from selector_findings(settings, written)


def _size(settings: FabricSettings, path: str) -> Iterator[Finding]:
    for what, count, limit in (
        ("nodes", settings.node_count, MAX_NODES),
        ("domains", domain_count(settings), MAX_DOMAINS),
    ):
        if count > limit:
            message = f"the fabric has {count:,} {what}; at most {limit:,} are supported"
            yield RULES.finding(f"{path}.domains", message, "correct a number of nodes or copies", "fabric-size")


def _names(placed: list[PlacedNode]) -> Iterator[Finding]:
    first: dict[str, str] = {}
    for each in placed:
        if each.name in first:
            message = (
                f"domain {each.name!r} is declared twice, first at {first[each.name]}: one HyperNode would have "
                "two parents"
            )
            yield RULES.finding(
                f"{each.where}.name",
                message,
                "use a unique name",
                "fabric-domain-duplicate",
                object=each.name,
            )
        first.setdefault(each.name, each.where)
        if len(each.name) > _LABEL_VALUE_LIMIT:
            message = (
                f"domain {each.name!r} has {len(each.name)} characters; a label value has at most {_LABEL_VALUE_LIMIT}"
            )
            fix = "shorten its name or those of the copied domains above"
            yield RULES.finding(f"{each.where}.name", message, fix, "fabric-domain-name", object=each.name)


def _contents(placed: list[PlacedNode]) -> Iterator[Finding]:
    for each in placed:
        for path, message, fix, rule in _content(each):
            yield RULES.finding(path, message, fix, rule, object=each.name)


def _content(each: PlacedNode) -> Iterator[tuple[str, str, str, str]]:
    domain, name = each.domain, each.name
    if (domain.domains is None) == (domain.nodes is None):
        message = f"domain {name!r} has {_NEITHER if domain.nodes is None else _BOTH}"
        yield each.where, message, "set either nodes or domains", "fabric-domain-shape"
        return
    if domain.domains is not None:
        if not domain.domains:
            message = f"domain {name!r} has no child domains"
            yield f"{each.where}.domains", message, "add one or remove the domain", "fabric-domain-empty"
        members = sum(child.copies or 1 for child in domain.domains)
    elif isinstance(domain.nodes, int):
        members = domain.nodes
        if members < 1:
            message = f"domain {name!r} has {members} nodes; a HyperNode needs at least one member"
            yield f"{each.where}.nodes", message, "set 1 or more, or remove the domain", "fabric-domain-empty"
    elif isinstance(domain.nodes, NodeSelector):
        members = 1
        if each.is_copied:
            message = f"domain {name!r} has copies, but its nodes are chosen by label"
            yield f"{each.where}.nodes", message, "set their number, or declare each copy", "fabric-copies"
    else:
        members = len(domain.nodes or ())
        if not members:
            message = f"domain {name!r} has no nodes; a HyperNode needs at least one member"
            yield f"{each.where}.nodes", message, "name a node or remove the domain", "fabric-domain-empty"
        elif each.is_copied:
            message = f"domain {name!r} has copies, but its nodes are named"
            yield f"{each.where}.nodes", message, "set their number, or declare each copy", "fabric-copies"
    if members > _MAX_MEMBERS:
        message = f"domain {name!r} has {members:,} members, but one object supports at most {_MAX_MEMBERS:,}"
        yield each.where, message, "add a tier between, or correct the number", "fabric-domain-size"


def _tiers(settings: FabricSettings, placed: list[PlacedNode], path: str) -> Iterator[Finding]:
    for name, count in Counter(settings.tier_names).items():
        if count > 1:
            message = f"tier name {name!r} is used {count} times; Volcano would use either tier at random"
            yield RULES.finding(f"{path}.tierNames", message, "use unique names", "fabric-tier-names")
    leaves = [each for each in placed if each.domain.domains is None]
    if not leaves:
        return
    depths = Counter(each.depth for each in leaves)
    usual = max(depths, key=lambda depth: (depths[depth], depth))
    for each in leaves:
        if each.depth != usual:
            message = (
                f"the nodes of domain {each.name!r} are {each.depth} level(s) below the top, those of other "
                f"domains {usual}: tiers would be inconsistent"
            )
            fix = f"declare it {usual - 1} level(s) deep like the others"
            yield RULES.finding(each.where, message, fix, "fabric-mixed-depth", object=each.name)
    if len(depths) == 1 and len(settings.tier_names) != usual:
        message = f"{len(settings.tier_names)} tier name(s), but {usual} level(s): {', '.join(settings.tier_names)}"
        yield RULES.finding(
            f"{path}.tierNames", message, f"set {usual} tier name(s), lowest tier first", "fabric-tier-names"
        )


def _nodes(placed: list[PlacedNode]) -> Iterator[Finding]:
    first: dict[str, str] = {}
    for each in placed:
        if each.domain.domains is not None:
            continue
        for name in each.nodes:
            if name in first:
                message = f"node {name!r} is in domain {each.name!r} and in domain {first[name]!r}"
                yield RULES.finding(
                    f"{each.where}.nodes",
                    message,
                    "remove it from one of them",
                    "fabric-node-duplicate",
                    object=each.name,
                )
            elif len(name) > _LABEL_VALUE_LIMIT:
                message = (
                    f"node name {name!r} has {len(name)} characters; label {HOSTNAME_LABEL} has at most "
                    f"{_LABEL_VALUE_LIMIT}"
                )
                fix = "shorten the name of the domain or of the node"
                yield RULES.finding(f"{each.where}.nodes", message, fix, "fabric-node-name", object=each.name)
            first.setdefault(name, each.name)


def _shapes(settings: FabricSettings, placed: list[PlacedNode], path: str) -> Iterator[Finding]:
    known = ", ".join(sorted(settings.shapes)) or "none is declared"
    used: set[str] = set()
    for each in placed:
        domain = each.domain
        named = {f"{each.where}.shape": domain.shape} if domain.shape else {}
        named |= {f"{each.where}.shapeByNode[{node}]": shape for node, shape in domain.shape_by_node.items()}
        used.update(filter(None, named.values()))
        for where, shape in named.items():
            if shape not in settings.shapes:
                message = f"domain {each.name!r} has nodes of shape {shape!r}, which is not declared"
                fix = f"declare it under {path}.shapes, or use one of: {known}"
                yield RULES.finding(where, message, fix, "fabric-shape-unknown", object=each.name)
        if domain.shape_by_node:
            yield from _single_shapes(each)
    for shape in sorted(set(settings.shapes) - used):
        message = f"no domain has nodes of shape {shape!r}"
        yield RULES.finding(
            f"{path}.shapes.{shape}", message, "remove it, or use it for a domain", "fabric-shape-unused"
        )


def _single_shapes(each: PlacedNode) -> Iterator[Finding]:
    own = set(each.nodes)
    for node in each.domain.shape_by_node:
        if each.is_copied or each.selector or node not in own:
            message = f"node {node!r} is not a node of domain {each.name!r}"
            if each.selector:
                message = f"domain {each.name!r} chooses its nodes by label, which cannot differ"
            elif each.is_copied:
                message = f"domain {each.name!r} has copies, whose nodes cannot differ"
            yield RULES.finding(
                f"{each.where}.shapeByNode[{node}]",
                message,
                "name a node of this domain",
                "fabric-shape-node",
                object=each.name,
            )


def _labels(settings: FabricSettings, path: str) -> Iterator[Finding]:
    shapes = {f"{path}.nodeShape": settings.node_shape}
    shapes |= {f"{path}.shapes.{name}": shape for name, shape in settings.shapes.items()}
    for where, shape in shapes.items():
        for key in shape.labels:
            if key in (HOSTNAME_LABEL, SHAPE_LABEL) or key.startswith((LABEL_PREFIX, RAIL_PREFIX)):
                message = f"label {key} is derived from the fabric"
                yield RULES.finding(f"{where}.labels[{key}]", message, "remove it", "fabric-node-label")
