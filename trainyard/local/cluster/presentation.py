"""Text tables of cluster status and toolchain."""

from __future__ import annotations

from collections.abc import Sequence

from trainyard.checks.printable_text import printable
from trainyard.local.cluster.provider import ClusterStatus
from trainyard.local.cluster.toolchain import ResolvedProgram

_MARKS = {"healthy": "✓", "not installed": "·", "starting": "…", "stopping": "…"}


def status_table(status: ClusterStatus) -> str:
    """Return the processes of a cluster as text."""
    if not status.processes:
        return f"Cluster {status.name}: {status.detail}"
    rows = [("", "process", "version", "address", "pid", "health")]
    rows += [
        (
            _MARKS.get(process.health, "✗"),
            process.name,
            process.version,
            process.address,
            str(process.pid or ""),
            process.health,
        )
        for process in status.processes
    ]
    lines = [f"Cluster {status.name}: {_summary(status)}", *_columns(rows)]
    for process in status.processes:
        if not process.ok and process.detail != process.health:
            lines += ["", f"{process.name}: {process.detail}", f"  log: {process.log}"]
    return "\n".join([*map(printable, lines), "", f"kubeconfig: {status.kubeconfig}"])


def _summary(status: ClusterStatus) -> str:
    if all(process.health == "stopped" for process in status.processes):
        return f"stopped; `trainyard cluster up --name {status.name}` starts it again"
    return "healthy" if status.healthy else "not healthy"


def toolchain_table(programs: Sequence[ResolvedProgram]) -> str:
    """Return programs with version, origin and path as text."""
    rows = [("program", "version", "from", "path")]
    rows += [(program.name, program.version, program.origin, str(program.path or "")) for program in programs]
    return "\n".join(_columns(rows))


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
