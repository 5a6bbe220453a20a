"""Partitions of a Volcano task: subgroups of the runtime's replicatedJob."""

from __future__ import annotations

from typing import Final

from trainyard.api import Body
from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.gang_scheduling import GANG_MESSAGE, topology_of
from trainyard.jobs.convert.part import Part

_FIELD: Final = "podGroupPolicy.volcano.subGroupPolicy[]"


def read_partitions(draft: Draft) -> None:
    """Read the partition policies; the gang's scheduler and topology are known."""
    groups = [group for part in draft.parts if (group := _read(draft, part))]
    if groups:
        draft.gang["volcano"]["subGroupPolicy"] = groups


def _read(draft: Draft, part: Part) -> Body | None:
    source, path = draft.source, f"{part.role}.partitionPolicy"
    if source.peek(path) is None:
        return None
    if "volcano" not in draft.gang or part.replicas > 1:
        what = "the scheduler of the gang" if "volcano" not in draft.gang else "the number of Jobs"
        source.lost(path, f"{what} excludes groups of pods", "use networkTopology for all")
        return None
    size, total = source.integer(f"{path}.partitionSize", 1), source.integer(f"{path}.totalPartitions", 1)
    if size is None or total is None or size * total != part.pods:
        message = f"must divide the {part.pods} pods: totalPartitions times partitionSize"
        raise source.malformed(path, message)
    if size == 1:
        source.same(path, "left out: its groups are single pods")
        return None
    source.same(f"{path}.partitionSize", f"{_FIELD}.subGroupSize")
    source.same(f"{path}.totalPartitions", "number of pods by subGroupSize")
    if source.integer(f"{path}.minPartitions") == total:
        source.same(f"{path}.minPartitions", GANG_MESSAGE)
    else:
        source.changed(
            f"{path}.minPartitions", GANG_MESSAGE, "use an elastic PyTorch runtime if it can start with fewer"
        )
    group: Body = {"name": part.name, "subGroupSize": size}
    topology = topology_of(source, f"{path}.networkTopology", f"{_FIELD}.networkTopology")
    if topology is not None:
        if _is_wider(topology, draft.gang["volcano"].get("networkTopology")):
            for key in topology:
                source.forget(f"{path}.networkTopology.{key}")
                source.changed(f"{path}.networkTopology.{key}", "left out: the limit of the job is narrower")
        else:
            group["networkTopology"] = topology
    return group


def _is_wider(topology: Body, gang: Body | None) -> bool:
    """Return whether a hard limit has no effect because that of the gang is narrower."""
    tier, widest = (
        int(each.get("highestTierAllowed") or 0) if each.get("mode") == "hard" else 0 for each in (topology, gang or {})
    )
    return tier > widest > 0
