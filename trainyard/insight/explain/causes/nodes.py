"""Causes in nodes: constraints that no node satisfies, nodes that are too small, and nodes out of service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from trainyard.cluster_state.body_fields import mapping, text
from trainyard.cluster_state.observed import Kind
from trainyard.insight.explain.cause import Cause, Family, Found
from trainyard.insight.explain.fabric_limits import fits_fabric
from trainyard.insight.explain.job_state import JobState
from trainyard.insight.explain.node_table import Demand, NodeFacts, constraint, placed
from trainyard.scheduling.queues.amounts import text as amount_text

_SHOWN: Final = 5

SELECTOR: Final = Cause(
    "node-selector-unmatched",
    "Node selector or affinity that no node matches",
    "`nodeSelector` and required node affinity of the pods; labels of the nodes",
    "none of {nodes} nodes matches {wanted}; {present}",
    "use labels that nodes have, or ask the platform team to label nodes",
    {
        **{"nodes": 8, "wanted": ["nodeSelector gpu=h200"]},
        "present": "nodes have gpu=h100",
    },
)
TAINT: Final = Cause(
    "node-taint-not-tolerated",
    "Taints that the pods do not tolerate",
    "`tolerations` of the pods; taints of the nodes that match their selector",
    "all {nodes} nodes that match its selector have taints that its pods do not tolerate: {taints}",
    "add a toleration for {taints}, or use other nodes",
    {"nodes": 8, "taints": ["maintenance=true:NoSchedule"]},
)
TOO_SMALL: Final = Cause(
    "node-too-small",
    "Pod larger than any node",
    "requests of the pods; allocatable resources of each node that they may use",
    "a pod requests {requested} {resource}, and the largest node that it may use offers {offers}",
    "{remedy}",
    {
        **{"requested": "16", "resource": "nvidia.com/gpu", "offers": "8"},
        "remedy": "request at most 8 nvidia.com/gpu per pod, or use more pods",
    },
)
CORDONED: Final = Cause(
    "nodes-cordoned",
    "Cordoned nodes that would help",
    "`spec.unschedulable` of the nodes, and their free resources",
    "nodes {nodes} ({count} in all) are cordoned, and would have places for it{together}",
    "ask the platform team whether they return to service (`kubectl uncordon NODE`)",
    {"count": 2, "nodes": ["rack-0-node-1", "rack-0-node-2"], "together": ""},
)
NOT_READY: Final = Cause(
    "nodes-not-ready",
    "Failed nodes that would help",
    "condition Ready of the nodes, and their free resources",
    "nodes {nodes} ({count} in all) are not ready, and would have places for it{together}",
    "ask the platform team to repair them",
    {"count": 1, "nodes": ["rack-0-node-3"], "together": ""},
)


def _find(job_state: JobState) -> Iterator[Found]:
    table = job_state.view.table
    if not job_state.waits_for_room or not job_state.index.knows(Kind.NODE) or not table.nodes:
        return
    nodes = list(table.nodes.values())
    for demand in job_state.demands:
        found = _constrained(demand, nodes)
        if found is not None:
            yield found
            return
        allowed = table.allowed_nodes(demand.spec)
        if not placed([replace(demand, count=1)], allowed, free=False):
            yield _too_small(demand, allowed)
            return
    if table.knows_free:
        yield from _out_of_service(job_state)


def _constrained(demand: Demand, nodes: Sequence[NodeFacts]) -> Found | None:
    """Return the constraint that keeps a pod from all nodes that are large enough, if there is one."""
    large = [node for node in nodes if _offers(node, demand)] or list(nodes)
    refused = constraint(demand.spec)
    reasons = Counter(refused(node) for node in large)
    if reasons.get(None):
        return None
    taints = sorted(text_ for text_ in reasons if text_ is not None and text_.startswith("taint "))
    if taints:
        names = [each.removeprefix("taint ") for each in taints]
        return TAINT.found(nodes=sum(reasons[each] for each in taints), taints=names[:_SHOWN])
    wanted = sorted(each for each in reasons if each is not None)
    return SELECTOR.found(nodes=len(large), wanted=wanted[:_SHOWN], present=_present(demand, large))


def _offers(node: NodeFacts, demand: Demand) -> bool:
    return all(node.offers.get(name, 0) >= amount for name, amount in demand.request.items())


def _present(demand: Demand, nodes: Sequence[NodeFacts]) -> str:
    """Return the values of the selected labels that nodes have."""
    found: dict[str, None] = {}
    for key in mapping(demand.spec, "nodeSelector"):
        for node in nodes:
            if (value := text(node.labels, key)) and len(found) < _SHOWN:
                found[f"{key}={value}"] = None
    return f"nodes have {', '.join(found)}" if found else "no node has such a label"


def _too_small(demand: Demand, nodes: Sequence[NodeFacts]) -> Found:
    order = sorted(demand.request.items(), key=lambda each: ("/" not in each[0], each[0]))
    short = [name for name, amount in order if all(node.offers.get(name, 0) < amount for node in nodes)]
    resource = short[0] if short else order[0][0] if order else "pods"
    most = max((node.offers.get(resource, 0) for node in nodes), default=0)
    offers = amount_text(resource, max(0, most))
    return TOO_SMALL.found(
        requested=amount_text(resource, demand.request.get(resource, 1)),
        resource=resource,
        offers=offers,
        remedy=f"request at most {offers} {resource} per pod, or use more pods" if most > 0 else _devices(nodes),
    )


def _devices(nodes: Sequence[NodeFacts]) -> str:
    """Return what to do where no node has the resource."""
    names = sorted({name for node in nodes for name, amount in node.offers.items() if "/" in name and amount > 0})
    present = f"nodes have {', '.join(names[:_SHOWN])}" if names else "nodes have none such"
    return f"correct the name of the resource ({present}), or use other nodes"


def _out_of_service(job_state: JobState) -> Iterator[Found]:
    """Yield nodes out of service with which the whole gang would fit."""
    nodes = list(job_state.view.table.nodes.values())
    usable = [node for node in nodes if node.usable]
    if fits_fabric(job_state, usable):
        return
    one = [replace(each, count=1) for each in job_state.demands]
    cordoned = [node for node in nodes if node.cordoned and node.ready and placed(one, [node])]
    failed = [node for node in nodes if not node.ready and placed(one, [node])]
    groups = ((CORDONED, cordoned, "the nodes that are not ready"), (NOT_READY, failed, "the cordoned nodes"))
    alone = [bool(helps) and fits_fabric(job_state, usable + helps) for _, helps, _ in groups]
    both = not any(alone) and bool(cordoned and failed) and fits_fabric(job_state, usable + cordoned + failed)
    for (cause, helps, others), enough in zip(groups, alone, strict=True):
        if enough or both:
            together = f" together with {others}" if both else ""
            yield cause.found(count=len(helps), nodes=sorted(node.name for node in helps)[:_SHOWN], together=together)


FAMILY: Final = Family("Nodes", 4, (SELECTOR, TAINT, TOO_SMALL, CORDONED, NOT_READY), _find)
