"""Tenants that compete for processors: gangs start as a whole, a lent share returns, and a gang stays in one rack.

Each node has room for three workers beside the platform: the cluster for nine, the larger rack for six.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.real.conftest import RealCluster
from tests.real.real_jobs import WAIT, job, reference, runtime
from tests.real.test_job_lifecycle import delete_job
from tests.support import awaited, repeated, require

pytestmark = pytest.mark.real

HALF = {"cpu": "500m"}
SHARE = 4
"""Workers in the share of each tenant."""
TRAINS = WAIT.replace("sys.exit(0)", "sys.exit(143)")
"""A worker that exits with 0 on SIGTERM has completed its index of the Job, which creates it no more."""
PATIENT = {"priorityClassName": "training"}
"""A job of this class takes nothing back, so it waits."""


def gang(name: str, namespace: str, workers: int, **spec: Any) -> dict[str, Any]:
    return job(name, namespace=namespace, code=TRAINS, workers=workers, resources=HALF, **spec)


def bound(real: RealCluster, name: str, namespace: str) -> dict[str, str]:
    """Return the node of each pod that has one and is not deleted."""
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in real.cluster.pods(name, namespace)
        if "nodeName" in pod["spec"] and "deletionTimestamp" not in pod["metadata"]
    }


def running(real: RealCluster, name: str, namespace: str) -> int:
    pods = real.cluster.pods(name, namespace)
    return sum(pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"] for pod in pods)


def unschedulable(real: RealCluster, name: str, namespace: str) -> bool:
    group = real.cluster.get("podgroup", name, "-n", namespace)
    conditions = (group or {}).get("status", {}).get("conditions") or ()
    return any(each["type"] == "Unschedulable" and each["status"] == "True" for each in conditions)


def test_of_two_gangs_that_do_not_fit_together_one_starts_and_no_worker_of_the_other(real: RealCluster) -> None:
    names = {"one": "vision", "other": "language"}
    require(real.cluster.apply(*(runtime("patient", space, pod=PATIENT) for space in names.values())))
    own = reference("patient")
    require(real.cluster.apply(*(gang(name, space, 6, runtime=own) for name, space in names.items())))

    def seen() -> dict[str, int]:
        return {name: len(bound(real, name, space)) for name, space in names.items()}

    with repeated(seen) as samples:
        first = awaited(
            "a gang that runs", lambda: next((n for n, space in names.items() if running(real, n, space) == 6), None)
        )
        second = next(name for name in names if name != first)
        awaited("the verdict of the scheduler", lambda: unschedulable(real, second, names[second]))
    assert len(samples) > 2
    assert {sample[second] for sample in samples} == {0}
    delete_job(real, first, names[first])
    awaited("the other gang", lambda: running(real, second, names[second]) == 6)
    delete_job(real, second, names[second])


def test_a_tenant_gets_its_lent_share_back_and_the_borrower_keeps_its_own(real: RealCluster) -> None:
    require(real.cluster.apply(gang("borrower", "language", 8)))
    awaited("the borrower", lambda: running(real, "borrower", "language") == 8)
    require(real.cluster.apply(gang("owner", "vision", SHARE)))
    with repeated(lambda: len(bound(real, "borrower", "language"))) as kept:
        awaited("the whole gang of the owner", lambda: running(real, "owner", "vision") == SHARE)
    assert min(kept) >= SHARE
    assert running(real, "borrower", "language") < 8
    delete_job(real, "owner", "vision")
    awaited("what was taken runs again", lambda: running(real, "borrower", "language") == 8)
    delete_job(real, "borrower", "language")


def test_a_gang_of_one_rack_never_uses_another_one(real: RealCluster) -> None:
    rack = "torch-distributed-gang"
    require(real.cluster.apply(gang("compact", "language", SHARE, runtime=rack)))
    awaited("the gang", lambda: running(real, "compact", "language") == SHARE)
    assert set(bound(real, "compact", "language").values()) == {"worker-0", "worker-1"}
    require(real.cluster.apply(gang("late", "vision", SHARE, runtime=rack)))
    awaited("the verdict of the scheduler", lambda: unschedulable(real, "late", "vision"))
    assert bound(real, "late", "vision") == {}, "four workers fit in the cluster, and in no rack"
    delete_job(real, "compact", "language")
    awaited("the gang that waited", lambda: running(real, "late", "vision") == SHARE)
    assert set(bound(real, "late", "vision").values()) <= {"worker-0", "worker-1"}
    delete_job(real, "late", "vision")
