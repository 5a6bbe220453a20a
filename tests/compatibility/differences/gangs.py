"""Differences in who belongs to the gang and what the PodGroup says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from tests.compatibility.compared_case import Scene, parallelism, pod
from tests.compatibility.corpus.case import QUEUE, Body
from tests.compatibility.differences.difference import Difference
from trainyard import quantity

_GROUP = "scheduling.k8s.io/group-name"
_SECOND_GROUP = "scheduling.volcano.sh/group-name"
_LABEL = "scheduling.x-k8s.io/pod-group"


@dataclass(frozen=True)
class _Rules:
    """Which of our rules of counting hold; with none of them it is upstream's way."""

    limits: bool = False
    replicas: bool = False
    members: bool = False
    waiting: bool = False


def _group(rules: _Rules) -> Callable[[Scene], None]:
    def change(scene: Scene) -> None:
        group = scene.pod_group
        if group is None:
            return
        waits = dict(_waits(scene))
        completed = {target for edges in waits.values() for target, status in edges if status == "Complete"}
        members = [job for job in scene.jobs if not (rules.members and job["name"] in completed)]
        names = {job["name"] for job in members}
        total: dict[str, Fraction] = {}
        least = 0
        for job in members:
            pods = parallelism(job) * (int(job.get("replicas", 1)) if rules.replicas else 1)
            if not (rules.waiting and _waits_for_ready(job["name"], waits, names)):
                least += pods
            for name, amount in _requests(pod(job)["spec"], limits=rules.limits).items():
                total[name] = total.get(name, Fraction(0)) + amount * pods
        group["spec"]["minMember"] = least
        group["spec"].pop("minResources", None)
        if total:
            group["spec"]["minResources"] = {name: str(amount) for name, amount in total.items()}
        if rules.members:
            _leave(scene, names)

    return change


def _leave(scene: Scene, members: set[str]) -> None:
    """Take the mark of the gang from the pods that are no members."""
    for job in scene.jobs:
        if job["name"] in members:
            continue
        metadata = pod(job).get("metadata", {})
        for kind, key in (("annotations", _GROUP), ("labels", _LABEL)):
            metadata.get(kind, {}).pop(key, None)
            if not metadata.get(kind, {"": ""}):
                del metadata[kind]
        if not metadata:
            pod(job).pop("metadata", None)


