"""Duration of a what-if: a change of 1,000 queues, with 10,000 jobs simulated before and after it.

Prints processor time and counts, and writes `benchmarks/results/queue-plan.json`.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from random import Random

from benchmarks.recording import publish
from trainyard.scheduling.queues.amounts import units
from trainyard.scheduling.queues.plan import plan
from trainyard.scheduling.queues.queue import Queue
from trainyard.scheduling.queues.queued_gangs import QueuedJob
from trainyard.scheduling.queues.tree import QueueTree

QUEUES, JOBS, TEAMS = 1_000, 10_000, 50
GPUS = 8 * QUEUES
"""GPUs of the cluster: eight for each queue; the jobs ask for about three times as many."""


def main() -> None:
    """Measure and print."""
    random = Random(1)
    before = _tree(random)
    tree = QueueTree(before)
    jobs = _jobs(random, [name for name in tree.leaves if tree.queues[name].parent != "root"])
    after = {
        name: replace(queue, deserved=_gpus(random.choice((4, 8, 16)))) if queue.parent != "root" else queue
        for name, queue in before.items()
    }
    started = time.process_time()
    found = plan(
        tree, QueueTree(after), jobs=jobs, capacity=units({"nvidia.com/gpu": str(GPUS), "cpu": str(12 * GPUS)})
    )
    seconds = time.process_time() - started
    effects = Counter(change.effect.value for change in found.jobs)
    result = {
        "queues": len(before),
        "jobs": len(jobs),
        "running": found.running,
        "queues_changed": len(found.queues),
        "jobs_changed": dict(effects),
        "processor_seconds": round(seconds, 2),
        "jobs_a_second": round(2 * len(jobs) / seconds),
    }
    publish("queue-plan", result)


def _tree(random: Random) -> dict[str, Queue]:
    teams = {f"team-{number:02}": Queue(deserved=_gpus(GPUS // TEAMS)) for number in range(TEAMS)}
    queues = {
        f"queue-{number:04}": Queue(random.choice(list(teams)), deserved=_gpus(8), reclaimable=random.random() < 0.9)
        for number in range(QUEUES - TEAMS)
    }
    return {**teams, **queues}


def _jobs(random: Random, leaves: list[str]) -> list[QueuedJob]:
    jobs, free = [], GPUS
    for number in range(JOBS):
        gpus = random.choice((1, 1, 2, 2, 4, 8))
        running = gpus <= free and random.random() < 0.5
        free -= gpus if running else 0
        request = units({"nvidia.com/gpu": str(gpus), "cpu": str(12 * gpus)})
        priority = random.choice((0, 0, 10))
        jobs.append(QueuedJob(f"tenant/{number:05}", random.choice(leaves), request, running, priority, f"{number:05}"))
    return jobs


def _gpus(count: int) -> dict[str, str]:
    return {"nvidia.com/gpu": str(count)}


if __name__ == "__main__":
    main()
