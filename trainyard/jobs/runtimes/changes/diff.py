"""Difference between two runtimes, computed on the objects rendered for a job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from trainyard.api import Body, ClusterTrainingRuntime, TrainJob, parse
from trainyard.api.constants import TRAIN_JOB
from trainyard.errors import TrainyardError
from trainyard.jobs.render.gangs import METADATA_PREFIXES
from trainyard.jobs.render.pipeline import render
from trainyard.jobs.render.result import Rejected, RenderContext
from trainyard.jobs.runtimes.samples import sample_train_job
from trainyard.manifests.documents import objects


class Aspect(StrEnum):
    """Aspect of a job that changes, in report order."""

    VERDICT = "verdict"
    IMAGES = "images"
    COMMAND = "command"
    ENV = "env"
    RESOURCES = "resources"
    NODES = "nodes"
    GANG = "gang"
    PLACEMENT = "placement"
    ORDERING = "ordering"
    VOLUMES = "volumes"
    FAILURES = "failures"
    SECURITY = "security"
    LABELS = "labels"
    FILES = "files"
    OTHER = "other"


@dataclass(frozen=True)
class RuntimeChange:
    """One difference.

    Parameters
    ----------
    aspect
        Aspect of the job.
    where
        The replicatedJob and container, or the object.
    what
        The field, below `where`.
    before, after
        The values; None if unset.
    """

    aspect: Aspect
    where: str
    what: str
    before: Any
    after: Any

    def as_json(self) -> dict[str, Any]:
        """Return the change as JSON data."""
        return {
            "aspect": self.aspect.value,
            "where": self.where,
            "what": self.what,
            "before": self.before,
            "after": self.after,
        }


def compare(
    old: Mapping[str, Any], new: Mapping[str, Any], job: Mapping[str, Any] | None = None
) -> list[RuntimeChange]:
    """Compare the objects rendered for a job on two runtimes.

    Parameters
    ----------
    old, new
        The installed runtimes.
    job
        A TrainJob; a minimal one for each runtime if unset.

    Returns
    -------
    list[Change]
        All differences of the rendered objects, by aspect and location.

    Raises
    ------
    TrainyardError
        A runtime or the job is invalid.
    """
    found: dict[Path, RuntimeChange] = {}
    for pair in _jobs(old, new, job):
        before, after = (_facts(body, wanted) for body, wanted in zip((old, new), pair, strict=True))
        for path in {**before, **after}:
            if before.get(path) != after.get(path):
                found.setdefault(path, RuntimeChange(*_place(path), before.get(path), after.get(path)))
    order = list(Aspect)
    return sorted(found.values(), key=lambda change: (order.index(change.aspect), change.where, change.what))


def _jobs(
    old: Mapping[str, Any], new: Mapping[str, Any], job: Mapping[str, Any] | None
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield the jobs to compare: with the runtimes' number of nodes, and with several nodes."""
    if job is not None:
        yield job, job
        return
    for nodes in (False, True):
        yield sample_train_job(old, nodes=nodes), sample_train_job(new, nodes=nodes)


def read_job(text: str, source: str) -> Mapping[str, Any]:
    """Return the only TrainJob of a text.

    Raises
    ------
    TrainyardError
        It does not contain exactly one TrainJob.
    """
    found = [body for body in objects(text, source) if isinstance(body, dict) and body.get("kind") == TRAIN_JOB]
    if len(found) != 1 or not isinstance(found[0].get("spec"), dict):
        raise TrainyardError(f"{source} contains {len(found)} TrainJobs with a spec", fix="use a file with exactly one")
    job: Mapping[str, Any] = found[0]
    return job


Path = tuple[str, ...]

_NAMED: Final[Mapping[str, str]] = {
    "replicatedJobs": "name",
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "templates": "",
}
"""Lists whose items are compared by a key, ignoring their order."""