def _waits(scene: Scene) -> Iterator[tuple[str, set[tuple[str, str]]]]:
    ordered = (scene.job_set["spec"].get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
    before = {after["name"]: first["name"] for first, after in pairwise(scene.jobs)} if ordered else {}
    for job in scene.jobs:
        edges = {(entry["name"], entry["status"]) for entry in job.get("dependsOn", ())}
        if job["name"] in before:
            edges.add((before[job["name"]], "Ready"))
        yield job["name"], edges


def _waits_for_ready(name: str, waits: dict[str, set[tuple[str, str]]], members: set[str]) -> bool:
    return any(
        (status == "Ready" and target in members) or _waits_for_ready(target, waits, members)
        for target, status in waits[name]
    )


def _requests(spec: Body, *, limits: bool) -> dict[str, Fraction]:
    """Return what one pod asks for, as the scheduler counts it: init containers run before, sidecars beside."""
    total: dict[str, Fraction] = {}
    for entry in spec.get("containers", ()):
        _add(total, _asked(entry, limits=limits))
    sidecars: dict[str, Fraction] = {}
    highest: dict[str, Fraction] = {}
    for entry in spec.get("initContainers", ()):
        asked = _asked(entry, limits=limits)
        if entry.get("restartPolicy") == "Always":
            _add(sidecars, asked)
            _add(total, asked)
            asked = dict(sidecars)
        else:
            asked = {name: amount + sidecars.get(name, 0) for name, amount in asked.items()}
        for name, amount in asked.items():
            highest[name] = max(highest.get(name, Fraction(0)), amount)
    for name, amount in highest.items():
        total[name] = max(total.get(name, Fraction(0)), amount)
    whole = spec.get("resources") or {}
    for name, amount in (whole.get("requests") or {}).items():
        total[name] = _fraction(amount)
    if limits:
        # The defaults of the API server: a limit of the pod is its request where nothing else is.
        for name, amount in (whole.get("limits") or {}).items():
            total.setdefault(name, _fraction(amount))
    _add(total, {name: _fraction(amount) for name, amount in (spec.get("overhead") or {}).items()})
    return total


def _asked(entry: Body, *, limits: bool) -> dict[str, Fraction]:
    resources = entry.get("resources") or {}
    chosen = {**((resources.get("limits") or {}) if limits else {}), **(resources.get("requests") or {})}
    return {name: _fraction(amount) for name, amount in chosen.items()}


def _fraction(amount: str) -> Fraction:
    return Fraction(amount) if "/" in amount or amount.isdigit() else Fraction(quantity.parse(amount))


def _add(total: dict[str, Fraction], more: dict[str, Fraction]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Fraction(0)) + amount


def _scheduler(scene: Scene) -> None:
    if "volcano" in (scene.runtime_spec.get("podGroupPolicy") or {}):
        for job in scene.jobs:
            pod(job)["spec"].setdefault("schedulerName", "volcano")


def _second_group(scene: Scene) -> None:
    for job in scene.jobs:
        annotations = pod(job).get("metadata", {}).get("annotations", {})
        if _GROUP in annotations:
            annotations[_SECOND_GROUP] = annotations[_GROUP]


def _queue(scene: Scene) -> None:
    queue = scene.job_set["metadata"].get("annotations", {}).get(QUEUE)
    if queue and "volcano" in (scene.runtime_spec.get("podGroupPolicy") or {}):
        for job in scene.jobs:
            pod(job).setdefault("metadata", {}).setdefault("annotations", {})[QUEUE] = queue


GANGS: tuple[Difference, ...] = (
    Difference(
        "gang-limits",
        "`minResources` where containers have limits and no requests",
        "count as nothing",
        "count as requests",
        "the API server sets requests from limits (`limits: nvidia.com/gpu`)",
        objects=_group(_Rules(limits=True)),
    ),
    Difference(
        "gang-replicas",
        "`replicas` of a replicatedJob",
        "ignored",
        "pods of all replicas count",
        "pods beyond the minimum of the gang would be scheduled one by one",
        objects=_group(_Rules(limits=True, replicas=True)),
    ),
    Difference(
        "gang-members",
        "Members of the gang",
        "the pods of all replicatedJobs",
        "without steps that another depends on with status Complete",
        "a gang that counts pods which complete before others exist never starts",
        objects=_group(_Rules(limits=True, replicas=True, members=True)),
    ),
    Difference(
        "gang-waiting",
        "`minMember` where a member waits for another to be ready",
        "counts both",
        "excludes the one that waits; `minResources` covers both",
        "the pods of the waiting one do not exist yet when the gang is scheduled",
        objects=_group(_Rules(limits=True, replicas=True, members=True, waiting=True)),
    ),
    Difference(
        "scheduler-name",
        "`schedulerName` of Volcano gangs",
        "never set",
        "`volcano`, where the policy is set and the scheduler unset; for coscheduling only where the setting "
        "`trainer.coschedulingScheduler` names a scheduler",
        "the default scheduler ignores gangs",
        objects=_scheduler,
    ),
    Difference(
        "second-group-name",
        "Annotation with the name of the Volcano group",
        "`scheduling.k8s.io/group-name`",
        "`scheduling.volcano.sh/group-name` too",
        "Volcano's API has both names",
        objects=_second_group,
    ),
    Difference(
        "queue-on-pods",
        "Volcano queue",
        "on the JobSet and the PodGroup",
        "on the pod templates too; the tenant's default queue where unset",
        "pods outside the gang must be in the queue as well",
        objects=_queue,
    ),
)
