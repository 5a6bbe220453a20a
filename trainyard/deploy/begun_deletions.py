"""Deletions that a failed run has begun: the next run completes them, whatever the settings declare by then.

The engine records in the state that a retired object is to be deleted. Settings that declare it again would apply the
object and then delete it, with all its data.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from trainyard.checks.finding import Finding
from trainyard.deploy.recovery import state_file
from trainyard.deploy.workspace import PROJECT
from trainyard.errors import TrainyardError
from trainyard.settings import StackSettings
from trainyard.settings.tenancy import QueueState

if TYPE_CHECKING:
    from pulumi.automation import Stack

__all__ = ["reject_reopened"]

_MARK = re.compile(r'"delete":\s*true')


def reject_reopened(stack: Stack, folder: Path | None, settings: StackSettings) -> None:
    """Reject settings that declare a queue or a tenant whose deletion has begun.

    Parameters
    ----------
    stack
        The opened stack.
    folder
        Folder of a file backend, in which the state can be read without the CLI.
    settings
        The settings to apply.

    Raises
    ------
    TrainyardError
        Names each of them.
    """
    if folder is not None and _is_unmarked(state_file(folder, PROJECT, stack.name)):
        return
    body = stack.export_stack().deployment or {}
    begun = {each["urn"].rpartition("::")[2] for each in body.get("resources") or () if each.get("delete")}
    declared = {f"Queue/{name}": "queues" for name, each in settings.queues.items() if each.state != QueueState.RETIRED}
    declared |= {f"Namespace/{name}": "tenants" for name in settings.active_tenants}
    findings = [
        Finding(
            f"trainyard:{declared[name]}.{name.partition('/')[2]}.state",
            f"an `up` that failed has begun to delete {name}, and the next one completes that",
            "set state: retired, run `up` until it is deleted, then declare it again",
        )
        for name in sorted(begun & declared.keys())
    ]
    if findings:
        raise TrainyardError(f"Stack {stack.name} is still deleting what its settings declare", findings=findings)


def _is_unmarked(state: Path) -> bool:
    return state.is_file() and not _MARK.search(state.read_text())
