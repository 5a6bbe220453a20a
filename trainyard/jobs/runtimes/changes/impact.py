"""Impact of a runtime change: the TrainJobs that use it, and the effect on each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from trainyard.api.constants import API_VERSION, CLUSTER_TRAINING_RUNTIME, SNAPSHOT_SUFFIX, TRAIN_JOB
from trainyard.errors import TrainyardError
from trainyard.manifests.documents import objects

_FINAL: Final = ("Complete", "Failed")


class RuntimeEffect(StrEnum):
    """Effect of a runtime change on a TrainJob."""

    OVER = "over"
    SNAPSHOT = "keeps its snapshot"
    CHANGES = "changes"


@dataclass(frozen=True)
class Reached:
    """A TrainJob that references a runtime.

    Parameters
    ----------
    job
        Namespace and name.
    runtime
        Name by which it references the runtime.
    effect
        Effect of a runtime change on it.
    """

    job: str
    runtime: str
    effect: RuntimeEffect

    def as_json(self) -> dict[str, str]:
        """Return the entry as JSON data."""
        return {"job": self.job, "runtime": self.runtime, "effect": self.effect.value}


@dataclass(frozen=True)
class Recorded:
    """Recorded jobs of a cluster.

    Parameters
    ----------
    train_jobs
        TrainJobs as stored.
    snapshots
        Namespace and name of the TrainJobs with a runtime snapshot.
    """

    train_jobs: Sequence[Mapping[str, Any]]
    snapshots: frozenset[str] = frozenset()


def read_recorded(texts: Mapping[str, str]) -> Recorded:
    """Read recorded lists.

    Parameters
    ----------
    texts
        Text by the name of its source, as written by ``kubectl get trainjobs,configmaps -A -o yaml``; other kinds are
        ignored.

    Raises
    ------
    TrainyardError
        A text is not YAML, or contains something other than Kubernetes objects.
    """
    jobs: list[Mapping[str, Any]] = []
    snapshots: set[str] = set()
    for source, text in texts.items():
        for number, body in enumerate(objects(text, source, fix="record the list again"), start=1):
            if not _is_object(body):
                raise TrainyardError(
                    f"Entry {number} of {source} is not a Kubernetes object",
                    fix="record it with kubectl get trainjobs,configmaps -A -o yaml",
                )
            if body["kind"] == TRAIN_JOB and body.get("apiVersion") == API_VERSION:
                jobs.append(body)
            elif body["kind"] == "ConfigMap":
                snapshots |= _snapshot_of(body)
    return Recorded(tuple(jobs), frozenset(snapshots))


def _is_object(body: Any) -> bool:
    metadata = body.get("metadata") if isinstance(body, dict) else None
    return isinstance(metadata, dict) and isinstance(body.get("kind"), str) and isinstance(metadata.get("name"), str)


def _snapshot_of(body: Mapping[str, Any]) -> set[str]:
    name = _name(body)
    return {name.removesuffix(SNAPSHOT_SUFFIX)} if name.endswith(SNAPSHOT_SUFFIX) else set()


def reached(recorded: Recorded, names: Iterable[str]) -> list[Reached]:
    """Return the TrainJobs that reference one of some cluster-scoped runtimes.

    Parameters
    ----------
    recorded
        The jobs.
    names
        Names of runtime objects: versions and aliases.

    Returns
    -------
    list[Reached]
        Sorted by effect, then by name.
    """
    wanted = set(names)
    found = []
    for body in recorded.train_jobs:
        spec = body.get("spec")
        reference = spec.get("runtimeRef") if isinstance(spec, dict) else None
        if (
            not isinstance(reference, dict)
            or reference.get("kind", CLUSTER_TRAINING_RUNTIME) != CLUSTER_TRAINING_RUNTIME
        ):
            continue
        if reference.get("name") in wanted:
            found.append(Reached(_name(body), reference["name"], _effect(body, recorded.snapshots)))
    order = (RuntimeEffect.CHANGES, RuntimeEffect.SNAPSHOT, RuntimeEffect.OVER)
    return sorted(found, key=lambda each: (order.index(each.effect), each.job))


def _effect(body: Mapping[str, Any], snapshots: frozenset[str]) -> RuntimeEffect:
    status = body.get("status") or {}
    conditions = status.get("conditions") or ()
    if any(entry.get("type") in _FINAL and entry.get("status") == "True" for entry in conditions):
        return RuntimeEffect.OVER
    return RuntimeEffect.SNAPSHOT if _name(body) in snapshots or status.get("jobsStatus") else RuntimeEffect.CHANGES


def _name(body: Mapping[str, Any]) -> str:
    metadata = body["metadata"]
    return f"{metadata.get('namespace') or 'default'}/{metadata['name']}"
