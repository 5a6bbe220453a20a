"""Gang, queue, priority and scheduler of the legacy job."""

from __future__ import annotations

from typing import Final

from trainyard import quantity
from trainyard.api import Body
from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.metadata import IN_QUEUE, OTHER_QUEUE_FIX
from trainyard.jobs.convert.part import Part
from trainyard.jobs.convert.source import LegacySource, Path, parts_of
from trainyard.jobs.render.gangs import GANGS
from trainyard.jobs.render.gangs.kai import KAI_QUEUE_LABEL
from trainyard.jobs.render.gangs.volcano_topology import NetworkTopology
from trainyard.jobs.render.result import COSCHEDULING_SCHEDULER

_DEFAULT_SCHEDULER: Final = "default-scheduler"
GANG_MESSAGE: Final = "the gang is all pods of the job"
COMPUTED_MESSAGE: Final = "minResources of the PodGroup, computed from the pods"
_GANGS: Final = {scheduler: gang.name for gang in GANGS.values() for scheduler in gang.schedulers}


def read_scheduling_policy(draft: Draft, path: str) -> None:
    """Read the scheduling policy of the training operator."""
    source = draft.source
    read_queue(draft, f"{path}.queue")
    read_priority(draft, f"{path}.priorityClass")
    read_min_available(draft, f"{path}.minAvailable")
    for name, amount in source.mapping(f"{path}.minResources").items():
        try:
            quantity.parse(amount)
        except (ValueError, TypeError) as error:
            raise source.malformed((*path.split("."), "minResources", name), f"must be an amount: {error}") from error
    source.changed(f"{path}.minResources", COMPUTED_MESSAGE)
    seconds = source.integer(f"{path}.scheduleTimeoutSeconds")
    if seconds is not None and "coscheduling" in draft.gang:
        draft.gang["coscheduling"] = {"scheduleTimeoutSeconds": seconds}
        source.same(f"{path}.scheduleTimeoutSeconds", "podGroupPolicy.coscheduling.scheduleTimeoutSeconds")
    else:
        message = "Volcano has no time limit for a gang that waits"
        source.lost(f"{path}.scheduleTimeoutSeconds", message, "suspend the TrainJob if it waits for too long")


def read_queue(draft: Draft, path: Path) -> None:
    """Read the queue."""
    queue = draft.source.text(path)
    if queue:
        draft.queue = queue
        draft.source.same(path, IN_QUEUE)
        draft.queue_path = path


def read_priority(draft: Draft, path: Path) -> None:
    """Read a priority class and set it on all pods, from which the gang inherits it."""
    source = draft.source
    name = source.text(path)
    if not name:
        return
    differing = []
    for part in draft.parts:
        if part.pod.setdefault("priorityClassName", name) != name:
            differing.append(part.name)
    if differing:
        message = f"not the priorityClassName of {', '.join(differing)}, whose pods name another"
        source.changed(path, message, "name one class: the gang takes that of its last part")
    else:
        source.same(path, "priorityClassName of the pods, and of the gang")


def read_min_available(draft: Draft, path: Path) -> None:
    """Read the gang size; the new gang is all pods, or the minimum of an elastic job."""
    source = draft.source
    least = source.integer(path)
    if least is None:
        return
    elastic = draft.policy.get("torch", {}).get("elasticPolicy")
    if elastic:
        source.changed(path, "the gang is minNodes of torch.elasticPolicy")
    elif least == draft.pods:
        source.same(path, GANG_MESSAGE)
    else:
        source.changed(path, GANG_MESSAGE, "use an elastic PyTorch runtime if it can start with fewer")


def read_topology(draft: Draft, path: str) -> None:
    """Read the network topology constraint."""
    topology = topology_of(draft.source, path, "podGroupPolicy.volcano.networkTopology")
    if topology is not None:
        draft.gang = {"volcano": {"networkTopology": topology}}


