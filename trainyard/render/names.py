"""Name lengths: JobSet builds names from the TrainJob's, and refuses those that are too long."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trainyard.problem import Problem
from trainyard.render.plan import Plan, PodSet

__all__ = ["check_names"]

_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LONGEST: Final = 63
_POD_SUFFIX: Final = len("-abcde")
_MAX_PODS: Final = 2**31 - 1


def check_names(plan: Plan) -> Iterator[Problem]:
    """Yield names that JobSet or the API server would refuse.

    The rules are those of JobSet's validating webhook: Job ``<job>-<replicatedJob>-<replica>`` and, for indexed Jobs,
    pod ``<job>-<replicatedJob>-<replica>-<index>-<5 characters>`` have at most 63 characters, as has claim
    ``<claim>-<job>``.
    """
    name = plan.name
    if not name:
        yield Problem("metadata.name", "Field required", "add it")
        return
    if not _LABEL.fullmatch(name):
        yield Problem(
            "metadata.name",
            f"{name!r} is not an RFC 1035 label",
            "use lower-case letters, digits and -, starting with a letter",
        )
    room, reason = min(_rooms(plan))
    if len(name) > room:
        fix = f"use a name of at most {room} characters" if room > 0 else "shorten the names in the runtime"
        yield Problem(
            "metadata.name", f"{name!r} has {len(name)} characters, but {reason} leaves room for {max(room, 0)}", fix
        )
    for pod_set in plan.pod_sets:
        if pod_set.pods > _MAX_PODS or pod_set.replicas < 0:
            yield Problem(
                "spec.trainer.numNodes", f'replicatedJob "{pod_set.name}" would have {pod_set.pods} pods', "use fewer"
            )


def _rooms(plan: Plan) -> Iterator[tuple[int, str]]:
    yield _LONGEST, "a TrainJob"
    for pod_set in plan.pod_sets:
        yield _job_room(pod_set)
    for policy in plan.job_set_spec.get("volumeClaimPolicies", ()):
        for claim in policy.get("templates", ()):
            claim_name = claim.get("metadata", {}).get("name", "")
            yield _LONGEST - len(f"{claim_name}-"), f'volume claim "{claim_name}" of the runtime'


def _job_room(pod_set: PodSet) -> tuple[int, str]:
    suffix = f"-{pod_set.name}-{max(pod_set.replicas - 1, 0)}"
    if pod_set.job["template"]["spec"].get("completionMode", "Indexed") != "Indexed":
        return _LONGEST - len(suffix), f'replicatedJob "{pod_set.name}" of the runtime'
    room = _LONGEST - len(f"{suffix}-{pod_set.count - 1}") - _POD_SUFFIX
    return room, f'replicatedJob "{pod_set.name}" of the runtime with {pod_set.count} pods'
