"""Limits of the fabric on one gang: the pods that must be inside one domain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trainyard.api.constants import TOPOLOGY_FEATURE
from trainyard.cluster_state.body_fields import Body, mapping, sequence, text, whole
from trainyard.cluster_state.observed import Kind
from trainyard.insight.explain.job_state import JobState, demands_of
from trainyard.insight.explain.node_table import Demand, NodeFacts, labels_match, placed


@dataclass(frozen=True)
class FabricLimit:
    """Pods that must be in one domain.

    Parameters
    ----------
    demands
        The pods.
    topology
        networkTopology of the limit.
    subgroup
        Name of the subgroup policy; empty: it is the whole gang.
    """

    demands: list[Demand]
    topology: Body
    subgroup: str = ""

    @property
    def pods(self) -> int:
        """Number of the pods."""
        return sum(each.count for each in self.demands)


def fabric_limits(job_state: JobState) -> Iterator[FabricLimit]:
    """Yield the limit on the whole gang, and one for each kind of subgroup."""
    group, features = job_state.pod_group, job_state.index.features
    spec = mapping(group, "spec")
    if features and TOPOLOGY_FEATURE not in features:
        return
    if not job_state.index.knows(Kind.HYPER_NODE):
        return
    topology = mapping(spec, "networkTopology")
    if text(topology, "mode") == "hard":
        yield FabricLimit(job_state.demands, topology)
    yield from _subgroups(job_state, sequence(spec, "subGroupPolicy"))


def _subgroups(job_state: JobState, policies: Sequence[Body]) -> Iterator[FabricLimit]:
    """Yield the limit of each subgroup that has to start, equal ones once.

    As in Volcano, a pod belongs to the first policy that selects it, and pods with equal values of matchLabelKeys are
    one subgroup; without a value for each key, a pod has none.
    """
    groups: dict[tuple[int, tuple[str, ...]], list[Body]] = {}
    for pod in job_state.unplaced if policies else ():
        labels = mapping(pod, "metadata", "labels")
        chosen = ((number, _values(policy, labels)) for number, policy in enumerate(policies))
        if found := next((each for each in chosen if each[1]), None):
            groups.setdefault(found, []).append(pod)
    seen: set[object] = set()
    for (number, _), pods in groups.items():
        policy = policies[number]
        topology = mapping(policy, "networkTopology")
        if text(topology, "mode") != "hard":
            continue
        if job_state.is_elastic and not whole(policy, "minSubGroups"):
            continue  # the gang starts without it
        size = max(1, whole(policy, "subGroupSize", default=1))
        demands = demands_of(pods[:size])
        key = repr(topology), tuple((each.key, each.count) for each in demands)
        if key not in seen:
            seen.add(key)
            yield FabricLimit(demands, topology, text(policy, "name") or f"subGroupPolicy[{number}]")


def _values(policy: Body, labels: Body) -> tuple[str, ...]:
    """Return the values that tell the subgroup of a pod; none: the policy does not select it."""
    keys = policy.get("matchLabelKeys")
    values = tuple(text(labels, key) for key in keys) if isinstance(keys, list) else ()
    return values if all(values) and labels_match(mapping(policy, "labelSelector"), labels) else ()


def fits_fabric(job_state: JobState, nodes: Sequence[NodeFacts]) -> bool:
    """Return whether the gang finds a place on the free resources of nodes, inside the domains that it may use."""
    if placed(job_state.demands, nodes) < job_state.members:
        return False
    by_name = {node.name: node for node in nodes}
    for limit in fabric_limits(job_state):
        domains = job_state.view.table.allowed_domains(limit.topology)
        inside = ([by_name[name] for name in each.nodes if name in by_name] for each in domains or ())
        if domains is not None and not any(placed(limit.demands, found) >= limit.pods for found in inside):
            return False
    return True
