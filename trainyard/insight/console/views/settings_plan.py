"""Effect of a settings file on queues and jobs: who gains, who loses, which jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trainyard.cluster_state.observed import Kind
from trainyard.errors import TrainyardError
from trainyard.insight.console.views.platform_view import PlatformView, amounts_text
from trainyard.scheduling.queues.plan import Plan, QueueChange, plan
from trainyard.scheduling.queues.snapshot import Snapshot

_SHOWN: Final = 200


@dataclass(frozen=True)
class PlannedJob:
    """A job that the change affects: its gang, its queue, what it needs, and the effect."""

    name: str
    queue: str
    needs: str
    effect: str
    text: str


@dataclass(frozen=True)
class SettingsPlan:
    """Effect of a change.

    Parameters
    ----------
    queues
        Changed queues.
    gains, losses
        Names of queues that gain, and that lose, an amount.
    jobs
        Affected jobs, the worst effect first.
    more
        Number of affected jobs that are not listed.
    checked
        Number of jobs that were checked.
    estimates
        Number of forecasts that are estimates.
    """

    queues: tuple[QueueChange, ...]
    gains: tuple[str, ...]
    losses: tuple[str, ...]
    jobs: tuple[PlannedJob, ...]
    more: int
    checked: int
    estimates: int


def settings_plan(view: PlatformView, after: Snapshot) -> SettingsPlan:
    """Return the effect of the queues of a settings file.

    Raises
    ------
    TrainyardError
        The queues of the cluster form no tree, or not all that the plan depends on may be read.
    """
    if unread := view.unread_of(Kind.QUEUE, Kind.NODE, Kind.POD_GROUP, Kind.POD):
        raise TrainyardError(
            f"The plan is unknown: not all {unread} were read", fix="ask a person who may to open the console"
        )
    shares = view.cluster.shares
    if shares.fault:
        raise TrainyardError(f"the queues of the cluster: {shares.fault}", fix="run `trainyard queues check`")
    before = shares.snapshot
    found: Plan = plan(
        before.tree,
        after.tree,
        jobs=shares.jobs,
        capacity=before.capacity,
        tenants=after.tenants,
        node=before.node,
        scheduling=after.scheduling,
    )
    jobs = [
        PlannedJob(
            change.job.name, change.job.queue, amounts_text(change.job.request), change.effect.value, str(change)
        )
        for change in found.jobs[:_SHOWN]
    ]
    return SettingsPlan(
        queues=found.queues,
        gains=tuple(each.queue for each in found.queues if any(share.gains for share in each.shares)),
        losses=tuple(each.queue for each in found.queues if any(not share.gains for share in each.shares)),
        jobs=tuple(jobs),
        more=max(0, len(found.jobs) - _SHOWN),
        checked=found.running + found.waiting,
        estimates=sum(found.estimates.values()),
    )
