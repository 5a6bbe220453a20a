"""Restart policies of the legacy operators as those of Jobs."""

from __future__ import annotations

from typing import Final

from trainyard.api import Body
from trainyard.jobs.convert.field_finding import Fidelity, FieldFinding
from trainyard.jobs.convert.part import Part
from trainyard.jobs.convert.source import LegacySource

ON_FAILURE: Final = "OnFailure"
NEVER: Final = "Never"
_ALWAYS: Final = "Always"
_EXIT_CODE: Final = "ExitCode"
_PERMANENT: Final = range(1, 128)
_LIMITED: Final = "a Job gives up after 6 failures of its pods, where the operator had no limit"
_ALWAYS_MESSAGE: Final = "OnFailure: the pods of a Job cannot be started again after they succeeded"


def apply_restart_policy(
    source: LegacySource, part: Part, default: str, limit: int | None, *, unlimited: bool = False
) -> None:
    """Read the restart policy of a training operator's role.

    Parameters
    ----------
    default
        The operator's default.
    limit
        Retries before the job fails; None if unset.
    unlimited
        Whether the operator retries without end where the limit is unset.
    """
    path = f"{part.role}.restartPolicy"
    named = source.text(path)
    policy = named or default
    own = f"{part.path}.spec.restartPolicy"
    if part.pod.get("restartPolicy") not in (None, policy):
        source.changed(own, f"{policy}: the role's restartPolicy counts")
    if policy == _EXIT_CODE:
        part.pod["restartPolicy"] = NEVER
        part.job["podFailurePolicy"] = _by_exit_code(part)
        retry(part, limit)
        source.changed(path, "podFailurePolicy of the Job: exit codes 1 to 127 end it, others are tried again")
    elif policy == NEVER:
        part.pod["restartPolicy"] = NEVER
        part.job["backoffLimit"] = 0
        source.same(path, "restartPolicy Never of the pods, backoffLimit 0 of the Job")
    elif policy in (ON_FAILURE, _ALWAYS):
        part.pod["restartPolicy"] = ON_FAILURE
        retry(part, limit)
        if policy == _ALWAYS:
            source.changed(path, _ALWAYS_MESSAGE)
        else:
            source.same(path, "restartPolicy of the pods")
    else:
        raise source.malformed(path, f"must be Always, OnFailure, Never or ExitCode, but is {policy!r}")
    if unlimited and limit is None and policy != NEVER:
        source.notes.append(FieldFinding.of(path, policy, Fidelity.CHANGED, _LIMITED, "set runPolicy.backoffLimit"))


def adapt_restart_policy(source: LegacySource, part: Part, *, fails: bool) -> None:
    """Adapt the restart policy of a pod template without a policy of its role.

    Parameters
    ----------
    fails
        Whether a failed pod that is not restarted fails the job.
    """
    policy = part.pod.get("restartPolicy")
    if policy == _ALWAYS:
        part.pod["restartPolicy"] = ON_FAILURE
        source.changed(f"{part.path}.spec.restartPolicy", _ALWAYS_MESSAGE)
    elif policy == NEVER and fails:
        part.job.setdefault("backoffLimit", 0)


def note_limit(source: LegacySource, part: Part, fix: str) -> None:
    """Note the limit of a Job whose pods the operator, or the kubelet, started again without end."""
    if "backoffLimit" not in part.job:
        path = f"{part.path}.spec.restartPolicy"
        source.notes.append(FieldFinding.of(path, part.pod.get("restartPolicy"), Fidelity.CHANGED, _LIMITED, fix))


def retry(part: Part, limit: int | None) -> None:
    """Set the number of retries before a Job fails."""
    if limit is not None:
        part.job["backoffLimit"] = limit


def _by_exit_code(part: Part) -> Body:
    codes = {"containerName": part.main, "operator": "In", "values": list(_PERMANENT)}
    return {"rules": [{"action": "FailJob", "onExitCodes": codes}]}
