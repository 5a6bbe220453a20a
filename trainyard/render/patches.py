"""Runtime patches: what they may name, and when they may change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from trainyard.api import Body, RuntimePatch, TrainJob
from trainyard.api.constants import CONTAINER_NODE, DATASET_INITIALIZER, MODEL_INITIALIZER
from trainyard.api.runtime_patch import ContainerPatch, PodSpecPatch, ReplicatedJobPatch
from trainyard.problem import Problem
from trainyard.render.bodies import copied
from trainyard.render.result import RenderContext
from trainyard.render.shape import ENV, VOLUME_MOUNTS, faults, pod_fields

__all__ = ["check_changes", "check_patches", "patch_faults"]

_PATH: Final = "spec.runtimePatches"
_POD_PATH: Final = "template.spec.template.spec"
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_HTTP_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_CONFIGURED: Final = (DATASET_INITIALIZER, MODEL_INITIALIZER, CONTAINER_NODE)
_PLAIN_FIELDS: Final = ("volumes", "imagePullSecrets", "securityContext", "affinity", "tolerations", "schedulingGates")


def check_patches(patches: list[RuntimePatch], template: Body) -> Iterator[Problem]:
    """Yield patches of things that the runtime does not have, and of things only the TrainJob itself may set.

    Parameters
    ----------
    template
        The runtime's JobSet specification, before any patch.
    """
    jobs = {job["name"]: _container_names(job) for job in template.get("replicatedJobs", ())}
    for patch in patches:
        yield from _manager_faults(patch.manager)
        for target in _targets(patch):
            if target.name not in jobs:
                yield Problem(
                    _PATH,
                    f'must not have replicated job that doesn\'t exist in the runtime job template: "{target.name}"',
                    f"name one of {', '.join(jobs) or 'none: the runtime has no replicatedJobs'}",
                )
                continue
            yield from _container_faults(target, jobs[target.name])


def check_changes(train_job: TrainJob, old: TrainJob, context: RenderContext) -> Iterator[Problem]:
    """Yield changes of patches while pods run with the old ones."""
    if train_job.spec is None or old.spec is None:
        return
    if _comparable(train_job.spec.runtime_patches) == _comparable(old.spec.runtime_patches):
        return
    if not (old.spec.suspend or train_job.spec.suspend):
        yield Problem(
            _PATH,
            "RuntimePatches can only be modified when the TrainJob is suspended before or after the update",
            "set spec.suspend to true in the same update",
        )
        return
    for name in context.active_replicated_jobs:
        yield Problem(
            _PATH,
            f"RuntimePatches cannot be modified when the JobSet's ReplicatedJob {name} is still active",
            "wait until its pods are gone",
        )


def patch_faults(patches: list[RuntimePatch]) -> Iterator[Problem]:
    """Yield fields of patches that have not the shape of their Kubernetes type."""
    for index, patch in enumerate(patches):
        for position, target in enumerate(_targets(patch)):
            pod = _pod(target)
            if pod is None:
                continue
            base = f"{_PATH}[{index}].trainingRuntimeSpec.template.spec.replicatedJobs[{position}].{_POD_PATH}"
            body = copied(pod.body())
            for name in _PLAIN_FIELDS:
                if name in body:
                    yield from faults(body[name], pod_fields()[name], f"{base}.{name}")
            for kind in ("initContainers", "containers"):
                for number, container in enumerate(body.get(kind, ())):
                    for name, shape in (("env", ENV), ("volumeMounts", VOLUME_MOUNTS)):
                        if name in container:
                            yield from faults(container[name], shape, f"{base}.{kind}[{number}].{name}")


def _targets(patch: RuntimePatch) -> list[ReplicatedJobPatch]:
    template = patch.training_runtime_spec.template if patch.training_runtime_spec else None
    return (template.spec.replicated_jobs if template and template.spec else None) or []


def _pod(target: ReplicatedJobPatch) -> PodSpecPatch | None:
    job = target.template.spec if target.template else None
    return job.template.spec if job and job.template else None


def _container_names(job: Body) -> set[str]:
    pod = job["template"]["spec"]["template"]["spec"]
    return {container["name"] for kind in ("initContainers", "containers") for container in pod.get(kind, ())}


def _container_faults(target: ReplicatedJobPatch, known: set[str]) -> Iterator[Problem]:
    pod = _pod(target)
    if pod is None:
        return
    for kind, containers in (("initContainer", pod.init_containers or []), ("container", pod.containers or [])):
        for container in containers:
            yield from _one_container(kind, container, target.name, known)


def _one_container(kind: str, container: ContainerPatch, job: str, known: set[str]) -> Iterator[Problem]:
    if container.name not in known:
        yield Problem(
            _PATH,
            f'must not have {kind} that doesn\'t exist in the runtime job {job}: "{container.name}"',
            f"name one of {', '.join(sorted(known))}",
        )
    elif kind == "container" and container.env and container.name in _CONFIGURED:
        where = "spec.trainer.env" if container.name == CONTAINER_NODE else "spec.initializer"
        yield Problem(_PATH, f"must not have envs for the {', '.join(_CONFIGURED)} containers", f"use {where}")


def _manager_faults(manager: str) -> Iterator[Problem]:
    host, slash, path = manager.partition("/")
    fix = 'use a domain and a path, such as "acme.io/team"'
    if not slash or not host or not path:
        yield Problem(f"{_PATH}.manager", f'{manager!r} must be a domain-prefixed path (such as "acme.io/foo")', fix)
        return
    if len(host) > 253 or not _SUBDOMAIN.fullmatch(host):
        yield Problem(f"{_PATH}.manager", f"{host!r} is not an RFC 1123 subdomain", fix)
    if not _HTTP_PATH.fullmatch(path):
        yield Problem(f"{_PATH}.manager", f"{path!r} is not a path", fix)


def _comparable(patches: list[RuntimePatch] | None) -> Any:
    return [
        _without_empty({name: value for name, value in patch.body().items() if name != "time"})
        for patch in patches or ()
    ]


def _without_empty(value: Any) -> Any:
    """Return the value as API machinery compares it: empty lists and objects equal absent ones."""
    if isinstance(value, dict):
        inner = {name: _without_empty(item) for name, item in value.items()}
        return {name: item for name, item in inner.items() if item not in (None, {}, [])}
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    return value
