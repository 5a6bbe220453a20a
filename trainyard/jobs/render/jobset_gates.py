"""JobSet's alpha feature gates: template fields that JobSet rejects unless a gate is enabled.

The rules are those of JobSet's validating webhook, pkg/webhooks/jobset_webhook.go. The gates of a cluster are declared
in its settings; a gate that is not declared may still be enabled, so its fields have a warning, not an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainyard.api import Body
from trainyard.checks.finding import Finding

IN_PLACE_RESTART: Final = "InPlaceRestart"
RESTART_JOB: Final = "RestartJob"
_ACTIONS: Final = ("RestartJob", "RestartJobAndIgnoreMaxRestarts")
_MOST_REPLICAS: Final = 1024
_LARGEST: Final = 2**31 - 1
_SETTING: Final = "trainyard:jobset.featureGates"


def gate_findings(spec: Body, path: str, enabled: frozenset[str]) -> Iterator[Finding]:
    """Yield warnings about fields whose gate is not declared, and errors of fields whose gate is.

    Parameters
    ----------
    spec
        A JobSet specification that matches its schema.
    path
        Path of the specification in findings.
    enabled
        Declared feature gates of JobSet.
    """
    policy = spec.get("failurePolicy", {})
    jobs = spec.get("replicatedJobs", [])
    if policy.get("restartStrategy") == IN_PLACE_RESTART:
        yield from _ignored_completions(jobs, f"{path}.replicatedJobs")
        if IN_PLACE_RESTART in enabled:
            yield from _in_place_errors(jobs, f"{path}.replicatedJobs")
        else:
            here = f"{path}.failurePolicy.restartStrategy"
            yield _undeclared(here, IN_PLACE_RESTART, IN_PLACE_RESTART, "Recreate or BlockingRecreate")
    gated = [(index, rule) for index, rule in enumerate(policy.get("rules", ())) if rule.get("action") in _ACTIONS]
    if RESTART_JOB not in enabled:
        for index, rule in gated:
            here = f"{path}.failurePolicy.rules[{index}].action"
            others = "FailJobSet, RestartJobSet or RestartJobSetAndIgnoreMaxRestarts"
            yield _undeclared(here, rule["action"], RESTART_JOB, others)
    elif gated:
        yield from _replica_errors(jobs, f"{path}.replicatedJobs")


def _undeclared(path: str, value: str, gate: str, others: str) -> Finding:
    return Finding.warning(
        path,
        f"{value} requires JobSet's feature gate {gate}, which {_SETTING} does not list: unless it is enabled, JobSet "
        "rejects the jobs",
        f"enable it in JobSet and list it in {_SETTING}, or use {others}",
    )


def _ignored_completions(jobs: list[Body], path: str) -> Iterator[Finding]:
    """Yield completions that differ from parallelism: JobSet rejects them, but every rendered Job has equal numbers."""
    for index, job in enumerate(jobs):
        spec = job["template"]["spec"]
        pods, completions = spec.get("parallelism", 1), spec.get("completions")
        if completions is not None and completions != pods:
            yield Finding.warning(
                f"{path}[{index}].template.spec.completions",
                f"{completions} differs from parallelism {pods}, which {IN_PLACE_RESTART} rejects: it is ignored",
                f"set both to the number of pods, or remove completions: {pods} run",
            )


def _in_place_errors(jobs: list[Body], path: str) -> Iterator[Finding]:
    for index, job in enumerate(jobs):
        here, spec = f"{path}[{index}].template.spec", job["template"]["spec"]
        if spec.get("backoffLimit") != _LARGEST:
            message = f"must be {_LARGEST} for {IN_PLACE_RESTART}"
            yield Finding(f"{here}.backoffLimit", message, f"set it to {_LARGEST}")
        if spec.get("podReplacementPolicy") != "Failed":
            yield Finding(f"{here}.podReplacementPolicy", f"must be Failed for {IN_PLACE_RESTART}", "set it to Failed")


def _replica_errors(jobs: list[Body], path: str) -> Iterator[Finding]:
    for index, job in enumerate(jobs):
        if job.get("replicas", 1) > _MOST_REPLICAS:
            message = f"{job['replicas']} exceeds {_MOST_REPLICAS}, the maximum with action {RESTART_JOB}"
            yield Finding(f"{path}[{index}].replicas", message, "use fewer")
