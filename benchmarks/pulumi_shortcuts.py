"""Savings of each shortcut through Pulumi's SDK: `trainyard up` on an unchanged platform, with and without it.

Requires the platform of `make up`. Prints the processor time without each shortcut, as a ratio to that with all of
them (median of the rounds, interleaved), and writes `benchmarks/results/pulumi-shortcuts.json`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from benchmarks.commands import spent
from benchmarks.recording import publish
from trainyard.platform.pulumi_sdk.shortcuts import VARIABLE, Shortcut

_COMMAND = (str(Path(sys.executable).with_name("trainyard")), "up", "--yes")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    cases = {"all": tuple(Shortcut), "none": (), **{f"without {each}": _without(each) for each in Shortcut}}
    spent(_COMMAND)
    found: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for name, shortcuts in cases.items():
            os.environ[VARIABLE] = ",".join(shortcuts) or "none"
            found[name].append(spent(_COMMAND)[0]["processor_seconds"])
    base = statistics.median(found["all"])
    publish(
        "pulumi-shortcuts",
        {f"{name}, processor time": round(statistics.median(seconds) / base, 2) for name, seconds in found.items()},
    )


def _without(shortcut: Shortcut) -> tuple[Shortcut, ...]:
    return tuple(each for each in Shortcut if each is not shortcut)


if __name__ == "__main__":
    main()
