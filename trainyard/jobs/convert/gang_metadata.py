"""Labels and annotations of the legacy job that plug-ins of Volcano read from its PodGroup, or from its pods.

Volcano copies both to the PodGroup of its Job, and a few to the pods. The training operator and KubeRay copy
annotations to the PodGroup. That of a TrainJob has none: what a tenant writes there would reach the scheduler.
"""

from __future__ import annotations

from typing import Final

from trainyard.api.constants import KUEUE_QUEUE_LABEL
from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.render.gangs.kai import KAI_QUEUE_LABEL
from trainyard.jobs.render.pod_editing import section

_VOLCANO: Final = "batch.volcano.sh/"
_ON_PODS: Final = ("volcano.sh/cooldown-time", "volcano.sh/preemptable", "volcano.sh/revocable-zone")
_PRIORITY: Final = "set a priorityClassName"
_ELASTIC: Final = "use an elastic PyTorch runtime if the job can lose pods"
_AFFINITY: Final = "set affinity in the pod templates"
_IN_GROUP: Final = {
    "sla-waiting-time": _PRIORITY,
    "volcano.sh/jdb-max-unavailable": _ELASTIC,
    "volcano.sh/jdb-min-available": _ELASTIC,
    "volcano.sh/sla-waiting-time": _PRIORITY,
    "volcano.sh/task-topology-affinity": _AFFINITY,
    "volcano.sh/task-topology-anti-affinity": _AFFINITY,
    "volcano.sh/task-topology-task-order": "set dependsOn in the runtime's template",
    **dict.fromkeys(_ON_PODS, "set it in the metadata of the pod templates"),
}
_QUEUES: Final = (KUEUE_QUEUE_LABEL, KAI_QUEUE_LABEL)


def read_gang_metadata(draft: Draft) -> None:
    """Place or lose what Volcano's plug-ins read, and note that the PodGroup has no other metadata of the job."""
    if "volcano" not in draft.gang:
        return
    source = draft.source
    of_volcano = str(source.peek("apiVersion")).startswith(_VOLCANO)
    kinds = {"annotations": draft.annotations, **({"labels": draft.labels} if of_volcano else {})}
    for kind, entries in kinds.items():
        for key in [key for key in entries if source.peek(("metadata", kind, key)) is not None]:
            path = ("metadata", kind, key)
            if key in _QUEUES or not (of_volcano or key in _IN_GROUP):
                continue
            source.forget(path)
            if of_volcano and key in _ON_PODS:
                value = entries.pop(key)
                for part in draft.parts:
                    section(part.template, "metadata", kind)[key] = value
                source.changed(path, f"metadata.{kind} of the pods, as Volcano sets it: the PodGroup has none")
            elif key in _IN_GROUP:
                del entries[key]
                message = f"Volcano reads it from the PodGroup, which has no {kind} of the job"
                source.lost(path, message, _IN_GROUP[key])
            else:
                message = f"TrainJob metadata.{kind}: a plug-in that reads it from the PodGroup finds none"
                source.changed(path, message)
