"""Asks the planes in turn and takes the time of every request."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.admission.calls import Caller
from benchmarks.admission.report import summary
from benchmarks.admission.scene import TARGETS, Body, tenant, timed

BATCH = 10
"""Requests that a plane gets before it is the next one's turn."""
DRY_RUN, REAL = "dry-run", "create"
REQUESTS = (("TrainJob", DRY_RUN), ("JobSet", DRY_RUN), ("Pod", DRY_RUN), ("JobSet", REAL), ("Pod", REAL))
"""What is timed. A TrainJob is not really created: the controller would begin to work between two requests."""


def measure(callers: Mapping[str, Caller], requests: int, seed: int = 1) -> dict[str, dict[str, Any]]:
    """Return the figures of every kind of request by contender.

    Parameters
    ----------
    requests
        How many of each kind every contender gets. The contenders take turns in an order that changes from round to
        round, so that whatever else the machine does meets all of them.
    """
    order = random.Random(seed)
    samples: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    spent: dict[tuple[str, str], dict[str, dict[str, float]]] = defaultdict(dict)
    bodies = timed()
    for turn in _turns(list(callers), requests, order):
        for request in REQUESTS:
            kind, mode = request
            caller = callers[turn]
            before = caller.plane.processor()
            taken = samples[request][turn]
            for number in range(len(taken), len(taken) + BATCH):
                body = _named(bodies[kind], number)
                taken.append(caller.create(body, tenant(number % TARGETS), dry_run=mode == DRY_RUN))
            after = caller.plane.processor()
            total = spent[request].setdefault(turn, dict.fromkeys(after, 0.0))
            for name, seconds in after.items():
                total[name] += seconds - before[name]
    return {
        f"{kind} {mode}": {name: summary(samples[kind, mode][name], spent[kind, mode][name]) for name in callers}
        for kind, mode in REQUESTS
    }


def warm_up(callers: Mapping[str, Caller], requests: int) -> None:
    """Let every plane answer a few requests that are not counted."""
    for caller in callers.values():
        for kind, body in timed().items():
            for number in range(requests):
                caller.create(_named(body, number), tenant(number % TARGETS), dry_run=kind == "TrainJob")


def _turns(names: Sequence[str], requests: int, order: random.Random) -> Iterator[str]:
    for _ in range(-(-requests // BATCH)):
        yield from order.sample(names, len(names))


def _named(body: Body, number: int) -> Body:
    return {**body, "metadata": {**body["metadata"], "name": f"timed-{number}"}}
