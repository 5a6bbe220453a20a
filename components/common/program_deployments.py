"""A program of the platform: its Deployment, the objects that every Deployment needs, and its permissions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pulumi

from .objects import Component, KubernetesObject
from .pod_settings import disruption_budget, priority_class_quota
from .rbac import cluster_role, cluster_role_binding, role, role_binding, service_account, service_account_subject
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


def declare_permissions(
    component: Component,
    workload: Workload,
    cluster_roles: Mapping[str, Iterable[Mapping[str, Any]]],
    roles: Mapping[str, Iterable[Mapping[str, Any]]],
) -> list[KubernetesObject]:
    """Declare the ServiceAccount of a program and its roles; return the account and the bindings.

    Parameters
    ----------
    component
        Component of the program, which has declared its namespaces.
    workload
        The program.
    cluster_roles, roles
        Rules in the cluster and in the namespace of the program, by name of the role.
    """
    name, namespace, before = workload.name, workload.namespace, list(component.namespaces.values())
    subject = service_account_subject(name, namespace)
    account = component.child(service_account(name, namespace), depends_on=before)
    bindings = []
    for each, rules in cluster_roles.items():
        granted = component.child(cluster_role(each, rules))
        binding = cluster_role_binding(f"{each}binding", each, [subject])
        bindings.append(component.child(binding, depends_on=[granted, account]))
    for each, rules in roles.items():
        granted = component.child(role(each, namespace, rules), depends_on=before)
        bindings.append(component.child(role_binding(each, namespace, [subject]), depends_on=[granted, account]))
    return [account, *bindings]
