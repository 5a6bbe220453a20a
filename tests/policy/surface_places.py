"""Places of the ledger's types in objects: at every level from which a component reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tools.reference.surface_ledger import SurfaceLedger

Place = tuple[str | int, ...]

KINDS: Final = (
    *("Pod", "Job", "JobSet", "VolcanoJob", "TrainingRuntime", "TrainJob"),
    *("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "CronJob"),
    *("PersistentVolumeClaim", "PodDisruptionBudget", "PodGroup", "Service", "Command", "Namespace"),
)
"""Kinds of objects that the cases make."""

_PODS: Final = {
    "Pod": "spec",
    "Job": "spec.template.spec",
    "JobSet": "spec.replicatedJobs[0].template.spec.template.spec",
    "VolcanoJob": "spec.tasks[0].template.spec",
    "TrainingRuntime": "spec.template.spec.replicatedJobs[0].template.spec.template.spec",
    **dict.fromkeys(
        ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController"), "spec.template.spec"
    ),
    "CronJob": "spec.jobTemplate.spec.template.spec",
}
DENIED: Final = "DaemonSet"
"""Kind that TEN-005 denies whatever it contains: it has attacks only."""

_PATCHED_PODS: Final = (
    "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec.template.spec",
    "spec.podTemplateOverrides[0].spec",
    "spec.podSpecOverrides[0]",
)
"""Where each release of a TrainJob changes pods; which fields these have is in its schema."""

_JOB_SPECS: Final = {
    "Job": "spec",
    "JobSet": "spec.replicatedJobs[0].template.spec",
    "TrainingRuntime": "spec.template.spec.replicatedJobs[0].template.spec",
}
_CLAIMS: Final = {
    "PersistentVolumeClaim": "spec",
    "VolcanoJob": "spec.volumes[0].volumeClaim",
    "JobSet": "spec.volumeClaimPolicies[0].templates[0].spec",
    "StatefulSet": "spec.volumeClaimTemplates[0].spec",
}
_CONTAINERS: Final = (".containers[0]", ".initContainers[0]", ".ephemeralContainers[0]")
_EPHEMERAL: Final = ("Pod", "JobSet", "VolcanoJob", "TrainingRuntime")
"""Kinds that can have ephemeral containers; the API server rejects them in its own templates."""

_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS: Final = ("preStop", "postStart")


def _of_containers(*fields: str) -> tuple[str, ...]:
    return tuple(f"{container}.{field}" for container in _CONTAINERS for field in fields)


_BELOW_PODS: Final[dict[str, tuple[str, ...]]] = {
    "PodSpec": ("",),
    "Affinity": (".affinity",),
    "PersistentVolumeClaimSpec": (".volumes[0].ephemeral.volumeClaimTemplate.spec",),
    "Volume": (".volumes[0]",),
    "VolumeProjection": (".volumes[0].projected.sources[0]",),
    "PodSecurityContext": (".securityContext",),
    "Container": _CONTAINERS,
    "LifecycleHandler": (*_of_containers(*(f"lifecycle.{hook}" for hook in _HOOKS)),),
    "Probe": _of_containers(*_PROBES),
    "ResourceRequirements": _of_containers("resources"),
    "EnvVar": _of_containers("env[0]"),
    "EnvFromSource": _of_containers("envFrom[0]"),
    "SecurityContext": _of_containers("securityContext"),
    "Toleration": (".tolerations[0]",),
    "VolumeMount": _of_containers("volumeMounts[0]"),
}


_MEANINGLESS: Final[dict[tuple[str, str], tuple[str, str]]] = {
    ("Container", "name"): (
        r"\.(init|ephemeral)Containers\.",
        "a runtime names the container of its trainer, which is none of these",
    ),
    ("Probe", "terminationGracePeriodSeconds"): (r"\.readinessProbe\.", "the API server rejects it there"),
    ("ResourceRequirements", "requests"): (
        r"\.(init|ephemeral)Containers\.",
        "the value is that of limits, which only the container has",
    ),
    ("Labels", "trainer.kubeflow.org/trainjob-ancestor-step"): (
        r"TrainingRuntime spec\.template\.metadata\.",
        "nothing reads it there",
    ),
}
"""Places where a value means nothing, as a pattern of "KIND PLACE", and the reason."""


_JOB_METADATA: Final = {
    "JobSet": "spec.replicatedJobs[0].template.metadata",
    "TrainingRuntime": "spec.template.spec.replicatedJobs[0].template.metadata",
    "CronJob": "spec.jobTemplate.metadata",
    "TrainJob": "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.metadata",
}
_JOB_SET_METADATA: Final = {
    "TrainingRuntime": "spec.template.metadata",
    "TrainJob": "spec.runtimePatches[0].trainingRuntimeSpec.template.metadata",
}
"""Metadata of the templates of Jobs and JobSets."""


def places(type_name: str, field: str, ledger: SurfaceLedger) -> Iterator[tuple[str, Place]]:
    """Yield each kind that has a field of a type, with its place, where it means something."""
    for kind, place in _all_places(type_name, field, ledger):
        if not _meaningless(type_name, field, kind, place):
            yield kind, place


def _all_places(type_name: str, field: str, ledger: SurfaceLedger) -> Iterator[tuple[str, Place]]:
    if type_name == "PersistentVolumeClaimSpec":
        for kind, claim in _CLAIMS.items():
            yield kind, steps(f"{claim}.{field}")
    if type_name in ("Annotations", "Labels"):
        for kind in KINDS:
            yield kind, ("metadata", type_name.lower(), field)
        for kind, pod in _PODS.items():
            if kind != "Pod":
                yield kind, (*steps(pod)[:-1], "metadata", type_name.lower(), field)
        for pod in _PATCHED_PODS[:2]:
            yield "TrainJob", (*steps(pod)[:-1], "metadata", type_name.lower(), field)
        for kind, metadata in (*_JOB_METADATA.items(), *_JOB_SET_METADATA.items()):
            yield kind, (*steps(metadata), type_name.lower(), field)
        yield "TrainJob", ("spec", type_name.lower(), field)
    elif type_name == "ObjectMeta":
        for kind, pod in (*_PODS.items(), *(("TrainJob", patched) for patched in _PATCHED_PODS[:2])):
            yield kind, (*steps(pod)[:-1], "metadata", field)
    elif type_name in _BELOW_PODS:
        for below in _BELOW_PODS[type_name]:
            for kind, pod in _PODS.items():
                if kind in _EPHEMERAL or "ephemeralContainers" not in below:
                    yield kind, steps(f"{pod}{below}.{field}")
            for pod in _PATCHED_PODS:
                path = f"{pod}{below}.{field}"
                if path.replace("[0]", "[]") in ledger.fields("TrainJob").nodes:
                    yield "TrainJob", steps(path)
    elif type_name == "Variables":
        for container in _CONTAINERS:
            for kind, pod in _PODS.items():
                if kind in _EPHEMERAL or "ephemeralContainers" not in container:
                    yield kind, steps(f"{pod}{container}.env[0]")
            for pod in _PATCHED_PODS:
                if f"{pod}{container}.env".replace("[0]", "[]") in ledger.fields("TrainJob").nodes:
                    yield "TrainJob", steps(f"{pod}{container}.env[0]")
        yield "TrainJob", steps("spec.trainer.env[0]")
    elif type_name == "JobSpec":
        for kind, spec in _JOB_SPECS.items():
            yield kind, steps(f"{spec}.{field}")
    elif type_name == "JobSetSpec":
        yield "JobSet", steps(f"spec.{field}")
        yield "TrainingRuntime", steps(f"spec.template.spec.{field}")
    elif type_name == "VolcanoJobSpec":
        yield "VolcanoJob", steps(f"spec.{field}")
    elif type_name in KINDS:
        yield type_name, steps(field)


def steps(path: str) -> Place:
    """Return the steps of a path such as ``spec.containers[0]``."""
    found = re.findall(r"([^.\[\]]+)|\[(\d*)\]", path)
    return tuple(name or int(index or 0) for name, index in found)


def _meaningless(type_name: str, field: str, kind: str, place: Place) -> bool:
    pattern, _ = _MEANINGLESS.get((type_name, field), ("", ""))
    return bool(pattern) and re.search(pattern, f"{kind} {'.'.join(map(str, place))}") is not None
