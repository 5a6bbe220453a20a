"""Masters and workers whose programs are told a rank.

Where both have one template they are the nodes of one replicatedJob, of which the first was the master: the framework
of the trainer API then says who is who. Where they differ, they stay two replicatedJobs, and every pod is a Job of its
own, since the index of a Job among all Jobs is the only rank that counts on over replicatedJobs.
"""

from __future__ import annotations

from typing import Final

from trainyard.api.constants import CONTAINER_NODE
from trainyard.convert.draft import Draft
from trainyard.convert.note import Note, Severity
from trainyard.convert.part import Part

__all__ = ["MASTER", "WORKER", "merge"]

MASTER: Final = "master"
WORKER: Final = "worker"
_FIRST_MESSAGE: Final = "the first of the nodes is the master; the job has succeeded when all nodes have"


def merge(draft: Draft, master: Part | None, worker: Part | None) -> Part | None:
    """Return the nodes where one template serves all; None where master and workers stay apart.

    Parameters
    ----------
    master, worker
        The roles with their restart policies applied; one of them may be missing.
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
        note = Note(f"{master.role}.replicas", master.pods, Severity.CHANGED, _FIRST_MESSAGE)
        source.notes.append(note)
    kept.name, kept.pods = CONTAINER_NODE, total
    draft.nodes = total
    draft.train(kept)
    return kept


def _separate(draft: Draft, master: Part, worker: Part) -> None:
    master.name, worker.name = MASTER, WORKER
    for part in (master, worker):
        part.replicas, part.pods = part.pods, 1
    draft.parts.remove(master)
    draft.parts.insert(0, master)
    draft.nodes = 1
    draft.train(master)


def _alike(one: Part, other: Part) -> bool:
    return one.template == other.template and one.job == other.job and one.main == other.main
