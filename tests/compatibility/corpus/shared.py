"""What the written cases share."""

from __future__ import annotations

from typing import Any

from tests.compatibility.corpus.case import (
    Body,
    Draft,
    container,
    replicated_job,
    runtime_spec,
    trainer,
)

TORCH: Body = {"mlPolicy": {"torch": {}}}
VOLCANO: Body = {"podGroupPolicy": {"volcano": {}}}
COSCHEDULING: Body = {"podGroupPolicy": {"coscheduling": {}}}


def torch_draft(name: str, spec: Body, *jobs: Body, policy: Body | None = None, **fields: Any) -> Draft:
    """Return a case of a torch runtime, by default one with nothing but the training container."""
    return Draft(name, runtime_spec(*(jobs or (trainer(),)), **{**TORCH, **(policy or {})}), spec, **fields)


def mpi_jobs(*, waits: bool = True, launcher: Body | None = None, node: Body | None = None) -> list[Body]:
    """Return the replicatedJobs of an MPI runtime."""
    ready = {"dependsOn": [{"name": "node", "status": "Ready"}]} if waits else {}
    return [
        replicated_job("node", containers=[node or container("node")]),
        replicated_job("launcher", ancestor="trainer", containers=[launcher or container("node")], **ready),
    ]
