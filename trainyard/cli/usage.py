"""`trainyard usage`: device-hours by tenant, queue, job and runtime."""

from __future__ import annotations

import asyncio
import datetime
import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trainyard.checks.printable_text import json_text
from trainyard.cli.common import reader_of
from trainyard.errors import TrainyardError

if TYPE_CHECKING:
    from trainyard.insight.usage.account import Span, Usage


_EPILOG: Final = (
    "Examples: trainyard usage --last 7d --by queue; trainyard usage --since 2026-10-01 --until 2026-11-01 --by job "
    "-n vision -o csv"
)
_UNITS: Final = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION: Final = re.compile(r"([0-9]{1,6}[wdhms])+")
_END_OF_TIME: Final = 253_402_300_800
"""The year 10000."""
_SHOWN_GAPS: Final = 3
_LATENCY: Final = 120
"""Seconds that the record may be behind; it is written every half a minute."""


class _Format(StrEnum):
    TEXT = "text"
    CSV = "csv"
    JSON = "json"


class _By(StrEnum):
    TENANT = "tenant"
    QUEUE = "queue"
    JOB = "job"
    RUNTIME = "runtime"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("usage", epilog=_EPILOG)(_usage)


def _usage(
    by: Annotated[_By, typer.Option("--by", help="What to sum by.")] = _By.TENANT,
    last: Annotated[
        str | None, typer.Option("--last", help="Span up to now, such as 90m, 24h, 7d or 4w; by default 24h.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Start of the span, a date (UTC) or a time such as 2026-10-01T08:00Z.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="End of the span, which is not part of it; by default now.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Only this tenant; by default all.")
    ] = None,
    output: Annotated[_Format, typer.Option("-o", "--output", help="Format.")] = _Format.TEXT,
    prometheus: Annotated[
        str | None, typer.Option("--prometheus", metavar="URL", help="Read Prometheus instead of the record.")
    ] = None,
    prometheus_token_file: Annotated[
        Path | None, typer.Option("--prometheus-token-file", metavar="FILE", help="File with a bearer token.")
    ] = None,
    prometheus_ca_file: Annotated[
        Path | None,
        typer.Option("--prometheus-ca-file", metavar="FILE", help="Certificates of its authorities (PEM)."),
    ] = None,
    record_namespace: Annotated[
        str, typer.Option("--record-namespace", help="Namespace of the controller, which keeps the record.")
    ] = "kubeflow-system",
    stack: Annotated[str | None, typer.Option("--stack", "-s", help="Stack of the cluster.")] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", help="Kubeconfig; without stack, that of KUBECONFIG.")
    ] = None,
    context: Annotated[str | None, typer.Option("--context", help="Context in the kubeconfig.")] = None,
) -> None:
    """Show requested, allocated, borrowed, lent, reclaimed and queued device-hours in a period."""
    from trainyard.insight.usage.usage_table import By, as_csv, as_json, as_text, rows

    span = _span(last, since, until, datetime.datetime.now(datetime.UTC))
    if prometheus is not None and by is _By.JOB:
        raise TrainyardError(
            "The counters in Prometheus have no names of jobs", fix="leave out --prometheus, or use another --by"
        )
    if prometheus is None and (prometheus_token_file or prometheus_ca_file):
        raise TrainyardError(
            "--prometheus-token-file and --prometheus-ca-file have no effect without --prometheus",
            fix="set --prometheus, or leave them out",
        )
    if prometheus is not None:
        from trainyard.insight.prometheus_access import prometheus_access
        from trainyard.insight.usage_reader import prometheus_usage

        access = prometheus_access(prometheus, prometheus_token_file, prometheus_ca_file)
        usage = asyncio.run(prometheus_usage(access, span, namespace))
    else:
        usage = asyncio.run(_recorded(span, record_namespace, namespace, stack, kubeconfig, context))
    key = By(by.value)
    found = rows(usage, key, namespace)
    if output is _Format.JSON:
        typer.echo(json_text(as_json(usage, key, found)))
    elif output is _Format.CSV:
        typer.echo(as_csv(key, found), nl=False)
    else:
        typer.echo(as_text(usage, key, found))
    for line in _reservations(usage, span):
        typer.echo(line, err=True)


async def _recorded(
    span: Span, home: str, namespace: str | None, stack: str | None, kubeconfig: Path | None, context: str | None
) -> Usage:
    from trainyard.insight.usage_reader import read_usage_record

    async with reader_of(stack, kubeconfig, context) as client:
        record = await read_usage_record(client, home, namespace)
    return record.usage(span)


def _reservations(usage: Usage, asked: Span) -> list[str]:
    """Return what the numbers leave out."""
    from trainyard.insight.usage.usage_table import timestamp

    if not usage.jobs_recorded:
        return ["Estimated by Prometheus from its samples."]
    lines, recorded = list[str](), usage.recorded
    if usage.span != asked:
        start, end = map(timestamp, usage.span)
        lines.append(f"The record has whole days (UTC): this is from {start} to {end}.")
    if recorded is not None and asked.start < recorded.start:
        lines.append(f"The record is complete from {timestamp(recorded.start)} on.")
    if recorded is not None and recorded.end < usage.span.end - _LATENCY:
        lines.append(f"Recorded until {timestamp(recorded.end)}.")
    longest = sorted(usage.gaps, key=lambda gap: gap.start - gap.end)
    if longest:
        shown = ", ".join(f"{timestamp(gap.start)} to {timestamp(gap.end)}" for gap in longest[:_SHOWN_GAPS])
        more = f", and {len(longest) - _SHOWN_GAPS} shorter ones" if len(longest) > _SHOWN_GAPS else ""
        lines.append(f"Not everything was recorded from {shown}{more}: jobs that ended then count up to its start.")
    return lines


def _span(last: str | None, since: str | None, until: str | None, now: datetime.datetime) -> Span:
    from trainyard.insight.usage.account import Span

    if last is not None and since is not None:
        raise TrainyardError("--last and --since exclude each other", fix="leave one out")
    end = _instant(until, "--until") if until is not None else int(now.timestamp())
    start = _instant(since, "--since") if since is not None else end - _seconds(last or "24h")
    if start > now.timestamp():
        raise TrainyardError("The span has not begun", fix="set --since to a time before now")
    if start >= end:
        raise TrainyardError("The span ends before it starts", fix="set --since to a time before --until")
    return Span(max(0, start), end)


def _instant(text: str, option: str) -> int:
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise TrainyardError(
            f"{option} {text!r} is not a time", fix="write a date such as 2026-10-01, or 2026-10-01T08:00Z"
        ) from error
    at = int((found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)).timestamp())
    if not 0 <= at < _END_OF_TIME:
        raise TrainyardError(f"{option} {text!r} is not between 1970 and 9999", fix="write another time")
    return at


def _seconds(text: str) -> int:
    if not _DURATION.fullmatch(text):
        raise TrainyardError(f"--last {text!r} is not a duration", fix="write one such as 90m, 24h, 7d or 4w")
    return sum(int(amount) * _UNITS[unit] for amount, unit in re.findall(r"([0-9]+)([wdhms])", text))
