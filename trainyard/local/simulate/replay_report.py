"""Report of a replay as text, JSON or HTML: the jobs and the results of expectations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainyard.checks.printable_text import printable
from trainyard.local.simulate.clock import shown
from trainyard.local.simulate.replay import Replay
from trainyard.local.simulate.replay_svg import draw
from trainyard.local.simulate.timeline import JobPhase
from trainyard.svg import escaped


def as_text(replay: Replay) -> str:
    """Return a table of the jobs and the expectations."""
    rows = [("JOB", "QUEUE", "PODS", "ARRIVED", "STARTED", "WAITED", "RESTARTS", "STATE"), *_rows(replay)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [replay.scenario.file.title, ""]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.append("")
    for result in replay.results:
        if result.holds:
            lines.append(f"✓ {result.instant}: {result.expected}")
        else:
            lines.append(f"✗ {result}")
    failed = sum(not result.holds for result in replay.results)
    count = len(replay.results)
    lines.append(f"{count - failed} of {count} expectations hold" if failed else f"{count} expectations hold")
    return "\n".join(map(printable, lines))


def as_json(replay: Replay) -> dict[str, Any]:
    """Return jobs, pod runs and results of expectations; times are seconds of scenario time."""
    seen = replay.timeline
    return {
        "scenario": replay.scenario.name,
        "ok": replay.holds,
        "seconds": seen.now,
        "jobs": [
            {
                "name": name,
                "queue": job.queue,
                "pods": job.pods,
                "arrived": job.arrival,
                "started": seen.started(name),
                "waited": _waited(replay, name),
                "restarts": seen.restarts(name),
                "state": str(seen.state(name)),
            }
            for name, job in seen.jobs.items()
        ],
        "runs": [
            {"job": run.job, "node": run.node, "began": run.began, "ended": run.ended, "ending": str(run.ending)}
            for run in seen.runs
        ],
        "expectations": [
            {
                "path": result.path,
                "instant": result.instant,
                "expected": result.expected,
                "observed": result.observed,
                "holds": result.holds,
            }
            for result in replay.results
        ],
    }


def as_page(replay: Replay) -> str:
    """Return a self-contained HTML page with the drawing and the table of jobs."""
    rows = _rows(replay)
    head = ("Job", "Queue", "Pods", "Arrived", "Started", "Waited", "Restarts", "State")
    table = "\n".join(f"<tr>{''.join(f'<td>{escaped(cell)}</td>' for cell in row)}</tr>" for row in rows)
    title, about = escaped(replay.scenario.file.title), escaped(replay.scenario.file.about)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 14px system-ui, sans-serif; margin: 2em auto; max-width: 1240px; color: #222 }}
svg {{ max-width: 100%; height: auto }}
table {{ border-collapse: collapse; margin: 1em 0 }}
td, th {{ border-bottom: 1px solid #ddd; padding: 3px 12px 3px 0; text-align: left }}
</style></head><body>
<p>{about}</p>
{draw(replay)}
<table><tr>{"".join(f"<th>{name}</th>" for name in head)}</tr>
{table}
</table></body></html>
"""


def _rows(replay: Replay) -> Sequence[tuple[str, ...]]:
    seen, rows = replay.timeline, []
    for name, job in seen.jobs.items():
        started = seen.started(name)
        begun = "never" if started is None else shown(started)
        waited = shown(_waited(replay, name))
        state, restarts = seen.state(name), str(seen.restarts(name))
        if state is JobPhase.PARTIAL:
            state_text = f"{state}: {len(seen.places(name))} of {job.min_member}"
        else:
            state_text = str(state)
        pods = str(job.pods) if job.pods == job.min_member else f"{job.min_member}/{job.pods}"
        rows.append((name, job.queue, pods, shown(job.arrival), begun, waited, restarts, state_text))
    return rows


def _waited(replay: Replay, name: str) -> int:
    seen = replay.timeline
    return sum((seen.now if wait.ended is None else wait.ended) - wait.began for wait in seen.waits if wait.job == name)
