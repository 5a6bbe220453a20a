"""Play random histories against the controller in virtual time.

python -m tests.simulation --seeds 100000          # all, on every core
python -m tests.simulation --seed 4711 --shortest  # one, with as few steps as show the same
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.histories import drawn, played, shortest, violations_of
from tests.simulation.invariants import Violation

_SHOWN = 3
_PER_PROCESS = 1000


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="number of histories")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--seed", type=int, help="play this one only")
    parser.add_argument("--shortest", action="store_true", help="leave out steps that do not matter")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if options.seed is not None:
        return _one(options.seed, shorten=options.shortest)
    return _many(range(options.first, options.first + options.seeds), options.processes)


def _one(seed: int, *, shorten: bool) -> int:
    history = drawn(seed)
    found = played(history)
    if found and shorten:
        history = shortest(history, found[0].invariant)
        found = played(history)
    print(history)
    for violation in found:
        print(violation)
    return 1 if found else 0


def _many(seeds: range, processes: int) -> int:
    started = time.perf_counter()
    counts: Counter[str] = Counter()
    broken: list[tuple[int, Violation]] = []
    for seed, found in _violations(seeds, processes):
        counts.update(violation.invariant for violation in found)
        broken += [(seed, violation) for violation in found]
        for violation in found:
            print(f"--seed {seed}: {violation}", flush=True)
    for invariant, count in counts.most_common():
        print(f"{count:6} × {invariant}")
        seeds_of_it = sorted(seed for seed, violation in broken if violation.invariant == invariant)
        print(f"         --seed {', '.join(map(str, seeds_of_it[:_SHOWN]))}")
    print(f"{len(seeds)} histories, {len({seed for seed, _ in broken})} broken, {time.perf_counter() - started:.0f} s")
    return 1 if broken else 0


def _violations(seeds: range, processes: int) -> Iterator[tuple[int, list[Violation]]]:
    if processes == 1:
        yield from map(violations_of, seeds)
        return
    context = multiprocessing.get_context("spawn")
    # A controller exempts its caches from garbage collection: 0.6 MB of each history stay, so processes are replaced.
    # `max_tasks_per_child` does not do it: the pool then hangs (https://github.com/python/cpython/issues/115634).
    step = processes * _PER_PROCESS
    for first in range(seeds.start, seeds.stop, step):
        with ProcessPoolExecutor(processes, context) as pool:
            yield from pool.map(violations_of, range(first, min(first + step, seeds.stop)), chunksize=50)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets is part of a history.
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    sys.exit(main())
