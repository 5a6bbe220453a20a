"""Parse manifests of HyperNodes and nodes; invalid parts become findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from trainyard.checks.finding import Finding
from trainyard.scheduling.topology.rules import RULES

_GROUP = "topology.volcano.sh/"
_SELECTORS: dict[str, tuple[str, Literal["exact", "regex"]]] = {
    "exactMatch": ("name", "exact"),
    "regexMatch": ("pattern", "regex"),
}
_TYPES = ("Node", "HyperNode")
_MAX_DEPTH = 20


class Member(NamedTuple):
    """One entry of a HyperNode's members.

    Parameters
    ----------
    type
        ``Node`` or ``HyperNode``.
    selector
        Kind of match.
    value
        The name, the pattern, or the label selector.
    position
        Index in the list.
    """

    type: str
    selector: Literal["exact", "regex", "labels"]
    value: Any
    position: int


@dataclass(frozen=True, slots=True)
class HyperNode:
    """A parsed HyperNode.

    Parameters
    ----------
    name
        Its name.
    tier
        Its tier.
    tier_name
        Name of its tier; empty if unset.
    members
        Its valid members.
    labels
        Its labels.
    file
        Name of its file.
    """

    name: str
    tier: int
    tier_name: str
    members: tuple[Member, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    file: str = ""

    def path(self, member: Member | None = None) -> str:
        """Return the path of the HyperNode, or of one of its members."""
        own = f"HyperNode/{self.name}"
        return own if member is None else f"{own}.spec.members[{member.position}]"


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a cluster.

    Parameters
    ----------
    name
        Its name.
    labels
        Its labels.
    Its devices, such as ``nvidia.com/gpu``, with the amounts.
        Devices it offers, such as ``nvidia.com/gpu``, with the amount.
    All its resources.
        Everything it offers.
    """

    name: str
    labels: Mapping[str, str]
    devices: Mapping[str, str]
    capacity: Mapping[str, str]


@dataclass(frozen=True)
class FabricManifests:
    """Parsed manifests.

    Parameters
    ----------
    hyper_nodes
        The HyperNodes, in their order.
    nodes
        The nodes; None if the manifests contain none: then membership is not checked.
    findings
        Errors of parsing.
    """

    hyper_nodes: tuple[HyperNode, ...]
    nodes: tuple[Node, ...] | None
    findings: tuple[Finding, ...]


def is_manifest(document: object) -> bool:
    """Return whether a YAML document is a Kubernetes object."""
    return isinstance(document, Mapping) and "kind" in document and "apiVersion" in document


def read_manifests(documents: Iterable[tuple[str, object]]) -> FabricManifests:
    """Parse HyperNodes and nodes.

    Parameters
    ----------
    documents
        Objects, each with the name of its file; Lists are unpacked, other kinds are ignored.
    """
    hyper_nodes: list[HyperNode] = []
    nodes: list[Node] | None = None
    findings: list[Finding] = []
    for file, body in _objects(documents, 0):
        if not isinstance(body, dict):
            if body is not None:
                message = f"a document is {_kind(body)}, not an object"
                findings.append(RULES.finding("", message, "write apiVersion, kind, …", _SHAPE, file=file))
            continue
        kind, api = body.get("kind"), body.get("apiVersion")
        if kind == "NodeList" or (kind == "Node" and api == "v1"):
            nodes = nodes if nodes is not None else []
            node = _node(body)
            if node is not None:
                nodes.append(node)
        elif kind == "HyperNode" and isinstance(api, str) and api.startswith(_GROUP):
            found: list[tuple[str, str, str, str]] = []
            read = _hyper_node(body, file, found)
            name = read.name if read else str(_mapping(body.get("metadata")).get("name", ""))[:_SHOWN]
            findings += [
                RULES.finding(f"HyperNode/{name or '?'}{path}", message, fix, rule, object=name, file=file)
                for path, message, fix, rule in found
            ]
            if read is not None:
                hyper_nodes.append(read)
    return FabricManifests(tuple(hyper_nodes), None if nodes is None else tuple(nodes), tuple(findings))


_SHAPE = "hypernode-shape"
_SHOWN = 80


def _objects(documents: Iterable[tuple[str, object]], depth: int) -> Iterator[tuple[str, object]]:
    for file, body in documents:
        if isinstance(body, dict) and isinstance(body.get("items"), list) and depth < _MAX_DEPTH:
            kind = str(body.get("kind", "")).removesuffix("List")
            if kind == "Node":
                yield file, {"kind": "NodeList"}
            inherited = {"apiVersion": body.get("apiVersion"), "kind": kind} if kind else {}
            items = ({**inherited, **item} if isinstance(item, Mapping) else item for item in body["items"])
            yield from _objects(((file, item) for item in items), depth + 1)
        else:
            yield file, body


