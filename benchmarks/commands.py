"""Time and memory of a command."""

from __future__ import annotations

import resource
import subprocess
import time
from collections.abc import Sequence

from benchmarks.recording import ROOT


def spent(command: Sequence[str], *, accepted: Sequence[int] = (0,)) -> tuple[dict[str, float], str]:
    """Run a command that ends with one of the accepted statuses.

    Returns
    -------
    tuple
        Its seconds and those of its processors, what it started included, and what it printed.
    """
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode not in accepted:
        raise SystemExit(done.stderr)
    seconds, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    return {"seconds": seconds, "processor_seconds": processor}, done.stdout
