"""Live fabric: domains with their nodes colored by tenant, job or state, and the largest gang that fits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final
from urllib.parse import urlencode

from markupsafe import Markup

from trainyard.cluster_state.observed import Kind
from trainyard.insight.console.views.fabric_drawing import DrawnMap, MapDomain, MapNode, draw_map
from trainyard.insight.console.views.platform_view import UNKNOWN, PlatformView, node_devices
from trainyard.insight.explain.node_table import HyperNodeDomain, NodeFacts
from trainyard.scheduling.queues.amounts import text as amount_text

COLORINGS: Final = ("state", "tenant", "job")
ZOOMS: Final = (50, 100, 200, 400)
_COLORS: Final = 8
_ROWS: Final = 200
_OUTLINES: Final = 200
_ALL: Final = ""
_NOT_READ: Final = "use unknown"


@dataclass(frozen=True)
class FabricQuery:
    """What the drawing shows.

    Parameters
    ----------
    domain
        The domain that is drawn; empty: all.
    color
        One of `COLORINGS`.
    zoom
        Size, in percent.
    """

    domain: str = _ALL
    color: str = "state"
    zoom: int = 100

    @classmethod
    def of(cls, values: Mapping[str, str]) -> FabricQuery:
        """Return the choice of a query string; invalid values are ignored."""
        color = values.get("color", "state")
        zoom = next((each for each in ZOOMS if str(each) == values.get("zoom")), 100)
        return cls(values.get("domain", ""), color if color in COLORINGS else "state", zoom)


@dataclass(frozen=True)
class Fit:
    """Largest gang that fits in one domain of a tier: its pods, where, and how many would fit in all domains together.

    A pod needs all devices of a node.
    """

    tier: str
    pods: int
    domain: str
    together: int


@dataclass(frozen=True)
class DomainRow:
    """A domain in numbers.

    Parameters
    ----------
    name, tier
        Its name and tier.
    nodes
        Number of its nodes.
    used, free, lost
        Its devices, as text; `UNKNOWN`: not all pods may be read.
    fits
        Pods with all devices of a node that fit now, as text.
    has_domains
        Whether it has domains below it.
    """

    name: str
    tier: str
    nodes: int
    used: str
    free: str
    lost: str
    fits: str
    has_domains: bool


@dataclass(frozen=True)
class FabricMap:
    """The drawing, with its texts.

    Parameters
    ----------
    query
        The choice, with a domain that exists.
    svg
        The drawing.
    elements
        Number of its elements.
    detail
        What one element stands for.
    legend
        Style, text and number of nodes of each color.
    above
        Domains above the drawn one, the highest first.
    before, after
        Domains of the same tier beside the drawn one, below the same one; empty: there is none.
    rows, more
        Domains in it, and how many are not listed.
    fits
        Largest gangs by tier.
    resource
        The device that is counted.
    per_node
        Devices of a node, as text.
    nodes
        Number of nodes that are drawn.
    outlined
        Number of gangs across racks that are outlined.
    """

    query: FabricQuery
    svg: Markup
    elements: int
    detail: str
    legend: tuple[tuple[str, str, int], ...]
    above: tuple[str, ...]
    before: str
    after: str
    rows: tuple[DomainRow, ...]
    more: int
    fits: tuple[Fit, ...]
    resource: str
    per_node: str
    nodes: int
    outlined: int


def fabric_map(view: PlatformView, query: FabricQuery) -> FabricMap:
    """Return the drawing of the fabric, or of one domain of it; it is drawn once for all sizes."""
    if query.domain not in view.cluster.table.domains:
        query = replace(query, domain=_ALL)
    key = ("fabric", query.domain, query.color)
    drawn, found = view.memo(key, lambda: _Fabric(view, replace(query, zoom=100)).map())
    title = f"Fabric, {found.query.domain or 'all domains'}: {found.nodes} nodes colored by {query.color}"
    return replace(found, query=replace(found.query, zoom=query.zoom), svg=drawn.svg(title, query.zoom / 100))


class _Fabric:
    def __init__(self, view: PlatformView, query: FabricQuery) -> None:
        self._view = view
        self._domains = view.cluster.table.domains
        self._counts = view.index.knows(Kind.POD)
        self._query = query

    def map(self) -> tuple[DrawnMap, FabricMap]:
        """Return the drawing, and its texts."""
        view, query = self._view, self._query
        names = list(self._domains[query.domain].nodes) if query.domain else list(view.nodes)
        names = [name for name in names if name in view.nodes]
        styles, legend = self._colors(names)
        top = self._tree(query.domain, names, styles)
        gangs = self._gangs(set(names))
        drawn = draw_map(top, gangs, self._address)
        before, after = self._beside(query.domain)
        children = self._children(query.domain)
        return drawn, FabricMap(
            query=query,
            svg=Markup(),
            elements=drawn.elements,
            detail=drawn.detail,
            legend=legend,
            above=tuple(reversed(self._above(query.domain))) if query.domain else (),
            before=before,
            after=after,
            rows=tuple(self._row(each) for each in children[:_ROWS]),
            more=max(0, len(children) - _ROWS),
            fits=tuple(self._fits()) if self._counts else (),
            resource=view.resource,
            per_node=amount_text(view.resource, self._per_node),
            nodes=len(names),
            outlined=len(gangs),
        )

    @cached_property
    def _parents(self) -> dict[str, str]:
        """Domain above each domain: the lowest one of a higher tier with its nodes."""
        by_node: defaultdict[str, list[HyperNodeDomain]] = defaultdict(list)
        for domain in self._domains.values():
            for node in domain.nodes:
                by_node[node].append(domain)
        found = {}
        for domain in self._domains.values():
            above = [each for each in by_node.get(next(iter(domain.nodes), ""), ()) if each.tier > domain.tier]
            lowest = min(above, key=lambda each: (each.tier, each.name), default=None)
            found[domain.name] = lowest.name if lowest is not None else _ALL
        return found

    @cached_property
    def _below(self) -> dict[str, list[HyperNodeDomain]]:
        found: defaultdict[str, list[HyperNodeDomain]] = defaultdict(list)
        for name, parent in self._parents.items():
            found[parent].append(self._domains[name])
        return {name: sorted(each, key=lambda domain: _natural(domain.name)) for name, each in found.items()}

    def _children(self, name: str) -> list[HyperNodeDomain]:
        return self._below.get(name, [])

    def _above(self, name: str) -> list[str]:
        found: list[str] = []
        while (name := self._parents.get(name, _ALL)) and name not in found:
            found.append(name)
        return found

    def _beside(self, name: str) -> tuple[str, str]:
        """Return the domains before and after one, among those of its tier below the same domain."""
        if not name:
            return "", ""
        tier = self._domains[name].tier
        names = ["", *(each.name for each in self._children(self._parents[name]) if each.tier == tier), ""]
        place = names.index(name)
        return names[place - 1], names[place + 1]

    def _address(self, name: str) -> str:
        return f"/fabric?{urlencode({'color': self._query.color, 'domain': name})}"

    def _tree(self, name: str, nodes: Sequence[str], styles: Mapping[str, tuple[str, str]]) -> MapDomain:
        """Return a domain with all below it; nodes outside of the domains below are its own."""
        children = [self._tree(each.name, each.nodes, styles) for each in self._children(name)]
        inside = {node for each in self._children(name) for node in each.nodes}
        own = [MapNode(node, *styles[node]) for node in nodes if node not in inside and node in styles]
        if name:
            domain = self._domains[name]
            return MapDomain(name, domain.tier_name or f"tier {domain.tier}", tuple(children), tuple(own))
        return MapDomain("", "", tuple(children), tuple(own))

    @cached_property
    def _holders(self) -> dict[str, Counter[str]]:
        """Devices, or pods, by job of each node."""
        found: dict[str, Counter[str]] = {}
        for node, pods in self._view.cluster.table.holders.items():
            own = Counter(self._view.index.gang_of(pod) for pod in pods if not self._is_system(pod))
            found[node] = own
        return found

    def _is_system(self, pod: object) -> bool:
        return self._view.index.gang_of(pod).endswith("/") if isinstance(pod, Mapping) else True

    def _state(self, name: str, node: NodeFacts) -> str:
        if not node.ready:
            return "not ready"
        if node.cordoned:
            return "cordoned"
        if not self._counts:
            return _NOT_READ
        used, free, _ = node_devices(node, self._view.resource)
        if not used and not self._holders.get(name):
            return "free"
        return "partly used" if free else "used"

    def _colors(self, names: Sequence[str]) -> tuple[dict[str, tuple[str, str]], tuple[tuple[str, str, int], ...]]:
        """Return style and text of each node, and the legend."""
        view, color = self._view, self._query.color
        texts = {}
        for name in names:
            state = self._state(name, view.nodes[name])
            holders = self._holders.get(name)
            if color == "state" or not holders or state in ("not ready", "cordoned"):
                texts[name] = state
            else:
                first = holders.most_common(1)[0][0]
                texts[name] = first.partition("/")[0] if color == "tenant" else first
        states = ("free", "used", "partly used", "cordoned", "not ready", _NOT_READ)
        counts = Counter(texts.values())
        others = [text for text, _ in counts.most_common() if text not in states or (color != "state" and "/" in text)]
        colors = {text: f"color-{min(position, _COLORS)}" for position, text in enumerate(others)}
        styles = {text: colors.get(text) or f"state-{text.replace(' ', '-')}" for text in counts}
        legend = [(styles[text], text, counts[text]) for text in states if counts[text]]
        legend += [(styles[text], text, counts[text]) for text in others[:_COLORS]]
        if rest := others[_COLORS:]:
            legend.append((f"color-{_COLORS}", f"{len(rest)} more", sum(counts[text] for text in rest)))
        titles = {name: self._title(name, texts[name]) for name in names}
        return {name: (styles[texts[name]], titles[name]) for name in names}, tuple(legend)

    def _title(self, name: str, text: str) -> str:
        holders = ", ".join(self._holders.get(name, Counter()))
        return f"{name}: {text}" + (f" ({holders})" if holders and holders != text else "")

    def _gangs(self, names: set[str]) -> list[tuple[str, list[str]]]:
        """Return the gangs whose nodes are in more than one rack, the largest first."""
        found: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for node, holders in self._holders.items():
            if node in names:
                for gang in holders:
                    found[gang][node] = None
        racks = self._view.racks
        across = [
            (gang, list(nodes)) for gang, nodes in found.items() if len({racks.get(node, node) for node in nodes}) > 1
        ]
        return sorted(across, key=lambda each: (-len(each[1]), each[0]))[:_OUTLINES]

    @cached_property
    def _per_node(self) -> int:
        """Devices of most nodes."""
        counts = Counter(node.offers.get(self._view.resource, 0) for node in self._view.nodes.values())
        counts.pop(0, None)
        return max(counts, key=lambda amount: (counts[amount], amount), default=0)

    def _places(self, nodes: Sequence[str]) -> int:
        per_node, resource = self._per_node, self._view.resource
        if not per_node:
            return 0
        found = (self._view.nodes.get(name) for name in nodes)
        return sum(max(0, node.free.get(resource, 0)) // per_node for node in found if node is not None and node.usable)

    def _fits(self) -> list[Fit]:
        tiers: defaultdict[tuple[int, str], list[HyperNodeDomain]] = defaultdict(list)
        for domain in self._domains.values():
            tiers[(domain.tier, domain.tier_name)].append(domain)
        found = []
        for (tier, name), domains in sorted(tiers.items()):
            places = [(self._places(domain.nodes), domain.name) for domain in domains]
            most, best = min(places, key=lambda each: (-each[0], _natural(each[1])))
            found.append(Fit(name or f"tier {tier}", most, best if most else "", sum(each for each, _ in places)))
        return found

    def _row(self, domain: HyperNodeDomain) -> DomainRow:
        resource = self._view.resource
        sums = [0, 0, 0]
        for name in domain.nodes:
            node = self._view.nodes.get(name)
            if node is not None:
                sums = [one + other for one, other in zip(sums, node_devices(node, resource), strict=True)]
        used, free, lost = (amount_text(resource, each) if self._counts else UNKNOWN for each in sums)
        tier = domain.tier_name or f"tier {domain.tier}"
        nodes, below = len(domain.nodes), bool(self._children(domain.name))
        fits = str(self._places(domain.nodes)) if self._counts else UNKNOWN
        return DomainRow(domain.name, tier, nodes, used, free, lost, fits, below)


def _natural(name: str) -> tuple[object, ...]:
    """Return a sort key with numbers in their order."""
    parts: list[object] = []
    digits = ""
    for letter in name + "\0":
        if letter.isascii() and letter.isdigit():
            digits += letter
            continue
        if digits:
            parts.append((0, int(digits), ""))
            digits = ""
        parts.append((1, 0, letter))
    return tuple(parts)
