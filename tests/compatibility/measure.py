"""Share of generated cases on which upstream and Trainyard agree, outside the documented differences.

python -m tests.compatibility.measure --seed 7 --count 1000

Each case is generated with the seed, which is printed. Exit code 1: a share is below the target.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import secrets
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.compatibility import servers
from tests.compatibility.comparison import Comparison
from tests.compatibility.corpus.case import Case
from tests.compatibility.corpus.wild import wild
from tests.compatibility.differences import DIFFERENCES
from tests.compatibility.run import compared, prepare

VERDICTS = 0.995
OBJECTS = 0.985
"""Targets: equal verdicts of all cases, and equal objects of those that both sides accept."""


@dataclass(frozen=True)
class Shares:
    """How many cases agree.

    Parameters
    ----------
    cases, verdicts
        Cases, and those with equal verdicts.
    rendered, objects
        Cases whose objects were compared, and those with equal objects.
    """

    cases: int
    verdicts: int
    rendered: int
    objects: int

    @classmethod
    def of(cls, comparisons: Mapping[str, Comparison]) -> Shares:
        """Return the shares of compared cases."""
        compared = [entry for entry in comparisons.values() if entry.rendered]
        return cls(
            len(comparisons),
            sum(not entry.verdicts for entry in comparisons.values()),
            len(compared),
            sum(not entry.objects for entry in compared),
        )

    @property
    def enough(self) -> bool:
        """Whether both targets are reached."""
        return self.verdicts >= VERDICTS * self.cases and self.objects >= OBJECTS * self.rendered

    def __str__(self) -> str:
        verdicts = f"verdicts: {self.verdicts} of {self.cases} equal ({self.verdicts / max(self.cases, 1):.2%})"
        objects = f"objects: {self.objects} of {self.rendered} equal ({self.objects / max(self.rendered, 1):.2%})"
        return f"{verdicts}; {objects}; outside documented differences"


def measured(cases: list[Case]) -> dict[str, Comparison]:
    """Submit cases to both sides and return their comparisons."""
    with contextlib.ExitStack() as running:
        folder = running.enter_context(tempfile.TemporaryDirectory(prefix="compatibility-"))
        server = running.enter_context(servers.api_server(Path(folder)))
        asyncio.run(prepare(server))
        running.enter_context(servers.trainer(server))
        return asyncio.run(compared(server, cases))


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="seed of the cases; default: random")
    parser.add_argument("--count", type=int, default=1000, help="number of cases")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}, {arguments.count} cases")
    comparisons = measured(list(wild(arguments.count, arguments.seed)))
    for name, comparison in comparisons.items():
        for finding in comparison.findings:
            print(f"{name}: {finding}")
    used = Counter(name for comparison in comparisons.values() for name in set(comparison.used))
    for entry in DIFFERENCES:
        print(f"{used[entry.identifier]:6} {entry.identifier}")
    shares = Shares.of(comparisons)
    print(shares)
    return 0 if shares.enough else 1


if __name__ == "__main__":
    raise SystemExit(main())
