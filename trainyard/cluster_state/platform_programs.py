"""Deployments and Leases of the programs that every platform runs."""

from __future__ import annotations

from typing import Final

from trainyard.api.constants import CONTROLLER_SERVICE

SCHEDULER, CONTROLLERS, JOB_SET = "volcano-scheduler", "volcano-controllers", "jobset-controller-manager"
DEPLOYMENTS: Final = (CONTROLLER_SERVICE, JOB_SET, SCHEDULER, CONTROLLERS, "volcano-admission")
"""Deployments of the platform that jobs depend on."""
LEASES: Final = {
    SCHEDULER: ("volcano", "vc-scheduler"),
    CONTROLLERS: ("vc-controller-manager",),
    JOB_SET: ("6d4f6a47.jobset.x-k8s.io", "6d4f6a47.x-k8s.io"),
    CONTROLLER_SERVICE: ("trainer.kubeflow.org",),
}