def topology_of(source: LegacySource, path: str, target: str) -> Body | None:
    """Return a network topology constraint for a runtime, or None if it is unset.

    Parameters
    ----------
    path
        Path of the constraint in the legacy job.
    target
        Path of the constraint in the runtime, for the notes.
    """
    asked = source.mapping(path)
    if not asked:
        return None
    mode = source.text(f"{path}.mode") or "hard"
    if mode not in ("hard", "soft"):
        raise source.malformed(f"{path}.mode", f"must be hard or soft, but is {mode!r}")
    tier, name = source.integer(f"{path}.highestTierAllowed"), source.text(f"{path}.highestTierName")
    topology: Body = {"mode": mode}
    if name is not None:
        topology["highestTierName"] = name
    else:
        default = NetworkTopology.model_fields["highest_tier_allowed"].default
        topology["highestTierAllowed"] = default if tier is None else tier
    for key in asked:
        own = (*parts_of(path), key)
        if key in ("mode", "highestTierAllowed", "highestTierName"):
            source.same(own, f"{target}.{key}")
        else:
            source.lost(own, "is not known here", "see docs/fabric.md for what limits a gang")
    if name is not None and tier is not None:
        source.changed(f"{path}.highestTierAllowed", "the tier's name counts")
    return topology


def read_schedulers(draft: Draft, job: str | None = None) -> None:
    """Read the scheduler; Volcano if unset or the default scheduler.

    Parameters
    ----------
    job
        Path of the job's scheduler; None if its kind has none.
    """
    named = [(_scheduler_path(draft, part), part) for part in draft.parts if "schedulerName" in part.pod]
    names = {part.pod["schedulerName"] for _, part in named}
    if job is not None and (name := draft.source.text(job)):
        names.add(name)
    gangs = sorted({_GANGS[name] for name in names if name in _GANGS})
    foreign = sorted(names - _GANGS.keys() - {_DEFAULT_SCHEDULER})
    draft.foreign_scheduler = next(iter(foreign), None)
    gang = next(iter(draft.gang))
    if names:
        gang = gangs[0] if len(gangs) == 1 and not foreign else "volcano"
    if gang not in draft.gang:
        draft.gang = {gang: {}}
    for path, part in named:
        _scheduler(draft, path, part, gang)
    if job is not None:
        _scheduler(draft, job, None, gang)
    if COSCHEDULING_SCHEDULER in names and gang == _GANGS[COSCHEDULING_SCHEDULER]:
        # The policy names no scheduler, because the default one can have the plug-in too.
        for part in draft.parts:
            part.pod["schedulerName"] = COSCHEDULING_SCHEDULER


def _scheduler_path(draft: Draft, part: Part) -> str:
    """Return where a role names its scheduler: in the pod template, or beside it."""
    beside = f"{part.role}.schedulerName"
    return beside if draft.source.peek(beside) is not None else f"{part.path}.spec.schedulerName"


def _scheduler(draft: Draft, path: str, part: Part | None, gang: str) -> None:
    name = draft.source.peek(path)
    if part is not None:
        del part.pod["schedulerName"]
        draft.source.forget(path)
    if name is not None and _GANGS.get(name) == gang:
        set_by = "and schedulerName of the pods" if name == COSCHEDULING_SCHEDULER else "which sets it"
        draft.source.same(path, f"podGroupPolicy.{gang}, {set_by}")
    else:
        fix = "" if name == _DEFAULT_SCHEDULER else f"see whether {gang} may place the job"
        draft.source.changed(path, f"{gang} places the gang", fix)


def place_queue(draft: Draft) -> None:
    """Set the queue in the form of the gang's scheduler; one of another scheduler may not be there."""
    if draft.queue_path is not None and draft.foreign_scheduler is not None:
        draft.source.forget(draft.queue_path)
        message = f"queue of that name for the new gang, in the place of {draft.foreign_scheduler}'s"
        draft.source.changed(draft.queue_path, message, OTHER_QUEUE_FIX)
    if "kai" in draft.gang and draft.queue is not None:
        draft.labels.setdefault(KAI_QUEUE_LABEL, draft.queue)
        draft.queue = None
