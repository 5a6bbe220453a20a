"""Usage of devices in a replay, by the definitions of `trainyard usage`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from trainyard.insight.usage.account import Account, Span, Usage
from trainyard.insight.usage.ledger import Ledger
from trainyard.insight.usage.levels import Holding, QueueTenants, Share, UsageGang
from trainyard.local.simulate.replay import Replay
from trainyard.local.simulate.scenario_jobs import ScenarioGang
from trainyard.local.simulate.timeline import PodRun
from trainyard.scheduling.queues.amounts import units


class _Change(NamedTuple):
    part: str
    holding: Holding | None
    evicted: bool


def replay_usage(replay: Replay, span: Span | None = None) -> Usage:
    """Return the usage of a replay over a span of scenario time; by default all of it.

    A job asks for all its pods from its arrival to its end; the scenario's tenants are the namespaces.
    """
    timeline, settings = replay.timeline, replay.scenario.settings
    devices = frozenset(settings.accelerator_resources)
    whole = Span(0, timeline.now)
    changes = defaultdict[int, list[_Change]](list)
    for name, job in timeline.jobs.items():
        runs = [run for run in timeline.runs if run.job == name]
        for at, change in _changes(job, timeline.left.get(name), runs, devices, timeline.arrived):
            changes[at].append(change)
    ledger = Ledger()
    for at in sorted({*changes, *timeline.shares}):
        for queue, share in timeline.shares.get(at, {}).items():
            ledger.share(at, queue, Share(*({name: each[name] for name in each if name in devices} for each in share)))
        # What ends at an instant makes room for what starts.
        for change in sorted(changes[at], key=lambda change: change.holding is not None):
            ledger.hold(at, change.part, change.holding, taken_back=change.evicted)
    account = Account(span or whole)
    account.add(ledger.drain())
    tenants = defaultdict[str, list[str]](list)
    for tenant, own in settings.tenants.items():
        for queue in own.queues:
            tenants[queue].append(tenant)
    account.add(QueueTenants(queue, tuple(names)) for queue, names in tenants.items())
    return account.usage(whole.end, recorded=whole)


def _changes(
    job: ScenarioGang, left: int | None, runs: list[PodRun], devices: frozenset[str], arrived: dict[str, int]
) -> Iterator[tuple[int, _Change]]:
    if job.name not in arrived:
        return
    gang = UsageGang(job.namespace, job.kind.value, job.name, job.queue)
    one = units({name: amount for name, amount in job.per_pod.items() if name in devices})
    placed = defaultdict[int, int](int)
    for index, run in enumerate(runs):
        part = f"{job.name}/{index}"
        placed[run.began] += 1
        yield run.began, _Change(part, Holding(gang, one, True), False)
        if run.ended is not None:
            placed[run.ended] -= 1
            yield run.ended, _Change(part, None, run.evicted)
    count, waiting = 0, f"{job.name}/waiting"
    for at in sorted({arrived[job.name], *placed}):
        count += placed[at]
        rest = {name: amount * (job.pods - count) for name, amount in one.items()}
        gone = left is not None and at >= left
        yield at, _Change(waiting, Holding(gang, rest) if not gone and job.pods > count else None, False)
    if left is not None:
        yield left, _Change(waiting, None, False)
