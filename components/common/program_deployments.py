"""A program of the platform: its Deployment, and the objects that every Deployment needs."""

from __future__ import annotations

from collections.abc import Iterable

import pulumi

from .objects import Component, KubernetesObject
from .pod_settings import disruption_budget, priority_class_quota
from .workload import Workload, deployment


def declare_program(
    component: Component, workload: Workload, *, depends_on: Iterable[pulumi.Resource] = ()
) -> KubernetesObject:
    """Declare the Deployment of a program, its PodDisruptionBudget, and a ResourceQuota if the settings require it.

    Parameters
    ----------
    component
        Component of the program; the program is created after what its options depend on.
    workload
        The program.
    depends_on
        Resources that are ready before it is created; among them the namespace.

    Raises
    ------
    TrainyardError
        A setting of the platform's pods cannot be applied to the program.
    """
    body, before = deployment(workload), list(depends_on)
    component.child(disruption_budget(body), depends_on=before, inherit_depends_on=True)
    if workload.pods.settings.priority_class_quota:
        before.append(component.child(priority_class_quota(body), depends_on=before, inherit_depends_on=True))
    return component.child(body, depends_on=before, inherit_depends_on=True)