def _hyper_node(body: Mapping[str, Any], file: str, found: list[tuple[str, str, str, str]]) -> HyperNode | None:
    metadata, spec = _mapping(body.get("metadata")), body.get("spec")
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        found.append((".metadata.name", "the HyperNode has no name", "set metadata.name", _SHAPE))
        return None
    if not isinstance(spec, Mapping):
        found.append((".spec", f"spec is {_kind(spec)}", "write tier and members", _SHAPE))
        return None
    tier = spec.get("tier")
    if not isinstance(tier, int) or isinstance(tier, bool) or not 0 <= tier < 2**31:
        found.append((".spec.tier", f"tier is {_shown(tier)}", "use an integer of at least 1", _SHAPE))
        return None
    tier_name = spec.get("tierName")
    if tier_name is not None and not isinstance(tier_name, str):
        found.append((".spec.tierName", f"tierName is {_shown(tier_name)}", "use text", _SHAPE))
    entries = spec.get("members")
    if not isinstance(entries, list) or not entries:
        message = "it has no members" if entries in (None, []) else f"members are {_kind(entries)}"
        found.append((".spec.members", message, "list at least one member", "hypernode-members"))
        entries = []
    members = tuple(_members(entries, found))
    labels = {str(key): str(value) for key, value in _mapping(metadata.get("labels")).items()}
    return HyperNode(name, tier, tier_name if isinstance(tier_name, str) else "", members, labels, file)


def _members(entries: list[Any], found: list[tuple[str, str, str, str]]) -> Iterator[Member]:
    for position, entry in enumerate(entries):
        try:
            selector = entry["selector"]
            kind = entry["type"]
            if len(selector) == 1 and kind in _TYPES:
                name = selector["exactMatch"]["name"]
                if type(name) is str and name:
                    yield Member(kind, "exact", name, position)
                    continue
        except (KeyError, TypeError):
            pass
        member = _unusual(entry, position, found)
        if member is not None:
            yield member


def _unusual(entry: object, position: int, found: list[tuple[str, str, str, str]]) -> Member | None:
    where, fields = f".spec.members[{position}]", _mapping(entry)
    kind, selector = fields.get("type"), _mapping(fields.get("selector"))
    if kind not in _TYPES:
        found.append((f"{where}.type", f"type is {_shown(kind)}", "use Node or HyperNode", _SHAPE))
        return None
    given = [key for key in ("exactMatch", "regexMatch", "labelMatch") if selector.get(key) is not None]
    if len(given) != 1:
        message = f"a member has {' and '.join(given) or 'no selector'}"
        fix = "use one of exactMatch, regexMatch and labelMatch"
        found.append((f"{where}.selector", message, fix, "hypernode-selector"))
        return None
    (key,) = given
    value = selector[key]
    if key == "labelMatch":
        if not isinstance(value, Mapping):
            found.append((f"{where}.selector.{key}", f"it is {_kind(value)}", "write matchLabels", _SHAPE))
            return None
        return Member(kind, "labels", value, position)
    field_name, how = _SELECTORS[key]
    text = _mapping(value).get(field_name)
    if not isinstance(text, str) or not text:
        found.append((f"{where}.selector.{key}", f"{field_name} is {_shown(text)}", f"set {field_name}", _SHAPE))
        return None
    return Member(kind, how, text, position)


def _node(body: Mapping[str, Any]) -> Node | None:
    metadata, status = _mapping(body.get("metadata")), _mapping(body.get("status"))
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        return None
    labels = {key: value for key, value in _mapping(metadata.get("labels")).items() if isinstance(value, str)}
    amounts = _mapping(status.get("capacity")) or _mapping(status.get("allocatable"))
    capacity = {str(key): str(value) for key, value in amounts.items()}
    devices = {key: value for key, value in capacity.items() if "/" in key and value != "0"}
    return Node(name, labels, devices, capacity)


def _mapping(value: object) -> Mapping[Any, Any]:
    if type(value) is dict:  # the usual case, and much faster
        return value
    return value if isinstance(value, Mapping) else {}


def _kind(value: object) -> str:
    names = {list: "a list", dict: "a mapping", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return "missing" if value is None else names.get(type(value), type(value).__name__)


def _shown(value: object) -> str:
    return "missing" if value is None else repr(value)[:_SHOWN]
