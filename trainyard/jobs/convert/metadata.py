"""Name, labels and annotations of the legacy job, including those of schedulers."""

from __future__ import annotations

import re
from typing import Final

from trainyard.api.constants import GROUP_NAME_ANNOTATION, KUEUE_QUEUE_LABEL, QUEUE_ANNOTATION
from trainyard.errors import TrainyardError
from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.part import Part, drop_empty_metadata
from trainyard.jobs.convert.source import LegacySource, parts_of
from trainyard.jobs.convert.template_fields import SERVER_FIELDS
from trainyard.jobs.render.gangs.kai import KAI_QUEUE_LABEL
from trainyard.jobs.render.jobset_rules import LONGEST_LABEL

POD_SUFFIX: Final = len("-abcde")
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_QUEUES: Final = ("volcano.sh/queue-name", QUEUE_ANNOTATION)
_FOREIGN_QUEUES: Final = ("yunikorn.apache.org/queue", "yunikorn.apache.org/queue-name")
_OF_STORAGE: Final = "belongs to the stored old job"
_GROUPS: Final = (
    GROUP_NAME_ANNOTATION,
    "pod-group.scheduling.sigs.k8s.io",
    "scheduling.volcano.sh/group-min-member",
    "scheduling.volcano.sh/group-min-resources",
    "scheduling.volcano.sh/group-name",
    "scheduling.x-k8s.io/pod-group",
)
_GROUP_PREFIXES: Final = (
    "kueue.x-k8s.io/pod-group-",
    "kueue.x-k8s.io/pod-suspending-",
    "pod-group.scheduling.sigs.k8s.io/",
    "yunikorn.apache.org/",
)
"""Settings of a gang that a scheduler reads from labels or annotations."""
_OWN_GROUP: Final = "the TrainJob's own PodGroup"
_LEFT_OUT: Final = "(left out)"
IN_QUEUE: Final = "queue of the gang: an annotation of the JobSet, for KAI a label"
_OTHER_QUEUE: Final = "queue of Volcano of this name, in the place of YuniKorn's"
OTHER_QUEUE_FIX: Final = "make it, or name another one"


def job_name(source: LegacySource) -> str:
    """Read the name of the legacy job and return a valid TrainJob name."""
    name = source.text("metadata.name")
    if name is None:
        prefix = source.text("metadata.generateName")
        if not prefix:
            raise TrainyardError(f"{source.label}: metadata.name is missing", fix="name the job")
        name = prefix.rstrip("-")
        source.changed(
            "metadata.generateName", "a TrainJob's objects need its name: it is fixed", "give each job a name"
        )
    valid = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")
    valid = valid if valid[:1].isalpha() else f"job-{valid}".rstrip("-")
    if valid == name:
        source.same("metadata.name", "TrainJob metadata.name")
    else:
        source.changed("metadata.name", "a TrainJob's name is a DNS label", "look for references to the old name")
    return valid


def room_for_name(draft: Draft) -> int:
    """Return the maximum length of the name, which is part of all pod names."""
    ends = [f"-{part.name}-{part.replicas - 1}-{_most(draft, part) - 1}" for part in draft.parts]
    claims = [
        len(f"{claim['metadata']['name']}-")
        for policy in draft.job_set.get("volumeClaimPolicies", ())
        for claim in policy["templates"]
    ]
    taken = [*(len(end) + POD_SUFFIX for end in ends), *claims]
    return LONGEST_LABEL - max(taken, default=0)


def read_metadata(draft: Draft) -> None:
    """Read labels and annotations, including the queue."""
    source = draft.source
    source.take("apiVersion")
    source.take("kind")
    source.same("metadata.namespace", "namespace of all objects")
    source.text("metadata.namespace")
    source.leave_out([f"metadata.{name}" for name in SERVER_FIELDS], f"left out: {_OF_STORAGE}")
    source.leave_out(["status"], "left out: the state of the old job")
    for name in ("ownerReferences", "finalizers"):
        source.lost(f"metadata.{name}", "is not carried over: it would hold the new job", "add it by hand")
    for kind, entries in (("labels", draft.labels), ("annotations", draft.annotations)):
        for key, value in source.texts(f"metadata.{kind}").items():
            path = ("metadata", kind, key)
            if key == _APPLIED:
                # The text repeats the whole object, with whatever other notes leave out.
                source.body["metadata"][kind][key] = _LEFT_OUT
                source.same(path, f"left out: {_OF_STORAGE}")
            elif key in _QUEUES:
                draft.queue = value
                source.changed(path, IN_QUEUE)
            elif key in _FOREIGN_QUEUES:
                draft.queue = value
                source.changed(path, _OTHER_QUEUE, OTHER_QUEUE_FIX)
            elif _is_group(key):
                source.changed(path, _OWN_GROUP)
            else:
                entries[key] = value
                source.same(path, f"TrainJob metadata.{kind}")
    if KAI_QUEUE_LABEL in draft.labels:
        draft.gang = {"kai": {}}
    if KUEUE_QUEUE_LABEL in draft.labels:
        source.forget(("metadata", "labels", KUEUE_QUEUE_LABEL))
        source.same(("metadata", "labels", KUEUE_QUEUE_LABEL), "Kueue reads it from the TrainJob as well")


def read_pod_annotations(draft: Draft, part: Part) -> None:
    """Remove gang settings from the annotations of a pod template."""
    metadata = part.template.get("metadata", {})
    source = draft.source
    for kind in ("annotations", "labels"):
        entries = metadata.get(kind, {})
        for key in [key for key in entries if key not in part.known_labels]:
            queue = key in (*_QUEUES, *_FOREIGN_QUEUES)
            if not queue and key != KUEUE_QUEUE_LABEL and not _is_group(key):
                continue
            path = _written_at(source, part, kind, key)
            if key == KUEUE_QUEUE_LABEL:
                # Kueue would count each pod beside the job.
                draft.labels.setdefault(key, entries.pop(key))
                source.changed(path, "label of the TrainJob, which Kueue counts as a whole")
                continue
            value = entries.pop(key)
            if not queue:
                source.changed(path, _OWN_GROUP)
            elif draft.queue is not None:
                source.changed(path, "the queue of the job counts for all its pods")
            else:
                draft.queue = value
                foreign = key in _FOREIGN_QUEUES
                source.changed(path, _OTHER_QUEUE if foreign else IN_QUEUE, OTHER_QUEUE_FIX if foreign else "")
    drop_empty_metadata(part)


def _written_at(source: LegacySource, part: Part, kind: str, key: str) -> tuple[str | int, ...]:
    """Return where the job has a label or annotation of a pod: in its template, beside it, or in Spark's settings."""
    conf = ("spec", "sparkConf", f"spark.kubernetes.{part.name}.{kind.removesuffix('s')}.{key}")
    places = ((*parts_of(part.role), kind, key), conf)
    found = next((path for path in places if source.peek(path) is not None), None)
    if found is None:
        return (*parts_of(part.path), "metadata", kind, key)
    source.forget(found)
    return found


def _is_group(key: str) -> bool:
    return key in _GROUPS or key.startswith(_GROUP_PREFIXES)


def _most(draft: Draft, part: Part) -> int:
    return max(part.pods, draft.nodes or 1) if part.trains else part.pods
