"""Subgroups of a Volcano gang: groups of equal size of a replicatedJob's pods, each inside one domain of the fabric.

Volcano assigns a pod to the first subgroup policy whose selector matches its labels; pods with equal values of
matchLabelKeys are one group. The pods of a Job differ only in their completion index, so each range of consecutive
indexes has a policy of its own. The groups of equal range in several replicas of a replicatedJob share one.

Volcano 1.14.1 resolves the tier name of a subgroup only after it has built the subgroups, so that it ignores the limit
of a gang that it places at once. Tiers of subgroups are therefore rendered as numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Final

from pydantic import Field

from trainyard.api import Body, KubernetesModel
from trainyard.api.constants import COMPLETION_INDEX_LABEL, JOB_INDEX_LABEL, REPLICATED_JOB_LABEL
from trainyard.api.kubernetes_model import Int32
from trainyard.checks.finding import Finding
from trainyard.jobs.render.gang_members import min_pods
from trainyard.jobs.render.gangs.volcano_topology import (
    HARD,
    NetworkTopology,
    check_topology,
    is_at_least,
    tier_number,
    warn_topology,
)
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.pod_set import PodSet
from trainyard.jobs.render.resolved_job import ResolvedJob

_PATH: Final = "spec.runtimeRef"
_NODES: Final = "spec.trainer.numNodes"
_FIELD: Final = "podGroupPolicy.volcano.subGroupPolicy"
_SINCE: Final = (1, 14)
_MOST_POLICIES: Final = 128
"""Policies of a PodGroup; in each session the scheduler compares every pod of the gang with them."""


class SubGroupPolicy(KubernetesModel):
    """Subgroups of the pods of one replicatedJob."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """Name of the replicatedJob."""
    sub_group_size: Annotated[Int32, Field(ge=1)]
    """Number of consecutive pods in a group; divides the number of pods."""
    network_topology: NetworkTopology | None = None
    """Placement of each group in the fabric."""


@dataclass(frozen=True)
class SubgroupSource:
    """Where subgroups are written; the default is the runtime.

    Parameters
    ----------
    size_path, limit_path
        Paths of findings about the number of pods in a group, and about its placement.
    size_field, limit_field
        Names of both in messages; ``{}`` is replaced by the name of the replicatedJob.
    """

    size_path: str = _PATH
    limit_path: str = _PATH
    size_field: str = _FIELD
    limit_field: str = f"{_FIELD}[{{}}].networkTopology"


_RUNTIME: Final = SubgroupSource()


def check_subgroups(
    job: ResolvedJob,
    policies: list[SubGroupPolicy],
    gang: NetworkTopology | None,
    sources: Mapping[str, SubgroupSource] | None = None,
) -> Iterator[Finding]:
    """Yield policies that divide no pods, and limits that Volcano cannot enforce.

    Parameters
    ----------
    gang
        Limit of the gang.
    sources
        Where the policies are written, by name; others are in the runtime.
    """
    members = {pod_set.name: pod_set for pod_set in job.members}
    rendered = 0
    if policies and not is_at_least(job, _SINCE):
        yield Finding(
            _PATH,
            f"{_FIELD}: Volcano {job.context.volcano_version} has no subgroups",
            "upgrade Volcano to 1.14, or use a runtime without subGroupPolicy",
        )
    for policy in policies:
        pod_set = members.get(policy.name)
        if pod_set is None:
            known = ", ".join(members) or "none"
            yield Finding(
                _PATH,
                f'{_FIELD}: replicatedJob "{policy.name}" is not a member of the gang',
                f"name one of its members ({known})",
            )
            continue
        source = (sources or {}).get(policy.name, _RUNTIME)
        yield from _check_size(job, pod_set, policy.sub_group_size, source)
        if policy.network_topology is not None:
            for finding in _check_limit(job, policy.network_topology, gang, source.limit_field.format(policy.name)):
                yield replace(finding, path=source.limit_path)
        rendered += len(_ranges(pod_set.count, policy.sub_group_size))
    if rendered > _MOST_POLICIES:
        yield Finding(
            _PATH,
            f"{_FIELD}: {rendered} groups in each replica; at most {_MOST_POLICIES} are supported",
            "use larger groups, or fewer nodes",
        )


def warn_subgroups(job: ResolvedJob, policies: list[SubGroupPolicy], gang: NetworkTopology | None) -> Iterator[Finding]:
    """Warn about soft topologies that are ignored: while the plug-in is disabled, and of a gang with subgroups."""
    for policy in policies:
        yield from warn_topology(job, policy.network_topology, _RUNTIME.limit_field.format(policy.name))
    if policies and gang is not None and gang.mode != HARD:
        yield Finding.warning(
            _PATH,
            "podGroupPolicy.volcano.networkTopology has no effect on pods in subgroups: its mode is soft",
            "set mode: hard with a tier of the fabric, or remove it",
        )


def subgroup_policies(builder: JobSetBuilder, policies: list[SubGroupPolicy]) -> list[Body]:
    """Return the PodGroup's subGroupPolicy."""
    gang = builder.job.gang
    bodies: list[Body] = []
    for policy in policies:
        pod_set = next(each for each in builder.pod_sets if each.name == policy.name)
        topology = policy.network_topology
        limit = (
            None if topology is None else {"mode": topology.mode, "highestTierAllowed": _tier(builder.job, topology)}
        )
        bodies += group_policies(
            policy.name,
            pod_set.count,
            policy.sub_group_size,
            least=min_pods(pod_set) // pod_set.replicas if policy.name in gang.counted else 0,
            replicas=pod_set.replicas,
            topology=limit,
        )
    return bodies


