"""Causes in gangs and the fabric: a gang that is too large for a domain, or whose free devices are scattered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from trainyard.api.constants import GROUP_NAME_ANNOTATION
from trainyard.checks.report.text import counted
from trainyard.cluster_state.body_fields import Body, namespace_of, text, whole
from trainyard.cluster_state.observed import Kind
from trainyard.insight.explain.cause import Cause, Family, Found
from trainyard.insight.explain.fabric_limits import FabricLimit, fabric_limits
from trainyard.insight.explain.job_state import JobState
from trainyard.insight.explain.node_table import Demand, HyperNodeDomain, NodeFacts, NodeTable, is_of_node, placed
from trainyard.scheduling.queues.amounts import text as amount_text
from trainyard.scheduling.queues.amounts import total

_SHOWN: Final = 3
_AGAIN: Final = (
    "delete the job and create it again: a Job does not run pods again that succeeded; a program that is stopped "
    "(SIGTERM) must not exit with 0"
)

TOO_FEW: Final = Cause(
    "gang-too-few-pods",
    "Gang with fewer pods than its minimum",
    "`spec.minMember` of the PodGroup; the pods that the Jobs create, and those that succeeded",
    "its gang starts with {minimum:pod} at once, and the job has {pods:pod}{past}",
    "{remedy}",
    {"minimum": 4, "pods": 3, "past": "", "remedy": "set minMember to at most 3, or create 4 pods"},
)
NO_DOMAIN: Final = Cause(
    "fabric-no-domain",
    "No domain that the gang may use",
    "`networkTopology` of the PodGroup; the HyperNodes and the nodes in them",
    "{what} must run inside one domain of tier {tier}, and no domain of that tier contains a node that its pods may "
    "use",
    "allow a higher tier (highestTierAllowed), or ask the platform team to list the nodes in HyperNodes",
    {"what": "it", "tier": "1 (rack)"},
)
LARGER_THAN_DOMAIN: Final = Cause(
    "gang-larger-than-domain",
    "Gang larger than any domain that it may use",
    "`networkTopology` of the PodGroup; allocatable resources of the nodes in each HyperNode",
    "{what} must run inside one domain of tier {tier}; the largest, {domain}, has {places:place} for them "
    "even when empty",
    "use at most {places:pod}{each}, fewer resources per pod, or allow a higher tier (highestTierAllowed)",
    {"what": "its 6 pods", "each": "", "tier": "1 (rack)", "domain": "rack-0", "places": 4},
)
FRAGMENTED: Final = Cause(
    "fabric-fragmented",
    "Enough free devices, but not in one domain",
    "`networkTopology` of the PodGroup; free resources of the nodes in each HyperNode, and the gangs on them",
    "{what} must run inside one domain of tier {tier}, and the free nodes have places for {places} of them, "
    "but scattered: {domains}",
    "wait until {moving} leaves {domain}, move it, use fewer pods, or allow a higher tier (highestTierAllowed)",
    {
        **{
            "what": "its 4 pods",
            "tier": "1 (rack)",
            "places": 6,
            "domains": ["rack-0 has 3 places", "rack-1 has 3 places"],
        },
        **{"domain": "rack-0", "moving": ["vision/small (1 pod)"]},
    },
)
LARGER_THAN_CLUSTER: Final = Cause(
    "gang-larger-than-cluster",
    "Gang larger than the cluster",
    "allocatable resources of all nodes that the pods may use",
    "its {pods} pods start together, and the nodes that they may use have places for {places} of them even when empty",
    "use at most {places:pod}, or fewer resources per pod",
    {"pods": 10, "places": 8},
)
NODES_FRAGMENTED: Final = Cause(
    "node-fragmented",
    "Enough in sum, but on no single node",
    "free resources of each node that the pods may use",
    "each pod of its gang of {pods} requests {requested} {resource} on one node; {free} are free in sum, at most "
    "{most} on one node, with places for {places} of them ({nodes})",
    "{smaller}, or wait until a job on one of these nodes ends",
    {
        **{"pods": 1, "requested": "8", "resource": "nvidia.com/gpu", "free": "12", "most": "6", "places": 0},
        **{"nodes": ["rack-0-node-1 has 6", "rack-0-node-2 has 6"]},
        "smaller": "request at most 6 nvidia.com/gpu per pod",
    },
)


def _find(job_state: JobState) -> Iterator[Found]:
    if job_state.ended:
        return
    yield from _too_few(job_state)
    table = job_state.view.table
    if not job_state.waits_for_room or not job_state.index.knows(Kind.NODE) or not table.nodes:
        return
    limits = list(fabric_limits(job_state))
    for limit in limits:
        yield from _in_domains(job_state, limit)
    whole_gang = job_state.demands
    nodes = _allowed(table, whole_gang)
    if not nodes or any(placed([demand], nodes, free=False) == 0 for demand in whole_gang):
        return  # a cause of nodes
    places = placed(whole_gang, nodes, free=False)
    if places < job_state.members:
        yield LARGER_THAN_CLUSTER.found(pods=job_state.members, places=places)
    elif not limits and table.knows_free:
        yield from _on_nodes(whole_gang, [node for node in nodes if node.usable])


def _too_few(job_state: JobState) -> Iterator[Found]:
    group = job_state.pod_group
    least = whole(group, "spec", "minMember")
    expected = sum(count for _, _, count in job_state.templates)
    if group is None or job_state.gang is None or job_state.gang.running:
        return
    if 0 < expected < least:
        remedy = f"set minMember to at most {expected}, or create {counted(least, 'pod')}"
        yield TOO_FEW.found(minimum=least, pods=expected, past="", remedy=remedy)
        return
    # The scheduler counts a succeeded pod while it exists; one that was stopped is deleted.
    kept = sum(text(pod, "status", "phase") == "Succeeded" for pod in job_state.all_pods)
    gone = sum(whole(job, "status", "succeeded") for job in job_state.jobs) - kept
    if gone > 0 and job_state.waits_for_room and expected - gone < least:
        past = f" left: {gone} succeeded before it was suspended or preempted, or exited with 0 when stopped"
        yield TOO_FEW.found(minimum=least, pods=expected - gone, past=past, succeeded=gone, remedy=_AGAIN)


def _in_domains(job_state: JobState, limit: FabricLimit) -> Iterator[Found]:
    table, demands, topology = job_state.view.table, limit.demands, limit.topology
    domains = table.allowed_domains(topology)
    if domains is None:
        return
    allowed = {node.name: node for node in _allowed(table, demands)}
    inside = [(domain, [allowed[name] for name in domain.nodes if name in allowed]) for domain in domains]
    inside = [(domain, nodes) for domain, nodes in inside if nodes]
    tier = _tier(topology, domains)
    pods = limit.pods
    what = (
        f"the {counted(pods, 'pod')} of subgroup {limit.subgroup}" if limit.subgroup else f"its {counted(pods, 'pod')}"
    )
    if not inside:
        if allowed:
            yield NO_DOMAIN.found(what=what if limit.subgroup else "it", tier=tier)
        return
    largest, places = max(
        ((domain, placed(demands, nodes, free=False)) for domain, nodes in inside), key=lambda each: each[1]
    )
    if not places:
        return  # a cause of nodes
    if places < pods:
        each = " per subgroup" if limit.subgroup else ""
        yield LARGER_THAN_DOMAIN.found(what=what, pods=pods, tier=tier, domain=largest.name, places=places, each=each)
        return
    if not table.knows_free:
        return
    usable = [(domain, [node for node in nodes if node.usable]) for domain, nodes in inside]
    free = [(domain, nodes, placed(demands, nodes)) for domain, nodes in usable]
    together = placed(demands, [node for node in allowed.values() if node.usable])
    if together < pods or any(places >= pods for _, _, places in free):
        return
    free.sort(key=lambda each: (-each[2], each[0].name))
    capable = [(d, nodes) for d, nodes, _ in free if placed(demands, nodes, free=False) >= pods]
    best, moving = _fewest_moves(table, demands, pods, capable)
    yield FRAGMENTED.found(
        what=what,
        pods=pods,
        tier=tier,
        places=_all_places(demands, [node for node in allowed.values() if node.usable]),
        domains=[f"{domain.name} has {counted(places, 'place')}" for domain, _, places in free[:5]],
        domain=best,
        moving=moving,
    )


def _fewest_moves(
    table: NodeTable, demands: Sequence[Demand], pods: int, domains: Iterable[tuple[HyperNodeDomain, list[NodeFacts]]]
) -> tuple[str, list[str]]:
    """Return which of the first domains has to lose the fewest gangs, and these with their pods in it."""
    best: tuple[int, str, list[str]] | None = None
    for domain, nodes in list(domains)[:_SHOWN]:
        gangs: defaultdict[str, list[Body]] = defaultdict(list)
        for pod in (pod for node in nodes for pod in table.holders.get(node.name, ()) if not is_of_node(pod)):
            gangs[_gang_name(pod)].append(pod)
        left, moving = {node.name: node for node in nodes}, list[str]()
        for name, members in sorted(gangs.items(), key=lambda each: (len(each[1]), each[0])):
            moving.append(f"{name} ({counted(len(members), 'pod')})")
            for pod in members:
                node = text(pod, "spec", "nodeName")
                left[node] = left[node].without([pod])
            if placed(demands, list(left.values())) >= pods:
                break
        if best is None or len(moving) < best[0]:
            best = len(moving), domain.name, moving
    return ("one of them", ["a job"]) if best is None or not best[2] else (best[1], best[2][:5])


def _gang_name(pod: Body) -> str:
    group = text(pod, "metadata", "annotations", GROUP_NAME_ANNOTATION)
    return f"{namespace_of(pod)}/{group or text(pod, 'metadata', 'name')}"


def _all_places(demands: Sequence[Demand], nodes: Sequence[NodeFacts]) -> int:
    """Return the places for pods of the first kind; more than the gang has pods, if there are."""
    first = demands[0]
    return placed([replace(first, count=1 << 20)], nodes) if len(demands) == 1 else placed(demands, nodes)


def _on_nodes(demands: Sequence[Demand], nodes: Sequence[NodeFacts]) -> Iterator[Found]:
    pods, places = sum(each.count for each in demands), placed(demands, nodes)
    requested = total({name: amount * each.count for name, amount in each.request.items()} for each in demands)
    sums = {name: sum(max(0, node.free.get(name, 0)) for node in nodes) for name in requested}
    if places >= pods or any(sums[name] < amount for name, amount in requested.items()):
        return
    demand = min(demands, key=lambda each: placed([each], nodes) / each.count)
    order = sorted(
        (name for name, amount in demand.request.items() if amount), key=lambda name: ("/" not in name, name)
    )
    short = [name for name in order if all(node.free.get(name, 0) < demand.request[name] for node in nodes)]
    if not order:
        return
    resource = (short or order)[0]
    free = sorted(nodes, key=lambda node: (-node.free.get(resource, 0), node.name))[:_SHOWN]
    most = amount_text(resource, max(0, free[0].free.get(resource, 0)))
    yield NODES_FRAGMENTED.found(
        pods=pods,
        requested=amount_text(resource, demand.request[resource]),
        resource=resource,
        free=amount_text(resource, sums[resource]),
        most=most,
        places=places,
        nodes=[f"{node.name} has {amount_text(resource, max(0, node.free.get(resource, 0)))}" for node in free],
        smaller=f"use at most {counted(places, 'pod')}" if places else f"request at most {most} {resource} per pod",
    )


def _allowed(table: NodeTable, demands: Iterable[Demand]) -> list[NodeFacts]:
    found: dict[str, NodeFacts] = {}
    for demand in demands:
        found |= {node.name: node for node in table.allowed_nodes(demand.spec)}
    return list(found.values())


def _tier(topology: Body, domains: Sequence[HyperNodeDomain]) -> str:
    number = domains[0].tier if domains else whole(topology, "highestTierAllowed")
    name = text(topology, "highestTierName") or (domains[0].tier_name if domains else "")
    return f"{number} ({name})" if name else str(number)


FAMILY: Final = Family(
    "Gangs and fabric",
    3,
    (TOO_FEW, NO_DOMAIN, LARGER_THAN_DOMAIN, FRAGMENTED, LARGER_THAN_CLUSTER, NODES_FRAGMENTED),
    _find,
)
