"""Groups of nodes, and minimums, that a TrainJob requests of Volcano by annotations of its JobSet template.

A TrainJob has no fields for them: ``runtimePatches`` change the template of a runtime, not its policies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from trainyard.checks.finding import Finding
from trainyard.jobs.render.gangs.volcano_subgroups import SubGroupPolicy, SubgroupSource
from trainyard.jobs.render.gangs.volcano_topology import HARD, NetworkTopology
from trainyard.jobs.render.resolved_job import ResolvedJob

SIZE_ANNOTATION: Final = "trainyard.dev/subgroup-size"
TIER_ANNOTATION: Final = "trainyard.dev/subgroup-tier"
MINIMUMS_ANNOTATION: Final = "trainyard.dev/min-task-member"
ANNOTATIONS: Final = (SIZE_ANNOTATION, TIER_ANNOTATION, MINIMUMS_ANNOTATION)
MINIMUMS_PATH: Final = f"spec.annotations[{MINIMUMS_ANNOTATION}]"

_SIZE_PATH: Final = f"spec.annotations[{SIZE_ANNOTATION}]"
_TIER_PATH: Final = f"spec.annotations[{TIER_ANNOTATION}]"
_SIZE: Final = re.compile(r"[1-9][0-9]{0,8}")
_TIER_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_LONGEST_NAME: Final = 253
_MINIMUM: Final = re.compile(r"\s*([a-z0-9-]{1,63})=([0-9]{1,9})\s*")
_MOST_MINIMUMS: Final = 16


def requested_groups(job: ResolvedJob, policies: Sequence[SubGroupPolicy]) -> list[SubGroupPolicy]:
    """Return the subgroups of a gang: those of the runtime, with what the TrainJob requests for its nodes.

    An invalid request changes nothing; `check_requests` reports it.

    Parameters
    ----------
    policies
        ``subGroupPolicy`` of the runtime.
    """
    size, tier = _annotation(job, SIZE_ANNOTATION), _annotation(job, TIER_ANNOTATION)
    if job.trainer is None or (size is None and tier is None):
        return list(policies)
    name = job.trainer.name
    own = next((policy for policy in policies if policy.name == name), None)
    count = own.sub_group_size if own is not None and size is None else _number(size)
    topology = own.network_topology if own is not None and tier is None else _topology(tier)
    if count is None or (tier is not None and topology is None):
        return list(policies)
    # Not validated: a name that is too long is an error of the replicatedJob.
    requested = SubGroupPolicy.model_construct(name=name, sub_group_size=count, network_topology=topology)
    return [*(policy for policy in policies if policy.name != name), requested]


def requested_minimums(job: ResolvedJob, minimums: Mapping[str, int]) -> dict[str, int]:
    """Return the minimums of replicatedJobs: those of the runtime, with what the TrainJob requests.

    Parameters
    ----------
    minimums
        ``minTaskMember`` of the runtime.
    """
    return {**minimums, **(_minimums(_annotation(job, MINIMUMS_ANNOTATION)) or {})}


def group_sources(job: ResolvedJob) -> dict[str, SubgroupSource]:
    """Return where the requested subgroups are written, by replicatedJob; empty: the TrainJob requests none."""
    sizes, tiers = _annotation(job, SIZE_ANNOTATION) is not None, _annotation(job, TIER_ANNOTATION) is not None
    if job.trainer is None or not (sizes or tiers):
        return {}
    written = SubgroupSource()
    return {
        job.trainer.name: SubgroupSource(
            _SIZE_PATH if sizes else written.size_path,
            _TIER_PATH if tiers else written.limit_path,
            SIZE_ANNOTATION if sizes else written.size_field,
            TIER_ANNOTATION if tiers else written.limit_field,
        )
    }


def check_requests(job: ResolvedJob, policies: Sequence[SubGroupPolicy]) -> Iterator[Finding]:
    """Yield invalid annotations, and annotations without the nodes or the size that they need.

    Parameters
    ----------
    policies
        ``subGroupPolicy`` of the runtime.
    """
    minimums = _annotation(job, MINIMUMS_ANNOTATION)
    if minimums is not None and _minimums(minimums) is None:
        yield Finding(
            MINIMUMS_PATH,
            f"{minimums!r} is not a list of at most {_MOST_MINIMUMS} numbers of pods by replicatedJob",
            "write it as server=2,node=4",
        )
    size, tier = _annotation(job, SIZE_ANNOTATION), _annotation(job, TIER_ANNOTATION)
    if size is None and tier is None:
        return
    if job.trainer is None:
        path = _TIER_PATH if size is None else _SIZE_PATH
        yield Finding(path, "the runtime has no trainer whose nodes could form groups", "remove the annotation")
        return
    if size is not None and _number(size) is None:
        yield Finding(_SIZE_PATH, f"{size!r} is not a number of nodes", "use a number that divides numNodes")
    if tier is not None and _topology(tier) is None:
        yield Finding(_TIER_PATH, f"{tier!r} is not a tier", "use the name or the number of a tier of the fabric")
    if size is None and all(policy.name != job.trainer.name for policy in policies):
        message = f'the runtime has no groups of replicatedJob "{job.trainer.name}"'
        yield Finding(_TIER_PATH, message, f"set {SIZE_ANNOTATION} too")


def _annotation(job: ResolvedJob, name: str) -> str | None:
    return job.template.annotations.get(name)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and _SIZE.fullmatch(text) else None


def _topology(tier: str | None) -> NetworkTopology | None:
    if not tier or len(tier) > _LONGEST_NAME:
        return None
    if _TIER_NUMBER.fullmatch(tier):
        return NetworkTopology(mode=HARD, highest_tier_allowed=int(tier))
    return NetworkTopology(mode=HARD, highest_tier_name=tier)


def _minimums(text: str | None) -> dict[str, int] | None:
    parts = [_MINIMUM.fullmatch(part) for part in (text or "").split(",", _MOST_MINIMUMS)]
    pairs = [(match[1], int(match[2])) for match in parts if match]
    found = dict(pairs)
    return found if len(found) == len(parts) <= _MOST_MINIMUMS else None
