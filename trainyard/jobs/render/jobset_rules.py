"""JobSet's admission rules that depend only on the runtime's template.

They mirror JobSet's validating webhook, pkg/webhooks/jobset_webhook.go. Limits that depend on the name of the TrainJob
and its number of pods are in :mod:`trainyard.jobs.render.name_limits`, those that depend on JobSet's feature gates in
:mod:`trainyard.jobs.render.jobset_gates`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from trainyard.api import Body
from trainyard.checks.finding import Finding
from trainyard.jobs.render.dns import is_http_path, is_subdomain

LONGEST_LABEL: Final = 63
"""Characters of a DNS label."""

_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_INNER_LABEL: Final = re.compile(r"[-a-z0-9]+")
_RULE_NAME: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_MAX_RULE_NAME_LENGTH: Final = 128
_REASONS: Final = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)
_IN_ORDER: Final = "InOrder"
_DNS_FIX: Final = "use at most 63 lower-case letters, digits and -, starting with a letter"


def template_errors(spec: Body, path: str) -> Iterator[Finding]:
    """Yield fields that JobSet rejects.

    Parameters
    ----------
    spec
        A JobSet specification that matches its schema.
    path
        Path of the specification in findings.
    """
    jobs = spec.get("replicatedJobs", [])
    names = [job["name"] for job in jobs]
    yield from _job_errors(jobs, f"{path}.replicatedJobs")
    yield from _dependency_errors(spec, path)
    yield from _network_errors(spec.get("network", {}), f"{path}.network")
    yield from _manager_errors(spec.get("managedBy"), f"{path}.managedBy")
    targets = spec.get("successPolicy", {}).get("targetReplicatedJobs", ())
    yield from _target_errors(targets, names, f"{path}.successPolicy.targetReplicatedJobs")
    yield from _failure_errors(spec.get("failurePolicy", {}), names, f"{path}.failurePolicy")
    yield from _coordinator_errors(spec.get("coordinator"), jobs, f"{path}.coordinator")


def _job_errors(jobs: list[Body], path: str) -> Iterator[Finding]:
    for index, job in enumerate(jobs):
        if not _INNER_LABEL.fullmatch(job["name"]):
            yield Finding(
                f"{path}[{index}].name",
                f"{job['name']!r} cannot be part of a DNS name",
                "use lower-case letters, digits and -",
            )
        group = job.get("groupName", "default")
        if not _is_label(group):
            yield Finding(f"{path}[{index}].groupName", f"{group!r} is not an RFC 1035 label", _DNS_FIX)
        if job.get("replicas", 1) < 0:
            yield Finding(f"{path}[{index}].replicas", f"{job['replicas']} is negative", "use zero or more")


def _dependency_errors(spec: Body, path: str) -> Iterator[Finding]:
    """Yield dependencies that are not earlier replicatedJobs, and dependencies combined with an ordered startup."""
    in_order = spec.get("startupPolicy", {}).get("startupPolicyOrder") == _IN_ORDER
    earlier: list[str] = []
    for index, job in enumerate(spec.get("replicatedJobs", ())):
        dependencies = job.get("dependsOn", ())
        for position, dependency in enumerate(dependencies):
            if dependency["name"] not in earlier:
                yield Finding(
                    f"{path}.replicatedJobs[{index}].dependsOn[{position}].name",
                    f"{dependency['name']!r} is not a replicatedJob that comes before {job['name']!r}",
                    f"name one of {', '.join(earlier)}"
                    if earlier
                    else "remove it: the first replicatedJob cannot wait",
                )
        if dependencies and in_order:
            yield Finding(
                f"{path}.replicatedJobs[{index}].dependsOn",
                f"cannot be used with startupPolicyOrder {_IN_ORDER}",
                "remove spec.template.spec.startupPolicy, or the dependencies",
            )
        earlier.append(job["name"])


def _network_errors(network: Body, path: str) -> Iterator[Finding]:
    subdomain = network.get("subdomain")
    if subdomain and not _is_label(subdomain):
        yield Finding(f"{path}.subdomain", f"{subdomain!r} is not an RFC 1035 label", _DNS_FIX)


def _manager_errors(manager: Any, path: str) -> Iterator[Finding]:
    if manager is None:
        return
    domain, slash, rest = manager.partition("/")
    valid = slash and is_subdomain(domain) and is_http_path(rest) and len(manager) <= LONGEST_LABEL
    if not valid:
        yield Finding(
            path,
            f"{manager!r} is not a domain-prefixed path of at most {LONGEST_LABEL} characters",
            'use a domain and a path, such as "acme.io/controller"',
        )


def _target_errors(targets: list[str], names: list[str], path: str) -> Iterator[Finding]:
    for index, target in enumerate(targets):
        if target not in names:
            yield Finding(
                f"{path}[{index}]", f"replicatedJob {target!r} does not exist", f"name one of {', '.join(names)}"
            )


def _failure_errors(policy: Body, names: list[str], path: str) -> Iterator[Finding]:
    rules = policy.get("rules", [])
    repeated = {name for name, count in Counter(rule["name"] for rule in rules if "name" in rule).items() if count > 1}
    for index, rule in enumerate(rules):
        here = f"{path}.rules[{index}]"
        name = rule.get("name")
        if name is not None and (len(name) > _MAX_RULE_NAME_LENGTH or not _RULE_NAME.fullmatch(name)):
            yield Finding(
                f"{here}.name",
                f"{name!r} is not a valid rule name",
                f"use at most {_MAX_RULE_NAME_LENGTH} letters, digits, _ , and :, starting with a letter",
            )
        if name in repeated:
            yield Finding(f"{here}.name", f"{name!r} is a duplicate", "give every rule a unique name")
        yield from _target_errors(rule.get("targetReplicatedJobs", []), names, f"{here}.targetReplicatedJobs")
        for position, reason in enumerate(rule.get("onJobFailureReasons", ())):
            if reason not in _REASONS:
                yield Finding(
                    f"{here}.onJobFailureReasons[{position}]",
                    f"{reason!r} is not a reason for which a Job fails",
                    f"use one of {', '.join(_REASONS)}",
                )


def _coordinator_errors(coordinator: Body | None, jobs: list[Body], path: str) -> Iterator[Finding]:
    if coordinator is None:
        return
    name = coordinator.get("replicatedJob", "")
    job = next((entry for entry in jobs if entry["name"] == name), None)
    if job is None:
        yield Finding(
            f"{path}.replicatedJob",
            f"replicatedJob {name!r} does not exist",
            f"name one of {', '.join(entry['name'] for entry in jobs)}",
        )
        return
    replicas, index = job.get("replicas", 1), coordinator.get("jobIndex", 0)
    if not 0 <= index < replicas:
        yield Finding(f"{path}.jobIndex", f"{index} is not a Job index of {name!r}", f"use 0 to {max(replicas - 1, 0)}")
    if job["template"]["spec"].get("completionMode", "Indexed") != "Indexed":
        yield Finding(
            f"{path}.replicatedJob", f"the Jobs of {name!r} are not indexed", "use completionMode Indexed there"
        )


def claim_errors(spec: Body, path: str) -> Iterator[Finding]:
    """Yield volume claims that JobSet rejects.

    Checked after merging: overrides of a TrainJob may add a missing mount or remove an existing one.

    Parameters
    ----------
    spec
        A JobSet specification that matches its schema.
    path
        Path of its ``volumeClaimPolicies`` in findings.
    """
    if not spec.get("volumeClaimPolicies"):
        return
    pods = [job["template"]["spec"]["template"]["spec"] for job in spec.get("replicatedJobs", ())]
    mounted = {
        mount["name"]
        for pod in pods
        for kind in ("initContainers", "containers")
        for container in pod.get(kind, ())
        for mount in container.get("volumeMounts", ())
    }
    volumes = {volume["name"] for pod in pods for volume in pod.get("volumes", ())}
    seen: set[str] = set()
    for index, policy in enumerate(spec.get("volumeClaimPolicies", ())):
        for position, claim in enumerate(policy.get("templates", ())):
            name = claim.get("metadata", {}).get("name", "")
            here = f"{path}[{index}].templates[{position}].metadata.name"
            if not is_subdomain(name):
                yield Finding(here, f"{name!r} is not an RFC 1123 subdomain", _DNS_FIX)
            elif name in seen:
                yield Finding(here, f"{name!r} is a duplicate", "give every claim a unique name")
            elif name in volumes:
                yield Finding(here, f"{name!r} is also a volume of a replicatedJob", "rename one of them")
            elif name not in mounted:
                yield Finding(here, f"no container mounts {name!r}", f"mount volume {name} in a container")
            seen.add(name)


def _is_label(value: str) -> bool:
    return len(value) <= LONGEST_LABEL and _LABEL.fullmatch(value) is not None
