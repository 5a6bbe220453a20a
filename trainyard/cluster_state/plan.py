"""Effect of a queue tree on the jobs of a live cluster."""

from __future__ import annotations

from trainyard.cluster_state.queues import read_shares
from trainyard.cluster_state.shares import Shares
from trainyard.kube.client import Client
from trainyard.scheduling.queues.plan import Plan, plan
from trainyard.scheduling.queues.snapshot import Snapshot


async def live_plan(client: Client, after: Snapshot) -> Plan:
    """Return the effect of another queue tree on a cluster."""
    return plan_from(await read_shares(client), after)


def plan_from(shares: Shares, after: Snapshot) -> Plan:
    """Return the effect of another queue tree on a cluster that was read.

    The capacity is that of the live nodes; a change of the fabric is not part of the plan.
    """
    before = shares.snapshot
    return plan(
        before.tree,
        after.tree,
        jobs=shares.jobs,
        capacity=before.capacity,
        tenants=after.tenants,
        node=before.node,
        scheduling=after.scheduling,
    )
