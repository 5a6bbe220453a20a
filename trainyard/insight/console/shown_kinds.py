"""Kinds that the console reads, for each viewer as far as the viewer may."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainyard.cluster_state.cluster_snapshot import CLUSTER_KINDS, JOB_KINDS
from trainyard.cluster_state.observed import Kind
from trainyard.kube.kinds import DEPLOYMENTS, MUTATING_WEBHOOKS, PODS, VALIDATING_WEBHOOKS
from trainyard.kube.leader import LEASES
from trainyard.kube.resource import Resource

WEBHOOKS: Final = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
WHOLE_KINDS: Final[Mapping[str, Resource]] = {
    **{kind: resource for resource, kind in (*JOB_KINDS, *CLUSTER_KINDS)},
    Kind.POD: PODS,
    **{f"{each.kind}.{each.group}": each for each in WEBHOOKS},
}
"""Resource of each kind of which all objects are read."""
SHOWN_KINDS: Final[Mapping[str, Resource]] = {**WHOLE_KINDS, Kind.DEPLOYMENT: DEPLOYMENTS, Kind.LEASE: LEASES}
"""Resource of each kind that is read; of Deployments and Leases, those of the platform."""
