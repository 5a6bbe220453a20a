"""Ownership: only an owner reference that OBJ-001 protects makes an object a TrainJob's."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.controller.job_ownership import OwnershipConflictError, require_owner
from trainyard.kube.training_kinds import JOB_SETS

TRAIN_JOB: dict[str, Any] = {"metadata": {"name": "job", "namespace": "team", "uid": "1"}}
OWNER = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "name": "job",
    "uid": "1",
    "controller": True,
}


def belongs(**changes: Any) -> None:
    metadata = {
        "name": "job",
        "namespace": "team",
        "ownerReferences": [{**OWNER, "uid": "1", "controller": True, **changes}],
    }
    require_owner(JOB_SETS, {"metadata": metadata}, TRAIN_JOB)


def test_an_object_of_the_job_is_accepted() -> None:
    belongs()


@pytest.mark.parametrize(
    "changes",
    [
        {"uid": "2"},
        {"kind": "ConfigMap"},
        {"apiVersion": "example.com/v1"},
        {"apiVersion": "v1"},
        {"controller": False},
    ],
)
def test_an_object_with_another_or_a_forged_owner_is_not(changes: dict[str, Any]) -> None:
    with pytest.raises(OwnershipConflictError, match="so this TrainJob cannot use it"):
        belongs(**changes)