def _facts(body: Mapping[str, Any], job: Mapping[str, Any]) -> dict[Path, Any]:
    """Return the leaves of the objects rendered for a job, by path."""
    name = body["metadata"]["name"]
    spec = {**job["spec"], "runtimeRef": {**(job["spec"].get("runtimeRef") or {}), "name": name}}
    parsed = parse(TrainJob, {**job, "spec": spec})
    outcome = render(parsed, parse(ClusterTrainingRuntime, dict(body)), RenderContext())
    labels = body["metadata"].get("labels") or {}
    found: dict[Path, Any] = {("Runtime", "labels", key): value for key, value in labels.items()}
    if isinstance(outcome, Rejected):
        found["TrainJob", "errors"] = [str(error) for error in outcome.errors]
        return found
    if outcome.warnings:
        found["TrainJob", "warnings"] = [str(warning) for warning in outcome.warnings]
    for each in outcome.objects:
        metadata = each["metadata"]
        if metadata["name"].endswith("-runtime-snapshot"):
            continue
        kept = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
        rest = {key: value for key, value in each.items() if key not in ("apiVersion", "kind", "metadata")}
        for path, value in _leaves({**rest, "metadata": kept}, (each["kind"], metadata["name"])):
            found[path] = value
    return found


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, (*path, str(key)))
    elif isinstance(value, list) and path[-1] in _NAMED and value:
        yield from _entries(value, path)
    else:
        yield path, value


def _entries(value: Sequence[Body], path: Path) -> Iterator[tuple[Path, Any]]:
    key = _NAMED[path[-1]]
    for number, entry in enumerate(value):
        label = str(entry.get(key, number) if key else entry.get("metadata", {}).get("name", number))
        if path[-1] == "env":
            yield (*path, label), entry.get("value", entry.get("valueFrom", ""))
            continue
        rest = {name: inner for name, inner in entry.items() if name != key}
        yield from _leaves(rest or "", (*path, label))


_JOB: Final = ("spec", "replicatedJobs")
_POD: Final = ("template", "spec", "template")
_ASPECTS: Final[Sequence[tuple[Aspect, str]]] = (
    (Aspect.IMAGES, r"image(PullPolicy)?|imagePullSecrets"),
    (Aspect.COMMAND, r"command|args|workingDir"),
    (Aspect.ENV, r"env|envFrom"),
    (Aspect.RESOURCES, r"resources|resourceClaims|overhead"),
    (Aspect.NODES, r"replicas|parallelism|completions|completionMode"),
    (Aspect.GANG, r"schedulerName|schedulingGates|priorityClassName|gang"),
    (Aspect.PLACEMENT, r"nodeSelector|affinity|tolerations|topologySpreadConstraints|nodeName|hostNetwork"),
    (Aspect.ORDERING, r"dependsOn|startupPolicy|successPolicy|readinessProbe|startupProbe|network|coordinator"),
    (Aspect.VOLUMES, r"volumes|volumeMounts|volumeClaimPolicies"),
    (
        Aspect.FAILURES,
        r"failurePolicy|backoffLimit(PerIndex)?|podFailurePolicy|restartPolicy|maxRestarts|activeDeadlineSeconds"
        r"|podReplacementPolicy|terminationGracePeriodSeconds|ttlSecondsAfterFinished|livenessProbe",
    ),
    (Aspect.SECURITY, r"securityContext|serviceAccountName|automountServiceAccountToken"),
    (Aspect.LABELS, r"labels|annotations|metadata"),
)


def _place(path: Path) -> tuple[Aspect, str, str]:
    """Return aspect, location and name of a leaf."""
    kind = path[0]
    if kind == "TrainJob":
        return Aspect.VERDICT, kind, path[1]
    if kind == "Runtime":
        return Aspect.LABELS, kind, path[2]
    rest = path[2:]
    if kind == "PodGroup":
        return Aspect.GANG, kind, ".".join(rest)
    if kind != "JobSet":
        return Aspect.FILES, kind, ".".join((path[1], *rest))
    where, rest = _inside(rest)
    words = [part for part in rest if part not in ("spec", "template")]
    aspect = next(
        (aspect for word in words[:1] for aspect, pattern in _ASPECTS if re.fullmatch(pattern, word)), Aspect.OTHER
    )
    if any(part.startswith(METADATA_PREFIXES) for part in rest):
        aspect = Aspect.GANG
    return aspect, where, ".".join(words) or "(all)"


def _inside(rest: Path) -> tuple[str, Path]:
    if rest[:2] != _JOB or len(rest) < 3:
        return "JobSet", rest
    job, rest = rest[2], rest[3:]
    if rest[:3] == _POD and rest[3:5] in (("spec", "containers"), ("spec", "initContainers")) and len(rest) > 5:
        return f"{job}/{rest[5]}", rest[6:]
    return job, rest
