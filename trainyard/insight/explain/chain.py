"""Chain of an explanation: the objects from the job to its pods and events, with the state of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from trainyard.checks.report.text import counted, listed
from trainyard.cluster_state.body_fields import Body, condition, mapping, name_of, namespace_of, sequence, text, whole
from trainyard.cluster_state.cluster_index import kind_of
from trainyard.cluster_state.observed import Kind
from trainyard.insight.explain.fabric_limits import fabric_limits
from trainyard.insight.explain.job_state import ExplainedState, JobState
from trainyard.insight.explain.named_objects import short_kind
from trainyard.scheduling.queues.amounts import text as amount_text
from trainyard.scheduling.queues.queue import ROOT

_SHOWN: Final = 5
_NOT_READ: Final = "may not be read"
_TYPES: Final = ("Complete", "Completed", "Failed", "Suspended", "StartupPolicyCompleted")


@dataclass(frozen=True)
class Link:
    """One step of a chain.

    Parameters
    ----------
    step
        What was looked at: ``TrainJob``, ``admission``, ``JobSet``, ``Jobs``, ``PodGroup``, ``queue``, ``nodes``,
        ``fabric``, ``pods``, ``events``.
    object
        Names of the objects.
    state
        Their state, in words.
    """

    step: str
    object: str
    state: str

    def as_json(self) -> dict[str, str]:
        """Return it as JSON values."""
        return {"step": self.step, "object": self.object, "state": self.state}


def chain_of(job_state: JobState) -> list[Link]:
    """Return what an explanation looked at, from the job to its events."""
    return list(_links(job_state))


def _links(job_state: JobState) -> Iterator[Link]:
    root = job_state.root
    yield Link(short_kind(job_state.kind), _name(root), _conditions(root) or job_state.state.value)
    if job_state.train_job is not None:
        reference = mapping(root, "spec", "runtimeRef")
        yield Link("runtime", text(reference, "name"), _runtime(job_state, reference))
        refused = _warnings(job_state, root) if job_state.job_set is None and job_state.reads(Kind.JOB_SET) else ""
        yield Link("admission", "webhook and policies", refused or "accepted it")
        if job_state.job_set is None:
            yield Link("JobSet", "", "does not exist" if job_state.reads(Kind.JOB_SET) else _NOT_READ)
    if job_state.job_set is not None and job_state.job_set is not root:
        restarts = whole(job_state.job_set, "status", "restarts")
        state = _conditions(job_state.job_set) or "not finished"
        yield Link("JobSet", _name(job_state.job_set), state + (f", {restarts} restarts" if restarts else ""))
    if job_state.jobs and job_state.jobs[0] is not root:
        yield Link("Jobs", listed([name_of(body) for body in job_state.jobs], _SHOWN), _job_states(job_state))
    elif not job_state.jobs and job_state.kind in (Kind.TRAIN_JOB, Kind.JOB_SET) and not job_state.reads(Kind.JOB):
        yield Link("Jobs", "", _NOT_READ)
    yield from _scheduling(job_state)
    yield Link("pods", listed([name_of(body) for body in job_state.pods], _SHOWN), _pod_states(job_state))
    yield Link("events", "", _events(job_state))


def _scheduling(job_state: JobState) -> Iterator[Link]:
    group = job_state.pod_group
    if group is not None:
        least, phase = whole(group, "spec", "minMember"), text(group, "status", "phase") or "no phase"
        yield Link("PodGroup", _name(group), f"{phase}, starts with {counted(least, 'pod')} at once")
    if job_state.queue:
        if not job_state.index.knows(Kind.QUEUE):
            yield Link("queue", job_state.queue, _NOT_READ)
        else:
            yield Link("queue", " < ".join((*job_state.view.shares.chain(job_state.queue), ROOT)), _queue(job_state))
    if job_state.ended or job_state.state is ExplainedState.SUSPENDED:
        return
    if not job_state.index.knows(Kind.NODE):
        yield Link("nodes", "", _NOT_READ)
        return
    nodes = job_state.view.table.nodes.values()
    usable = sum(node.usable for node in nodes)
    devices: Counter[str] = Counter()
    for node in nodes:
        if node.usable:
            devices.update({name: max(0, free) for name, free in node.free.items() if "/" in name})
    free = ", ".join(f"{amount_text(name, amount)} {name} free" for name, amount in sorted(devices.items()))
    if not job_state.view.table.knows_free:
        free = f"free resources unknown (Pod {_NOT_READ})"
    takes = f"{usable} take{'s' if usable == 1 else ''} pods"
    yield Link("nodes", counted(len(nodes), "node"), takes + (f", {free}" if free else ""))
    for limit in fabric_limits(job_state):
        what = f"subgroup {limit.subgroup}" if limit.subgroup else "the gang"
        domains = job_state.view.table.allowed_domains(limit.topology)
        if domains is None:
            yield Link("fabric", "no limit", f"{what} may use all nodes")
            continue
        names = ", ".join(each.name for each in domains[:_SHOWN])
        yield Link("fabric", names, f"{counted(len(domains), 'domain') if domains else 'no domain'} may hold {what}")


def _queue(job_state: JobState) -> str:
    shares, queue = job_state.view.shares, job_state.queue
    usage = shares.usage.get(queue) if not shares.fault else None
    if shares.fault:
        return shares.fault
    if usage is None:
        return "does not exist"
    parts = [usage.state.lower() or "no state"]
    devices = sorted(name for name in {*usage.deserved, *usage.used, *usage.limit} if "/" in name) or ["cpu"]
    for name in devices[:2]:
        used, deserved = usage.used.get(name, 0), usage.deserved.get(name)
        share = f" of {amount_text(name, deserved)} deserved" if deserved is not None else ""
        limit = f", at most {amount_text(name, usage.limit[name])}" if name in usage.limit else ""
        parts.append(f"{amount_text(name, used)}{share} {name} used{limit}")
    return ", ".join(parts)


def _name(body: Body) -> str:
    namespace = namespace_of(body)
    return f"{namespace}/{name_of(body)}" if namespace else name_of(body)


def _conditions(body: Body) -> str:
    found = (condition(body, kind) for kind in _TYPES)
    return ", ".join(f"{text(each, 'type')} ({text(each, 'reason')})" for each in found if each is not None)


def _runtime(job_state: JobState, reference: Body) -> str:
    namespaced = text(reference, "kind") == "TrainingRuntime"
    kind = Kind.RUNTIME if namespaced else Kind.CLUSTER_RUNTIME
    if not job_state.index.knows(kind):
        return _NOT_READ
    found = job_state.index.find(kind, text(reference, "name"), job_state.namespace if namespaced else "")
    return "does not exist" if found is None else "exists"


def _job_states(job_state: JobState) -> str:
    counts: Counter[str] = Counter()
    for job in job_state.jobs:
        ended = _conditions(job)
        counts[ended or ("suspended" if mapping(job, "spec").get("suspend") is True else "active")] += 1
    return ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))


def _pod_states(job_state: JobState) -> str:
    counts: Counter[str] = Counter()
    if not job_state.pods and not job_state.reads(Kind.POD):
        return _NOT_READ
    for pod in job_state.pods:
        placed = "placed" if text(pod, "spec", "nodeName") else "without a node"
        waiting = next(
            (
                reason
                for status in sequence(pod, "status", "containerStatuses")
                if (reason := text(status, "state", "waiting", "reason"))
            ),
            "",
        )
        counts[f"{text(pod, 'status', 'phase') or 'Pending'} {placed}" + (f" ({waiting})" if waiting else "")] += 1
    return ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "no pod exists"


def _warnings(job_state: JobState, body: Body) -> str:
    found = [each for each in job_state.index.events(body) if text(each, "type") == "Warning"]
    return f"{text(found[-1], 'reason')}: {text(found[-1], 'message')[:200]}" if found else ""


def _events(job_state: JobState) -> str:
    if not job_state.index.knows(Kind.EVENT):
        return _NOT_READ
    bodies = [
        job_state.root,
        job_state.job_set,
        *job_state.jobs[:_SHOWN],
        job_state.pod_group,
        *job_state.pods[:_SHOWN],
    ]
    found: Counter[str] = Counter()
    for body in {id(each): each for each in bodies if each is not None}.values():
        for event in job_state.index.events(body):
            if text(event, "type") != "Normal":
                found[f"{kind_of(body).partition('.')[0]} {text(event, 'reason')}"] += max(1, whole(event, "count"))
    return ", ".join(f"{reason} ({count})" for reason, count in found.most_common(_SHOWN)) or "no warning"
