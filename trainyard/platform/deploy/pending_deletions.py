"""Deletions that a failed run has begun: the next run completes them, whatever the settings declare by then.

The engine records in the state that a retired object is to be deleted. Settings that declare it again would apply the
object and then delete it, with all its data.
"""

from __future__ import annotations

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.platform.deploy.recorded_state import RecordedState
from trainyard.settings.stack import StackSettings
from trainyard.settings.tenancy import QueueState


def reject_reused_names(state: RecordedState, settings: StackSettings) -> None:
    """Reject settings that declare a queue or a tenant whose deletion has begun.

    Parameters
    ----------
    state
        The recorded state.
    settings
        The settings to apply.

    Raises
    ------
    TrainyardError
        Names each of them.
    """
    begun = {each["urn"].rpartition("::")[2] for each in state.resources if each.get("delete")}
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
        raise TrainyardError(f"Stack {state.stack} is still deleting what its settings declare", findings=findings)