def group_policies(
    name: str, pods: int, size: int, *, least: int, replicas: int = 1, topology: Body | None = None
) -> list[Body]:
    """Return the policies of one replicatedJob's groups.

    Parameters
    ----------
    name
        Name of the replicatedJob.
    pods, replicas
        Pods of each replica, and replicas.
    size
        Pods of a group.
    least
        Pods of each replica that must start together.
    topology
        networkTopology of each group.
    """
    common: Body = {"subGroupSize": size}
    if topology is not None:
        common["networkTopology"] = topology
    jobs = {"matchLabels": {REPLICATED_JOB_LABEL: name}}
    if size in (1, pods):
        keys = [JOB_INDEX_LABEL] if size == pods else [JOB_INDEX_LABEL, COMPLETION_INDEX_LABEL]
        groups = least // size * replicas
        return [{"name": name, **common, "minSubGroups": groups, "labelSelector": jobs, "matchLabelKeys": keys}]
    return [
        {
            "name": f"{name}.{number}",
            **common,
            "minSubGroups": replicas if indexes.stop <= least else 0,
            "labelSelector": {**jobs, "matchExpressions": [_within(indexes)]},
            "matchLabelKeys": [JOB_INDEX_LABEL],
        }
        for number, indexes in enumerate(_ranges(pods, size))
    ]


def _within(indexes: range) -> Mapping[str, object]:
    return {"key": COMPLETION_INDEX_LABEL, "operator": "In", "values": [str(index) for index in indexes]}


def _ranges(pods: int, size: int) -> list[range]:
    """Return the completion indexes of each group; one range if a single policy covers all groups."""
    if size in (1, pods):
        return [range(pods)]
    return [range(start, start + size) for start in range(0, pods, size)]


def _check_size(job: ResolvedJob, pod_set: PodSet, size: int, source: SubgroupSource) -> Iterator[Finding]:
    requested = pod_set is job.trainer and job.spec.trainer is not None and job.spec.trainer.num_nodes is not None
    path = _NODES if requested else source.size_path
    group = f'{source.size_field}: subGroupSize {size} of replicatedJob "{pod_set.name}"'
    if pod_set.count % size:
        multiple = max(pod_set.count // size, 1) * size
        yield Finding(
            path,
            f"{group} does not divide its {pod_set.count} pods",
            f"use a multiple of {size}, such as {multiple}, or another subGroupSize",
        )
    elif pod_set.min_count is not None and pod_set.min_count % size:
        yield Finding(
            source.size_path,
            f"{group} does not divide the {pod_set.min_count} pods that start together",
            f"set torch.elasticPolicy.minNodes of the runtime to a multiple of {size}",
        )
    mode = pod_set.job["template"]["spec"].get("completionMode", "Indexed")
    if size != pod_set.count and mode != "Indexed":
        yield Finding(
            _PATH,
            f'{source.size_field}: the pods of replicatedJob "{pod_set.name}" have no index: '
            f"its completionMode is {mode}",
            "set completionMode: Indexed in the runtime",
        )


def _check_limit(
    job: ResolvedJob, topology: NetworkTopology, gang: NetworkTopology | None, field: str
) -> Iterator[Finding]:
    findings = list(check_topology(job, topology, field))
    yield from findings
    if findings:
        return
    tiers = job.context.tiers
    tier = tier_number(topology, tiers)
    if tier is None:
        yield Finding(
            _PATH,
            f"{field}.highestTierName: Volcano supports only tier numbers here, "
            f'and the number of "{topology.highest_tier_name}" is unknown',
            "set highestTierAllowed to the tier's number instead, or declare the fabric",
        )
    elif topology.mode == HARD and gang is not None and gang.mode == HARD:
        widest = tier_number(gang, tiers)
        if widest is not None and tier > widest:
            yield Finding(
                _PATH,
                f"{field}: tier {tier} has no effect, because the gang is limited to tier {widest}",
                f"use a tier below {widest}, or a higher tier for the gang",
            )


def _tier(job: ResolvedJob, topology: NetworkTopology) -> int:
    number = tier_number(topology, job.context.tiers)
    return topology.highest_tier_allowed if number is None else number
