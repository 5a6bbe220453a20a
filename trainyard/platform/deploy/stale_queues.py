"""Repetition of an operation where Volcano's webhook still has a deleted child queue in its cache."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from trainyard.platform.deploy.engine_run import EngineRun

_STALE_CHILDREN = re.compile(r"can not be deleted because it has \d+ child queues")
_ATTEMPTS = 5
_RETRY_SECONDS = 2.0


def retry_stale_queues(run: EngineRun, attempt: Callable[[], object]) -> None:
    """Run an operation; retry where Volcano's webhook still has a deleted child queue in its cache."""
    from pulumi.automation.errors import CommandError

    for _ in range(_ATTEMPTS - 1):
        try:
            attempt()
        except CommandError:
            findings = run.events.findings
            if not findings or not all(_STALE_CHILDREN.search(finding.message) for finding in findings):
                raise
            run.events.retry()
            time.sleep(_RETRY_SECONDS)
        else:
            return
    attempt()
