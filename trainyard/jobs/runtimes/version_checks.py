"""Checks of a runtime file: kind, labels, and immutability after release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainyard.api.constants import FRAMEWORK_LABEL, RELEASED_ANNOTATION
from trainyard.checks.finding import Finding
from trainyard.jobs.runtimes.catalog import ALIAS_ANNOTATION, RuntimeVersion, spec_hash

_API_VERSION = "trainer.kubeflow.org/v1alpha1"
_KIND = "ClusterTrainingRuntime"
_STEP_LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"
_STEP_CONTAINERS = {
    "trainer": "node",
    "dataset-initializer": "dataset-initializer",
    "model-initializer": "model-initializer",
}


def check_version(version: RuntimeVersion) -> list[Finding]:
    """Validate one version.

    Parameters
    ----------
    version
        The version as loaded; its body may be any YAML mapping.
    """
    body = version.body
    findings: list[Finding] = []
    for field, expected in (("apiVersion", _API_VERSION), ("kind", _KIND)):
        if body.get(field) != expected:
            findings.append(Finding(field, f"is {body.get(field)!r}, not {expected!r}", f"set {expected}"))
    metadata, spec = body.get("metadata"), body.get("spec")
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        missing = "spec" if isinstance(metadata, dict) else "metadata"
        return [*findings, Finding(missing, "is missing or not a mapping", f"add {missing}")]
    for field, value in (("metadata", metadata), ("spec", spec)):
        if (key := _odd_key(value)) is not None:
            message = f"the key {key!r} is not a string"
            return [*findings, Finding(field, message, "quote it")]
    return [*findings, *_metadata(version, metadata, spec), *_steps(spec)]


def _odd_key(value: Any) -> Any:
    """Return a key that is not a string, or None; JSON supports string keys only."""
    if isinstance(value, dict):
        odd = next((key for key in value if not isinstance(key, str)), None)
        return odd if odd is not None else next(filter(_is_there, map(_odd_key, value.values())), None)
    if isinstance(value, list):
        return next(filter(_is_there, map(_odd_key, value)), None)
    return None


def _is_there(key: Any) -> bool:
    return key is not None


def _metadata(version: RuntimeVersion, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[Finding]:
    if metadata.get("name") != version.object_name:
        fix = f"set {version.object_name}: the folder's name and the file's version"
        yield Finding("metadata.name", f"is {metadata.get('name')!r}, not {version.object_name!r}", fix)
    for field in ("labels", "annotations"):
        if not isinstance(metadata.get(field, {}), dict):
            yield Finding(
                f"metadata.{field}", f"is {metadata[field]!r}, not a mapping", "use a mapping of names to values"
            )
            return
    if not metadata.get("labels", {}).get(FRAMEWORK_LABEL):
        yield Finding(f"metadata.labels[{FRAMEWORK_LABEL}]", "is missing; the SDK would not list the runtime", "add it")
    annotations = metadata.get("annotations", {})
    if ALIAS_ANNOTATION in annotations:
        yield Finding(f"metadata.annotations[{ALIAS_ANNOTATION}]", "is reserved for aliases", "set alias in index.yaml")
    path = f"metadata.annotations[{RELEASED_ANNOTATION}]"
    recorded, computed = annotations.get(RELEASED_ANNOTATION), spec_hash(spec)
    if version.released is not None and recorded is None:
        yield Finding(path, "is missing on a released version", f"set {computed}")
    elif version.released is None and recorded is not None:
        yield Finding(path, "is set, but index.yaml has no release date", "add released to the version in index.yaml")
    elif recorded is not None and recorded != computed:
        fix = "restore the spec and make the change in a new version"
        yield Finding(path, f"records {recorded}, the spec has {computed}: a released runtime was changed", fix)


def _steps(spec: Mapping[str, Any]) -> Iterator[Finding]:
    path = "spec.template.spec.replicatedJobs"
    jobs = _at(spec, "template", "spec", "replicatedJobs")
    if not isinstance(jobs, list) or not jobs:
        yield Finding(path, "has no entry", "add a replicatedJob with the trainer's step label")
        return
    steps = []
    for index, job in enumerate(jobs):
        step = _at(job, "template", "metadata", "labels", _STEP_LABEL)
        steps.append(step)
        expected = _STEP_CONTAINERS.get(str(step))
        containers = _at(job, "template", "spec", "template", "spec", "containers")
        names = [_at(container, "name") for container in containers] if isinstance(containers, list) else []
        if expected is not None and expected not in names:
            where = f"{path}[{index}].template.spec.template.spec.containers"
            yield Finding(where, f"step {step} needs a container named {expected!r}", f"name one {expected}")
    if "trainer" not in steps:
        fix = f"label one replicatedJob's template with {_STEP_LABEL}: trainer"
        yield Finding(path, "no entry has the trainer step", fix)


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
