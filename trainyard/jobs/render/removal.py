"""Remove a replicatedJob from a JobSet, with all references to it: JobSet rejects unknown names."""

from __future__ import annotations

from typing import Any

from trainyard.api import Body

_TARGETS = "targetReplicatedJobs"


def remove_replicated_job(spec: Body, name: str) -> None:
    """Remove a replicatedJob of a JobSet specification, dependencies on it, and policies that target only it."""
    spec["replicatedJobs"] = [job for job in spec["replicatedJobs"] if job["name"] != name]
    for job in spec["replicatedJobs"]:
        _set_or_delete(job, "dependsOn", [entry for entry in job.get("dependsOn", ()) if entry["name"] != name])
    _remove_target(spec.get("successPolicy"), name)
    failure = spec.get("failurePolicy")
    if isinstance(failure, dict) and isinstance(failure.get("rules"), list):
        _set_or_delete(failure, "rules", [rule for rule in failure["rules"] if not _remove_target(rule, name)])
    coordinator = spec.get("coordinator")
    if isinstance(coordinator, dict) and coordinator.get("replicatedJob") == name:
        del spec["coordinator"]


def _remove_target(policy: Any, name: str) -> bool:
    """Remove a name from the targets of a policy; return whether it was the only target."""
    targets = policy.get(_TARGETS) if isinstance(policy, dict) else None
    if not isinstance(targets, list) or name not in targets:
        return False
    _set_or_delete(policy, _TARGETS, [target for target in targets if target != name])
    return _TARGETS not in policy


def _set_or_delete(body: Body, name: str, entries: list[Any]) -> None:
    if entries:
        body[name] = entries
    else:
        body.pop(name, None)
