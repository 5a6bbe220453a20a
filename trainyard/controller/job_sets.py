"""The JobSet of a TrainJob: its cached form, its creation, and its mutable fields.

JobSet lets a JobSet change its ``suspend`` and ``ttlSecondsAfterFinished`` at any time and, while it is suspended,
labels, annotations, nodeSelector, tolerations and schedulingGates of pod templates; everything else is frozen
(``pkg/webhooks/jobset_webhook.go``, ``ValidateUpdate``, JobSet 0.12).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from trainyard.controller.ownership import TRAIN_JOB_LABEL, kept_metadata, labeled
from trainyard.kube import Object, uid_of
from trainyard.render.gangs import names_group

__all__ = [
    "FROZEN_DIGEST",
    "TTL_ANNOTATION",
    "active_replicated_jobs",
    "as_created",
    "finish_patch",
    "resume_patch",
    "same_frozen",
    "summary",
    "suspend_patch",
    "take_over_patch",
]

FROZEN_DIGEST: Final = "trainyard.dev/frozen-digest"
"""Annotation: digest of the fields that JobSet makes immutable, as they were rendered."""
TTL_ANNOTATION: Final = "trainyard.dev/ttl-seconds-after-finished"
"""Annotation: the runtime's ttlSecondsAfterFinished, set on the JobSet once the TrainJob's end is recorded."""

_TTL: Final = "ttlSecondsAfterFinished"
_MUTABLE_METADATA: Final = ("labels", "annotations")
_MUTABLE_POD_FIELDS: Final = ("nodeSelector", "tolerations", "schedulingGates")


def summary(body: Object) -> Object:
    """Return what the controller keeps of a JobSet in memory; total, whatever the CRD admitted."""
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
    """Return a rendered JobSet as it is created.

    Its time to live becomes an annotation: JobSet's controller would delete the JobSet by it before its end is recorded
    on the TrainJob. A digest of the frozen part says later whether a new rendering differs.
    """
    body = labeled(rendered, train_job)
    spec = {name: value for name, value in body["spec"].items() if name != _TTL}
    annotations = {**(body["metadata"].get("annotations") or {}), FROZEN_DIGEST: _digest(rendered["spec"])}
    if body["spec"].get(_TTL) is not None:
        annotations[TTL_ANNOTATION] = str(body["spec"][_TTL])
    return {**body, "metadata": {**body["metadata"], "annotations": annotations}, "spec": spec}


def suspend_patch(job_set: Object) -> Object:
    """Return the merge patch that stops a JobSet, this incarnation only."""
    return {"metadata": {"uid": uid_of(job_set)}, "spec": {"suspend": True}}


def take_over_patch(job_set: Object, train_job: Object) -> Object:
    """Return the merge patch that makes a JobSet of another controller one of ours.

    The label brings it into the watch; its time to live waits in an annotation until its end is recorded.
    """
    metadata: Object = {"uid": uid_of(job_set), "labels": {TRAIN_JOB_LABEL: train_job["metadata"]["name"]}}
    patch: Object = {"metadata": metadata}
    ttl = _mapping(job_set.get("spec")).get(_TTL)
    if ttl is not None:
        metadata["annotations"] = {TTL_ANNOTATION: str(ttl)}
        patch["spec"] = {_TTL: None}
    return patch


def finish_patch(job_set: Object) -> Object | None:
    """Return the merge patch that lets JobSet delete a JobSet after its time to live, None where it has none."""
    wanted = _mapping(job_set["metadata"].get("annotations")).get(TTL_ANNOTATION, "")
    if job_set["spec"].get(_TTL) is not None or not str(wanted).isdecimal():
        return None
    return {"metadata": {"uid": uid_of(job_set)}, "spec": {_TTL: min(int(wanted), 2**31 - 1)}}


def same_frozen(rendered: Object, stored: Object) -> bool:
    """Return whether a rendering leaves the frozen part of a stored JobSet as it is.

    Decided by the digest of what was rendered before; for a JobSet without one, by whether everything that is rendered
    stands in the stored JobSet (defaults of JobSet and Kubernetes are no difference).
    """
    before = _mapping(stored["metadata"].get("annotations")).get(FROZEN_DIGEST)
    if before is not None:
        return bool(before == _digest(rendered["spec"]))
    return _within(_frozen(rendered["spec"]), _frozen(stored["spec"]))


def resume_patch(rendered: Object, stored: Object, train_job: Object, *, changes: bool) -> Object:
    """Return the merge patch that resumes a stored JobSet.

    Parameters
    ----------
    rendered
        The JobSet as it is rendered now.
    stored
        The whole JobSet, as it was read; the patch holds for this version only.
    changes
        Whether what JobSet lets change follows the rendering.
    """
    metadata: Object = {"uid": uid_of(stored), "resourceVersion": stored["metadata"]["resourceVersion"]}
    patch: Object = {"metadata": metadata, "spec": {"suspend": False}}
    metadata["labels"] = {TRAIN_JOB_LABEL: train_job["metadata"]["name"]}
    if not changes:
        return patch
    metadata["labels"] = {**(rendered["metadata"].get("labels") or {}), **metadata["labels"]}
    if annotations := rendered["metadata"].get("annotations"):
        metadata["annotations"] = dict(annotations)
    patch["spec"]["replicatedJobs"] = _with_mutable_parts(stored["spec"], rendered["spec"])
    return patch


def _with_mutable_parts(stored: Object, rendered: Object) -> list[Object]:
    wanted = {job["name"]: job["template"]["spec"]["template"] for job in rendered["replicatedJobs"]}
    return [_with_pod_parts(job, wanted.get(job["name"])) for job in stored["replicatedJobs"]]


def _with_pod_parts(job: Object, wanted: Object | None) -> Object:
    if wanted is None:
        return job
    template = job["template"]
    pods = template["spec"]["template"]
    metadata = _replaced(_mapping(pods.get("metadata")), _mapping(wanted.get("metadata")), _MUTABLE_METADATA)
    spec = _replaced(_mapping(pods.get("spec")), _mapping(wanted.get("spec")), _MUTABLE_POD_FIELDS)
    pods = {**pods, "spec": spec, **({"metadata": metadata} if metadata else {})}
    return {**job, "template": {**template, "spec": {**template["spec"], "template": pods}}}


def _replaced(stored: Mapping[str, Any], wanted: Mapping[str, Any], names: Sequence[str]) -> Object:
    kept = {name: value for name, value in stored.items() if name not in names}
    return kept | {name: wanted[name] for name in names if wanted.get(name)}


def _frozen(spec: Object) -> Object:
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
    text = orjson.dumps(_frozen(spec), option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def _within(wanted: Any, stored: Any) -> bool:
    """Whether every value of ``wanted`` stands in ``stored``; empty values equal absent ones."""
    if wanted in (None, {}, [], "", False):
        return stored in (None, {}, [], "", False) or isinstance(stored, dict | list)
    if isinstance(wanted, dict):
        return isinstance(stored, dict) and all(_within(value, stored.get(name)) for name, value in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(stored, list)
            and len(wanted) == len(stored)
            and all(_within(one, other) for one, other in zip(wanted, stored, strict=True))
        )
    return bool(wanted == stored) or str(wanted) == str(stored)


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
