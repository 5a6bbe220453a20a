"""Usage of 100,000 finished jobs: from the record to the table.

The jobs are of 20 tenants, with waits, borrowed devices and evictions. Writes `benchmarks/results/usage.json`.

    python -m benchmarks.usage [--jobs 100000]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.recording import publish
from trainyard.insight.usage.account import Span
from trainyard.insight.usage.ledger import Ledger
from trainyard.insight.usage.levels import Holding, QueueTenants, Share, UsageGang
from trainyard.insight.usage.record import HEAD, Head, name_of, read_record
from trainyard.insight.usage.usage_book import UsageBook
from trainyard.insight.usage.usage_table import By, as_csv, rows

TENANTS = 20
GPU = "nvidia.com/gpu"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--jobs", type=int, default=100_000, help="finished jobs")
    options = parser.parse_args()
    bodies = record_of(options.jobs)
    started = time.perf_counter()
    record = read_record(bodies)
    assert record is not None
    usage = record.usage(Span(0, 10**9))
    lines = as_csv(By.JOB, rows(usage, By.JOB)).count("\n") - 1
    seconds = time.perf_counter() - started
    publish(
        "usage",
        {
            "jobs": lines,
            "config_maps": len(bodies),
            "stored_mib": round(sum(len(text) for each in bodies for text in each["data"].values()) / 2**20, 1),
            "seconds": round(seconds, 2),
            "jobs_a_second": round(lines / seconds),
        },
    )


def record_of(jobs: int) -> list[Mapping[str, Any]]:
    """Return the ConfigMaps of a record: each job waits a minute, runs for ten, and every tenth is evicted once."""
    ledger = Ledger()
    for tenant in range(TENANTS):
        ledger.share(0, f"queue-{tenant}", Share({GPU: 64_000}))
    events: list[tuple[int, str, Holding | None, bool]] = []
    for index in range(jobs):
        tenant = index % TENANTS
        gang = UsageGang(f"tenant-{tenant}", "TrainJob", f"train-{index}", f"queue-{tenant}", f"torch-2.{index % 8}")
        at, waits = index * 5, Holding(gang, {GPU: 8000})
        runs = Holding(gang, {GPU: 8000}, True)
        events += [(at, f"{index}", waits, False), (at + 60, f"{index}", runs, False)]
        if index % 10 == 0:
            events += [(at + 120, f"{index}", waits, True), (at + 180, f"{index}", runs, False)]
        events.append((at + 660, f"{index}", None, False))
    book = UsageBook(0)
    for at, part, holding, taken in sorted(events, key=lambda event: event[0]):
        ledger.hold(at, part, holding, taken_back=taken)
    book.add(ledger.drain())
    end = jobs * 5 + 660
    book.own(end, [QueueTenants(f"queue-{tenant}", (f"tenant-{tenant}",)) for tenant in range(TENANTS)])
    book.advance(end)
    bodies: list[Mapping[str, Any]] = [{"metadata": {"name": HEAD}, "data": Head(0, end).data()}]
    for (tenant_name, month), usage in book.changed.items():
        bodies.append({"metadata": {"name": name_of(tenant_name, month)}, "data": usage.data(end)})
    return bodies


if __name__ == "__main__":
    main()
