"""Report of a plan: text, Markdown for a pull request, or JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainyard.checks.printable_text import markdown, printable
from trainyard.scheduling.queues.amounts import text
from trainyard.scheduling.queues.plan import JobChange, Plan, PlannedEffect, QueueChange, ShareChange
from trainyard.scheduling.queues.queued_gangs import QueuedJob

_SHOWN = 50
"""Number of jobs listed per effect; the others are counted."""


def as_text(plan: Plan) -> str:
    """Return a plan as text for a terminal."""
    if not plan.queues:
        return "No queue changes."
    lines = ["Shares"]
    for queue in plan.queues:
        lines.append(f"  {_title(queue)}")
        lines += [f"    {_sign(share)} {share}" for share in queue.shares]
        lines += [f"    ~ {word}" for word in queue.words]
    lines += ["", _counted(plan)]
    for effect in PlannedEffect:
        found = [change for change in plan.jobs if change.effect is effect]
        lines += [
            f"  {change.job.name} in {change.job.queue} ({_request(change.job)}) {change}" for change in found[:_SHOWN]
        ]
        if len(found) > _SHOWN:
            lines.append(f"  and {len(found) - _SHOWN} more: {effect.value}")
    lines += _estimates(plan)
    return "\n".join(map(printable, lines))


def as_markdown(plan: Plan) -> str:
    """Return a plan as Markdown for a comment on a pull request."""
    if not plan.queues:
        return "No queue changes."
    lines = ["### Shares", "", "| Queue | Used by | Change | Before | After |", "| --- | --- | --- | --- | --- |"]
    for queue in plan.queues:
        lines += [_row(queue, row) for row in _rows(queue)]
    lines += ["", f"### {_counted(plan)}"]
    if plan.jobs:
        lines += ["", "| Job | Queue | Needs | Effect |", "| --- | --- | --- | --- |"]
    for effect in PlannedEffect:
        found = [change for change in plan.jobs if change.effect is effect]
        lines += [_job_row(change) for change in found[:_SHOWN]]
        if len(found) > _SHOWN:
            lines.append(f"| {len(found) - _SHOWN} more | | | {effect.value} |")
    if plan.estimates:
        lines += ["", *_estimates(plan)]
    return "\n".join(lines)


def as_json(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON values: changed ``queues`` and ``jobs``, and the numbers of jobs and of estimates."""
    return {
        "queues": [
            {
                "queue": each.queue,
                "tenants": list(each.tenants),
                "change": each.change,
                "shares": [_share(share) for share in each.shares],
                "fields": list(each.words),
            }
            for each in plan.queues
        ],
        "jobs": [
            {
                "job": each.job.name,
                "queue": each.job.queue,
                "effect": each.effect.value,
                "reason": each.reason,
                "lost": each.lost,
                "estimate": each.estimate or None,
            }
            for each in plan.jobs
        ],
        "running": plan.running,
        "waiting": plan.waiting,
        "estimates": dict(sorted(plan.estimates.items())),
    }


def _title(queue: QueueChange) -> str:
    users = f" (used by {', '.join(queue.tenants)})" if queue.tenants else ""
    return f"{queue.queue}{users} is {queue.change}"


def _sign(share: ShareChange) -> str:
    return "+" if share.gains else "-"


def _counted(plan: Plan) -> str:
    jobs = f"the {plan.running + plan.waiting} jobs ({plan.running} running, {plan.waiting} waiting)"
    if not plan.running and not plan.waiting:
        return "No jobs were checked"
    if not plan.jobs:
        return f"No effect on {jobs}"
    return f"Effects on {len(plan.jobs)} of {jobs}"


def _estimates(plan: Plan) -> list[str]:
    number, reasons = sum(plan.estimates.values()), sorted(plan.estimates)
    if not number:
        return []
    return [f"{number} of {plan.running + plan.waiting} forecasts are estimates: {'; '.join(reasons)}"]


def _request(job: QueuedJob) -> str:
    return ", ".join(f"{text(name, amount)} {name}" for name, amount in sorted(job.request.items())) or "none counted"


def _rows(queue: QueueChange) -> Iterator[tuple[str, str, str]]:
    if not queue.shares and not queue.words:
        yield queue.change, "", ""
    for share in queue.shares:
        before, _, after = str(share).removeprefix(f"{share.kind} {share.resource} ").partition(" → ")
        before, after = markdown(before), markdown(after)
        yield markdown(f"{share.kind} {share.resource}"), before, f"**{after}**" if share.gains else after
    for word in queue.words:
        field, _, values = word.partition(" ")
        before, _, after = values.partition(" → ")
        yield markdown(field), markdown(before), markdown(after)


def _row(queue: QueueChange, row: tuple[str, str, str]) -> str:
    name = queue.queue if queue.change == "changed" else f"{queue.queue} ({queue.change})"
    return "| " + " | ".join((markdown(name), markdown(", ".join(queue.tenants)), *row)) + " |"


def _job_row(change: JobChange) -> str:
    cells = (change.job.name, change.job.queue, _request(change.job), str(change))
    return "| " + " | ".join(map(markdown, cells)) + " |"


def _share(share: ShareChange) -> dict[str, Any]:
    before, after = (None if each is None else text(share.resource, each) for each in (share.before, share.after))
    return {"kind": share.kind, "resource": share.resource, "before": before, "after": after, "gains": share.gains}
