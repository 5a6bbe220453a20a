"""Runtimes in which a launcher starts the processes over SSH."""

from __future__ import annotations

from typing import Any

from tests.render.builders import container, replicated_job, runtime
from trainyard.api import Body


def launcher(**fields: Any) -> Body:
    return replicated_job(
        "launcher",
        **{
            "ancestor": "trainer",
            "containers": [container("node")],
            "dependsOn": [{"name": "node", "status": "Ready"}],
            **fields,
        },
    )


def node(**fields: Any) -> Body:
    return replicated_job("node", **{"containers": [container("node", command=["/usr/sbin/sshd"])], **fields})


def launched(
    *jobs: Body,
    framework: str = "mpi",
    nodes: int | None = 1,
    jobset: Body | None = None,
    gang: Body | None = None,
    **policy: Any,
) -> Any:
    """Return a runtime of an MPI-like framework; without jobs, the two that upstream's runtimes have."""
    ml_policy = {framework: policy, **({} if nodes is None else {"numNodes": nodes})}
    spec = {"podGroupPolicy": gang} if gang else {}
    return runtime(*(jobs or (node(), launcher())), mlPolicy=ml_policy, jobset=jobset or {}, **spec)
