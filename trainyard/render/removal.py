"""Remove a replicatedJob from a JobSet, with every reference to it: JobSet rejects unknown names."""

from __future__ import annotations

from typing import Any

from trainyard.api import Body
from trainyard.render.working_state import Plan

__all__ = ["remove_pod_set"]

_TARGETS = "targetReplicatedJobs"


def remove_pod_set(plan: Plan, name: str) -> None:
    """Remove a replicatedJob: dependencies on it count as fulfilled, and policies about it alone go."""
    spec = plan.job_set_spec
    plan.pod_sets = [pod_set for pod_set in plan.pod_sets if pod_set.name != name]
    spec["replicatedJobs"] = [job for job in spec["replicatedJobs"] if job["name"] != name]
    for job in spec["replicatedJobs"]:
        _keep(job, "dependsOn", [entry for entry in job.get("dependsOn", ()) if entry["name"] != name])
    _forget_target(spec.get("successPolicy"), name)
    failure = spec.get("failurePolicy")
    if isinstance(failure, dict) and isinstance(failure.get("rules"), list):
        _keep(failure, "rules", [rule for rule in failure["rules"] if not _forget_target(rule, name)])
    coordinator = spec.get("coordinator")
    if isinstance(coordinator, dict) and coordinator.get("replicatedJob") == name:
        del spec["coordinator"]


def _forget_target(policy: Any, name: str) -> bool:
    """Take a name out of the targets of a policy; return whether it was the only one."""
    targets = policy.get(_TARGETS) if isinstance(policy, dict) else None
    if not isinstance(targets, list) or name not in targets:
        return False
    _keep(policy, _TARGETS, [target for target in targets if target != name])
    return _TARGETS not in policy


def _keep(body: Body, name: str, entries: list[Any]) -> None:
    if entries:
        body[name] = entries
    else:
        body.pop(name, None)
