"""Nodes of a cluster with their free resources, the pods that may use them, and the domains of the fabric."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from trainyard.cluster_state.body_fields import Body, condition, mapping, name_of, sequence, text
from trainyard.cluster_state.cluster_index import ClusterIndex
from trainyard.cluster_state.gang_bodies import amounts_of
from trainyard.cluster_state.observed import Kind
from trainyard.scheduling.queues.amounts import Amounts, total
from trainyard.scheduling.queues.pod_requests import counted_by_volcano
from trainyard.scheduling.topology.graph import Graph
from trainyard.scheduling.topology.hypernode_manifests import read_manifests
from trainyard.scheduling.topology.membership import NodeIndex
from trainyard.scheduling.topology.placement import own_nodes

_HEALTH_TAINTS = frozenset(f"node.kubernetes.io/{name}" for name in ("not-ready", "unreachable", "unschedulable"))
_BLOCKING = ("NoSchedule", "NoExecute")


@dataclass(frozen=True)
class NodeFacts:
    """One node.

    Parameters
    ----------
    name, labels
        Its name and labels.
    taints
        Its taints that keep pods away, without those of its health.
    offers, free
        Units by resource: allocatable without the pods that belong to the node, and without the requests of all pods.
    cordoned, ready
        Whether it is unschedulable, and whether it is ready.
    """

    name: str
    labels: Mapping[str, Any]
    taints: tuple[Body, ...]
    offers: Amounts
    free: Amounts
    cordoned: bool
    ready: bool

    @property
    def usable(self) -> bool:
        """Whether new pods can be placed on it."""
        return self.ready and not self.cordoned

    @property
    def emptied(self) -> NodeFacts:
        """The node without the pods that can leave it."""
        return replace(self, free=self.offers)

    def without(self, pods: Iterable[Body]) -> NodeFacts:
        """Return the node after some of its pods have left it."""
        held = _held(pods)
        return replace(self, free={name: amount + held.get(name, 0) for name, amount in self.free.items()})


@dataclass(frozen=True)
class Demand:
    """Pods of a gang with equal requests and constraints that need a place.

    Parameters
    ----------
    request
        Units by resource that each requests.
    count
        Their number.
    spec
        Their pod spec, for constraints.
    """

    request: Amounts
    count: int
    spec: Body

    @classmethod
    def of(cls, spec: Body, count: int = 1) -> Demand:
        """Return the demand of pods with a spec."""
        return cls(request_of(spec), count, spec)

    @property
    def key(self) -> object:
        """Equal for pods that one demand describes."""
        constraints = [self.spec.get(name) for name in ("nodeSelector", "affinity", "tolerations")]
        return tuple(sorted(self.request.items())), repr(constraints)


@dataclass(frozen=True)
class HyperNodeDomain:
    """A HyperNode with all nodes below it."""

    name: str
    tier: int
    tier_name: str
    nodes: tuple[str, ...]


def request_of(spec: Body) -> Amounts:
    """Return what Volcano counts for a pod, in units; nothing if it is invalid."""
    try:
        return counted_by_volcano(spec)
    except (ValueError, TypeError, AttributeError):
        return {}


def is_of_node(pod: Body) -> bool:
    """Return whether a pod belongs to its node, as those of a DaemonSet and static ones do: it never leaves."""
    owners = sequence(pod, "metadata", "ownerReferences")
    return any(text(each, "kind") in ("DaemonSet", "Node") for each in owners)


def _held(pods: Iterable[Body]) -> Amounts:
    """Return what pods request, and their places among the pods of a node."""
    return total(part for pod in pods for part in (request_of(mapping(pod, "spec")), {"pods": 1}))


class NodeTable:
    """The nodes of a cluster.

    Parameters
    ----------
    index
        Index of the cluster.
    """

    def __init__(self, index: ClusterIndex) -> None:
        self._index = index
        self.knows_free = index.knows(Kind.NODE) and index.knows(Kind.POD)
        """Whether the free resources are known; pods of others that were not read use some."""
        holders: defaultdict[str, list[Body]] = defaultdict(list)
        for pod in index.unfinished_pods:
            if node := text(pod, "spec", "nodeName"):
                holders[node].append(pod)
        self.holders: Mapping[str, list[Body]] = holders
        """Unfinished pods by node."""
        bodies = {name_of(body): body for body in index.of(Kind.NODE)}
        self.nodes = {name: _facts(body, holders.get(name, ())) for name, body in bodies.items()}

    @cached_property
    def domains(self) -> dict[str, HyperNodeDomain]:
        """HyperNodes by name, with all nodes below each."""
        bodies: list[tuple[str, object]] = [("", body) for body in self._index.of(Kind.HYPER_NODE)]
        listing = {"apiVersion": "v1", "kind": "NodeList", "items": list(self._index.of(Kind.NODE))}
        found = read_manifests([*bodies, ("", listing)])
        graph, index = Graph(found.hyper_nodes), NodeIndex(found.nodes or ())
        below: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for each in graph.by_name.values():
            nodes = dict.fromkeys(own_nodes(each, index))
            level, seen = [each.name], set[str]()
            while nodes and level:
                name = level.pop()
                if name not in seen:
                    seen.add(name)
                    below[name].update(nodes)
                    level += [parent.name for parent, _ in graph.parents.get(name, ())]
        return {
            each.name: HyperNodeDomain(each.name, each.tier, each.tier_name, tuple(below[each.name]))
            for each in graph.by_name.values()
        }

    def allowed_domains(self, topology: Body) -> list[HyperNodeDomain] | None:
        """Return the largest domains that a hard topology allows, or None if it does not limit the gang."""
        tier, tier_name = mapping(topology).get("highestTierAllowed"), text(topology, "highestTierName")
        domains = list(self.domains.values())
        if text(topology, "mode") not in ("", "hard") or not domains:
            return None
        if tier_name:
            tier = max((each.tier for each in domains if each.tier_name == tier_name), default=None)
        highest = max(each.tier for each in domains)
        if not isinstance(tier, int) or tier > highest:
            return None
        allowed = [each for each in domains if each.tier <= tier]
        top = max((each.tier for each in allowed), default=0)
        return sorted((each for each in allowed if each.tier == top), key=lambda each: each.name)

    def allowed_nodes(self, spec: Body) -> list[NodeFacts]:
        """Return the nodes that the constraints of a pod allow, in any health."""
        refused = constraint(spec)
        return [node for node in self.nodes.values() if refused(node) is None]


def placed(demands: Sequence[Demand], nodes: Iterable[NodeFacts], *, free: bool = True) -> int:
    """Return how many pods find a place, each on one node: largest requests first.

    Parameters
    ----------
    demands
        The pods.
    nodes
        The nodes.
    free
        Whether only free resources count; otherwise all that nodes offer.
    """
    left = [(node, dict(node.free if free else node.offers)) for node in nodes]
    return _place(demands, left)


def left_after(demands: Sequence[Demand], nodes: Iterable[NodeFacts]) -> list[NodeFacts]:
    """Return nodes without the resources that pods use which find a place on them."""
    left = [(node, dict(node.free)) for node in nodes]
    _place(demands, left)
    return [replace(node, free=amounts) for node, amounts in left]


def _place(demands: Sequence[Demand], left: list[tuple[NodeFacts, dict[str, int]]]) -> int:
    """Return how many pods find a place, and take what they use from the amounts."""
    found = 0
    for demand in sorted(demands, key=lambda each: -sum(v for k, v in each.request.items() if "/" in k)):
        refused = constraint(demand.spec)
        count = demand.count
        for node, amounts in left:
            if not count:
                break
            if refused(node) is not None:
                continue
            fits = fitting(demand, amounts, count)
            if fits:
                for name, amount in demand.request.items():
                    amounts[name] = amounts.get(name, 0) - fits * amount
                amounts["pods"] = amounts.get("pods", fits) - fits
                count -= fits
                found += fits
    return found


def fitting(demand: Demand, amounts: Mapping[str, int], most: int) -> int:
    """Return how many pods of a demand fit into amounts, one after another, at most some."""
    if "pods" in amounts:
        most = min(most, amounts["pods"])
    for name, amount in demand.request.items():
        if amount:
            most = min(most, amounts.get(name, 0) // amount)
    return max(0, most)


def _facts(body: Body, pods: Sequence[Body]) -> NodeFacts:
    used, kept = _held(pods), _held(pod for pod in pods if is_of_node(pod))
    allocatable = amounts_of(mapping(body, "status", "allocatable") or mapping(body, "status", "capacity"))
    taints = [each for each in sequence(body, "spec", "taints") if each.get("effect") in _BLOCKING]
    ready = condition(body, "Ready", None)
    return NodeFacts(
        name=name_of(body),
        labels=mapping(body, "metadata", "labels"),
        taints=tuple(each for each in taints if text(each, "key") not in _HEALTH_TAINTS),
        offers={name: amount - kept.get(name, 0) for name, amount in allocatable.items()},
        free={name: amount - used.get(name, 0) for name, amount in allocatable.items()},
        cordoned=mapping(body, "spec").get("unschedulable") is True,
        ready=ready is None or ready.get("status") == "True",
    )


def constraint(spec: Body) -> Callable[[NodeFacts], str | None]:
    """Return a function that says why a pod cannot use a node: a text for the user, or None."""
    selector = mapping(spec, "nodeSelector")
    terms = sequence(
        spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"
    )
    tolerations = sequence(spec, "tolerations")

    def refused(node: NodeFacts) -> str | None:
        for key, value in selector.items():
            if node.labels.get(key) != value:
                return f"nodeSelector {key}={value}"
        if terms and not any(_matches(term, node) for term in terms):
            return "nodeAffinity"
        for taint in node.taints:
            if not any(_tolerates(each, taint) for each in tolerations):
                value = f"={text(taint, 'value')}" if text(taint, "value") else ""
                return f"taint {text(taint, 'key')}{value}:{text(taint, 'effect')}"
        return None

    return refused


def labels_match(selector: Body, labels: Mapping[str, Any]) -> bool:
    """Return whether a label selector selects labels; an empty one selects all."""
    equal = all(labels.get(key) == value for key, value in mapping(selector, "matchLabels").items())
    return equal and all(_holds(each, labels) for each in sequence(selector, "matchExpressions"))


def _matches(term: Body, node: NodeFacts) -> bool:
    expressions = sequence(term, "matchExpressions")
    fields = sequence(term, "matchFields")
    if not expressions and not fields:
        return False
    name = {"metadata.name": node.name}
    return all(_holds(each, node.labels) for each in expressions) and all(_holds(each, name) for each in fields)


def _holds(expression: Body, labels: Mapping[str, Any]) -> bool:
    key, operator, values = text(expression, "key"), text(expression, "operator"), expression.get("values")
    chosen = values if isinstance(values, list) else []
    present = labels.get(key)
    match operator:
        case "In":
            return present in chosen
        case "NotIn":
            return present not in chosen
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "Gt" | "Lt":
            try:
                left, right = int(str(present)), int(str(chosen[0]))
            except (ValueError, IndexError):
                return False
            return left > right if operator == "Gt" else left < right
    return False


def _tolerates(toleration: Body, taint: Body) -> bool:
    key, effect = text(toleration, "key"), text(toleration, "effect")
    if effect and effect != text(taint, "effect"):
        return False
    if key and key != text(taint, "key"):
        return False
    if text(toleration, "operator") == "Exists":
        return True
    return bool(key) and text(toleration, "value") == text(taint, "value")
