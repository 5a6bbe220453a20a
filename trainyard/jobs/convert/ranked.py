"""Masters and workers with a rank.

If both have the same template, they are the nodes of one replicatedJob, the first of which is the master, and the
framework of the trainer API sets the ranks. If the templates differ, they are two replicatedJobs, in which every pod is
a separate Job: only the global job index continues across replicatedJobs.
"""

from __future__ import annotations

from typing import Final

from trainyard.api.constants import CONTAINER_NODE
from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.field_finding import Fidelity, FieldFinding
from trainyard.jobs.convert.operator_roles import Roles
from trainyard.jobs.convert.part import Part
from trainyard.jobs.convert.variables import note_legacy_hosts

_MASTER: Final = "master"
_WORKER: Final = "worker"
_FIRST_MESSAGE: Final = "the first of the nodes is the master; the job has succeeded when all nodes have"


def read_ranked(draft: Draft, roles: Roles) -> tuple[Part | None, Part | None]:
    """Read master and workers as parts; at least one has pods, and a master has exactly one."""
    master = roles.read(draft, "Master", _MASTER)
    worker = roles.read(draft, "Worker", _WORKER)
    if master is None and worker is None:
        raise draft.source.malformed(roles.path, "has neither a Master nor a Worker with pods")
    if master is not None and master.pods != 1:
        raise draft.source.malformed(f"{master.role}.replicas", f"must be 1, but is {master.pods}")
    return master, worker


def merge(draft: Draft, master: Part | None, worker: Part | None) -> Part | None:
    """Return the nodes if the templates are equal; None if master and workers stay separate.

    Parameters
    ----------
    master, worker
        The roles with restart policies applied; one of them may be None.
    """
    if master is not None and worker is not None and not _alike(master, worker):
        _separate(draft, master, worker)
        return None
    kept = master or worker
    if kept is None:
        return None
    total = sum(part.pods for part in (master, worker) if part is not None)
    if master is not None and worker is not None:
        draft.parts.remove(worker)
        source = draft.source
        source.same(worker.path, "the same template as the master's")
        note = FieldFinding.of(f"{master.role}.replicas", master.pods, Fidelity.CHANGED, _FIRST_MESSAGE)
        source.notes.append(note)
    kept.name, kept.pods = CONTAINER_NODE, total
    draft.nodes = total
    draft.train(kept)
    return kept


def note_former_hosts(draft: Draft) -> None:
    """Note uses of the legacy operator's host names of master and workers, which no longer exist."""
    old = [f"{draft.source.peek('metadata.name')}-{role}-" for role in (_MASTER, _WORKER)]
    for part in draft.parts:
        note_legacy_hosts(draft.source, part, old, draft.parts[0].first_host(draft.name))


def _separate(draft: Draft, master: Part, worker: Part) -> None:
    master.name, worker.name = _MASTER, _WORKER
    for part in (master, worker):
        part.replicas, part.pods = part.pods, 1
    draft.parts.remove(master)
    draft.parts.insert(0, master)
    draft.nodes = 1
    draft.train(master)


def _alike(one: Part, other: Part) -> bool:
    """Return whether two roles can be one; each counts its pods from 0 where the job names an index label."""
    if one.index_labels or other.index_labels:
        return False
    return one.template == other.template and one.job == other.job and one.main == other.main
