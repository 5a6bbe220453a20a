"""The JobSet of a TrainJob: its cached form, its creation, and its mutable fields.

A JobSet's ``suspend`` and ``ttlSecondsAfterFinished`` are mutable at any time. While it is suspended, labels,
annotations, nodeSelector, tolerations and schedulingGates of its pod templates are mutable too. All other fields of
the spec are immutable (``pkg/webhooks/jobset_webhook.go``, ``ValidateUpdate``, JobSet 0.12).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from trainyard.controller.job_ownership import TRAIN_JOB_LABEL, kept_metadata, labeled
from trainyard.controller.removed_parts import RENDERED_PARTS, rendered_parts, with_parts
from trainyard.jobs.render.gangs import names_group
from trainyard.kube.resource import Object, uid_of

FROZEN_DIGEST: Final = "trainyard.dev/frozen-digest"
"""Annotation: digest of the rendered immutable fields."""
TTL_ANNOTATION: Final = "trainyard.dev/ttl-seconds-after-finished"
"""Annotation: the runtime's ttlSecondsAfterFinished, set in the JobSet's spec after the TrainJob has finished."""

_TTL: Final = "ttlSecondsAfterFinished"
_MUTABLE_METADATA: Final = ("labels", "annotations")
_MUTABLE_POD_FIELDS: Final = ("nodeSelector", "tolerations", "schedulingGates")


def summary(body: Object) -> Object:
    """Return the part of a JobSet that the controller caches; never raises, whatever the CRD admitted."""
    metadata = body["metadata"]
    annotations = _mapping(metadata.get("annotations"))
    labels = _mapping(metadata.get("labels"))
    spec = _mapping(body.get("spec"))
    kept = kept_metadata(body)
    kept["labels"] = {name: labels[name] for name in (TRAIN_JOB_LABEL,) if name in labels}
    kept["annotations"] = {name: annotations[name] for name in (FROZEN_DIGEST, TTL_ANNOTATION) if name in annotations}
    status = _mapping(body.get("status"))
    return {
        "apiVersion": body.get("apiVersion"),
        "kind": body.get("kind"),
        "metadata": kept,
        "spec": {
            "suspend": bool(spec.get("suspend")),
            "gang": any(map(_names_group, _pod_templates(spec))),
            **({_TTL: spec[_TTL]} if spec.get(_TTL) is not None else {}),
        },
        "status": {
            "conditions": [entry for entry in _sequence(status.get("conditions")) if _mapping(entry).get("type")],
            "replicatedJobsStatus": [
                entry for entry in _sequence(status.get("replicatedJobsStatus")) if _mapping(entry).get("name")
            ],
        },
    }


def active_replicated_jobs(job_set: Object | None) -> tuple[str, ...]:
    """Return the replicatedJobs of a JobSet that have running pods."""
    observed = ((job_set or {}).get("status") or {}).get("replicatedJobsStatus") or ()
    return tuple(entry["name"] for entry in observed if entry.get("active"))


def as_created(rendered: Object, train_job: Object) -> Object:
    """Return the JobSet to create from a rendered one.

    ttlSecondsAfterFinished becomes an annotation, because JobSet's controller could delete the JobSet before its end
    is recorded in the TrainJob's status. A digest of the immutable fields detects later changes of the rendering.
    """
    body = labeled(rendered, train_job)
    spec = {name: value for name, value in body["spec"].items() if name != _TTL}
    digests = {FROZEN_DIGEST: _digest(rendered["spec"]), RENDERED_PARTS: rendered_parts(rendered["spec"])}
    annotations = {**(body["metadata"].get("annotations") or {}), **digests}
    if body["spec"].get(_TTL) is not None:
        annotations[TTL_ANNOTATION] = str(body["spec"][_TTL])
    return {**body, "metadata": {**body["metadata"], "annotations": annotations}, "spec": spec}


def suspended(rendered: Object) -> Object:
    """Return a rendered JobSet that is suspended: it has no pods until it is resumed."""
    return {**rendered, "spec": {**rendered["spec"], "suspend": True}}


def suspend_patch(job_set: Object) -> Object:
    """Return the merge patch that suspends a JobSet, with its uid as precondition."""
    return {"metadata": {"uid": uid_of(job_set)}, "spec": {"suspend": True}}


def adoption_patch(job_set: Object, train_job: Object) -> Object:
    """Return the merge patch that adopts a JobSet of another controller or version.

    The label adds it to the watch; ttlSecondsAfterFinished moves to an annotation until the TrainJob has finished.
    """
    metadata: Object = {"uid": uid_of(job_set), "labels": {TRAIN_JOB_LABEL: train_job["metadata"]["name"]}}
    patch: Object = {"metadata": metadata}
    ttl = _mapping(job_set.get("spec")).get(_TTL)
    if ttl is not None:
        metadata["annotations"] = {TTL_ANNOTATION: str(ttl)}
        patch["spec"] = {_TTL: None}
    return patch


def finish_patch(job_set: Object) -> Object | None:
    """Return the merge patch that sets ttlSecondsAfterFinished; None if it is unset or already applied."""
    desired = _mapping(job_set["metadata"].get("annotations")).get(TTL_ANNOTATION, "")
    if job_set["spec"].get(_TTL) is not None or not str(desired).isdecimal():
        return None
    return {"metadata": {"uid": uid_of(job_set)}, "spec": {_TTL: min(int(desired), 2**31 - 1)}}


def same_immutable_fields(rendered: Object, stored: Object) -> bool:
    """Return whether a rendered JobSet has the same immutable fields as the stored one.

    Compares the digest of the previous rendering. Without a digest, the rendered fields must be a subset of the stored
    ones, so that defaults of JobSet and Kubernetes are not differences.
    """
    before = _mapping(stored["metadata"].get("annotations")).get(FROZEN_DIGEST)
    if before is not None:
        return bool(before == _digest(rendered["spec"]))
    return _is_subset(_immutable_fields(rendered["spec"]), _immutable_fields(stored["spec"]))


def resume_patch(rendered: Object, stored: Object, train_job: Object, *, changes: bool) -> Object:
    """Return the merge patch that resumes a stored JobSet.

    Parameters
    ----------
    rendered
        The rendered JobSet.
    stored
        The complete stored JobSet; its resourceVersion is a precondition of the patch.
    changes
        Whether to update the mutable fields to the rendered ones.
    """
    metadata: Object = {"uid": uid_of(stored), "resourceVersion": stored["metadata"]["resourceVersion"]}
    patch: Object = {"metadata": metadata, "spec": {"suspend": False}}
    metadata["labels"] = {TRAIN_JOB_LABEL: train_job["metadata"]["name"]}
    if not changes:
        return patch
    metadata["labels"] = {**(rendered["metadata"].get("labels") or {}), **metadata["labels"]}
    annotations = {**(rendered["metadata"].get("annotations") or {}), **with_parts(rendered, stored)}
    if annotations:
        metadata["annotations"] = annotations
    patch["spec"]["replicatedJobs"] = _with_mutable_parts(stored["spec"], rendered["spec"])
    return patch


def _with_mutable_parts(stored: Object, rendered: Object) -> list[Object]:
    desired = {job["name"]: job["template"]["spec"]["template"] for job in rendered["replicatedJobs"]}
    return [_with_pod_parts(job, desired.get(job["name"])) for job in stored["replicatedJobs"]]


def _with_pod_parts(job: Object, desired: Object | None) -> Object:
    if desired is None:
        return job
    template = job["template"]
    pods = template["spec"]["template"]
    metadata = _replaced(_mapping(pods.get("metadata")), _mapping(desired.get("metadata")), _MUTABLE_METADATA)
    spec = _replaced(_mapping(pods.get("spec")), _mapping(desired.get("spec")), _MUTABLE_POD_FIELDS)
    pods = {**pods, "spec": spec, **({"metadata": metadata} if metadata else {})}
    return {**job, "template": {**template, "spec": {**template["spec"], "template": pods}}}


def _replaced(stored: Mapping[str, Any], desired: Mapping[str, Any], names: Sequence[str]) -> Object:
    kept = {name: value for name, value in stored.items() if name not in names}
    return kept | {name: desired[name] for name in names if desired.get(name)}


def _immutable_fields(spec: Object) -> Object:
    kept = {name: value for name, value in spec.items() if name not in ("suspend", _TTL, "replicatedJobs")}
    jobs: list[Object] = []
    for job in _sequence(spec.get("replicatedJobs")):
        job = _mapping(job)
        template = _mapping(job.get("template"))
        job_spec = _mapping(template.get("spec"))
        pods = _mapping(job_spec.get("template"))
        pods = {
            "metadata": _without(_mapping(pods.get("metadata")), _MUTABLE_METADATA),
            "spec": _without(_mapping(pods.get("spec")), _MUTABLE_POD_FIELDS),
        }
        jobs.append({**job, "template": {**template, "spec": {**job_spec, "template": pods}}})
    return {**kept, "replicatedJobs": jobs}


def _without(body: Mapping[str, Any], names: Sequence[str]) -> Object:
    return {name: value for name, value in body.items() if name not in names}


def _digest(spec: Object) -> str:
    text = orjson.dumps(_immutable_fields(spec), option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def _is_subset(desired: Any, stored: Any) -> bool:
    """Whether ``desired`` is a subset of ``stored``; empty values equal unset ones."""
    if desired in (None, {}, [], "", False):
        return stored in (None, {}, [], "", False) or isinstance(stored, dict | list)
    if isinstance(desired, dict):
        return isinstance(stored, dict) and all(_is_subset(value, stored.get(name)) for name, value in desired.items())
    if isinstance(desired, list):
        return (
            isinstance(stored, list)
            and len(desired) == len(stored)
            and all(_is_subset(one, other) for one, other in zip(desired, stored, strict=True))
        )
    return bool(desired == stored) or str(desired) == str(stored)


def _pod_templates(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for job in _sequence(spec.get("replicatedJobs")):
        template = _mapping(_mapping(job).get("template"))
        yield _mapping(_mapping(template.get("spec")).get("template"))


def _names_group(template: Mapping[str, Any]) -> bool:
    metadata = _mapping(template.get("metadata"))
    labels, annotations = _mapping(metadata.get("labels")), _mapping(metadata.get("annotations"))
    return names_group(labels, annotations)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()
