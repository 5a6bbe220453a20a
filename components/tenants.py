"""Tenants: a namespace each, with limits, roles and a default queue.

A tenant's namespace depends on everything that its jobs need. So destroy deletes it first, with every TrainJob in it,
while the controllers that clean up after jobs still run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pulumi

from trainyard.api.constants import CONTROLLER_SERVICE
from trainyard.controller.permissions import KEYS_ROLE
from trainyard.insight.usage.record import HEAD, names_of
from trainyard.policy.engines.vap.facts import tenant_facts
from trainyard.policy.engines.vap.validating_admission_policies import TENANT_LABEL
from trainyard.policy.stack_objects import default_queue, namespace_labels, tenant_policy
from trainyard.settings.sections.trainer import TrainerSettings
from trainyard.settings.stack import StackSettings
from trainyard.settings.tenancy import Role, TenantSettings

from .common.declaration import Declaration, Group, Resources
from .common.installation import Installation
from .common.network_policies import tenant_network_policy
from .common.objects import FORCED_ANNOTATION, Component, KubernetesObject
from .common.rbac import (
    cluster_role,
    cluster_role_binding,
    group,
    role,
    role_binding,
    service_account_subject,
)
from .common.workload import CONTROLLER_PORT, namespace

__all__ = ["COMPONENT", "TENANT_LABEL", "Tenants", "TenantsArgs", "role_rules"]

_QUEUE_ANNOTATION = "scheduling.volcano.sh/queue-name"
_CATALOG = "trainyard-catalogue"
_READ = ["get", "list", "watch"]
_WRITE = [*_READ, "create", "update", "patch", "delete"]


@dataclass(frozen=True)
class TenantsArgs:
    """Arguments of the Tenants component.

    Parameters
    ----------
    settings
        Settings of the stack.
    objects
        Objects of other components in the namespace of each tenant, by tenant.
    retired
        By retired tenant, what the deletion of its namespace does, for the preview.
    """

    settings: StackSettings
    objects: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    retired: Mapping[str, str] = field(default_factory=dict)


class Tenants(Component):
    """The tenants of a stack.

    Their namespaces inherit ``opts.depends_on``: queues, controllers, webhook configurations, runtimes and policies.
    """

    def __init__(self, name: str, args: TenantsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("tenants", name, opts)
        settings = args.settings
        for tenant in settings.retired_tenants:
            deleted = self.retire(namespace(tenant))
            if effect := args.retired.get(tenant):
                pulumi.log.warn(f"Tenant {tenant!r} is retired: {effect}", deleted)
        for tenant, tenant_settings in settings.active_tenants.items():
            self._tenant(tenant, tenant_settings, TrainerSettings.of(settings))
            own_namespace = self.namespaces[tenant]
            for each in (*_network_policies(tenant, settings), *args.objects.get(tenant, ())):
                self.child(each, depends_on=[own_namespace], deleted_with=own_namespace)
        self._catalog_readers(settings.active_tenants)
        self.register_outputs({})

    def _tenant(self, tenant: str, settings: TenantSettings, trainer: TrainerSettings) -> None:
        own_namespace = self.namespaces[tenant] = self.child(_namespace(tenant, settings), inherit_depends_on=True)
        objects = [tenant_policy(tenant, settings), _no_foreign_neighbors(tenant)]
        if trainer.install is True:
            controller = service_account_subject(CONTROLLER_SERVICE, trainer.namespace)
            objects.append(role_binding(KEYS_ROLE, tenant, [controller], kind="ClusterRole"))
        if settings.object_quota:
            objects.append(_quota(tenant, settings))
        for each in objects:
            self.child(each, depends_on=[own_namespace], deleted_with=own_namespace)
        self._usage_readers(tenant, settings, trainer, own_namespace)
        for role_name, groups in _groups(settings).items():
            if role_name is Role.RAW and not groups:
                continue
            allowed = self.child(
                role(role_name.value, tenant, role_rules(role_name)),
                depends_on=[own_namespace],
                deleted_with=own_namespace,
            )
            if groups:
                binding = role_binding(role_name.value, tenant, [group(each) for each in groups])
                self.child(binding, depends_on=[own_namespace, allowed], deleted_with=own_namespace)

    def _usage_readers(
        self, tenant: str, settings: TenantSettings, trainer: TrainerSettings, own_namespace: KubernetesObject
    ) -> None:
        """Let every role of a tenant read the tenant's part of the record of usage, and that of the queues."""
        groups = sorted({name for names in _groups(settings).values() for name in names})
        if not groups or trainer.install is not True or not trainer.record_usage:
            return
        names = [HEAD, *names_of(""), *names_of(tenant)]
        rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": names, "verbs": ["get"]}
        name = f"{HEAD}-{tenant}"
        allowed = self.child(role(name, trainer.namespace, [rule]), depends_on=[own_namespace])
        binding = role_binding(name, trainer.namespace, [group(each) for each in groups])
        self.child(binding, depends_on=[own_namespace, allowed])

    def _catalog_readers(self, tenants: Mapping[str, TenantSettings]) -> None:
        """Let every role of a tenant read runtimes, queues and the fabric, which are cluster-scoped."""
        groups = sorted(
            {name for settings in tenants.values() for names in _groups(settings).values() for name in names}
        )
        if not groups:
            return
        rules = [
            {"apiGroups": ["trainer.kubeflow.org"], "resources": ["clustertrainingruntimes"], "verbs": _READ},
            {"apiGroups": ["trainyard.dev"], "resources": ["platforms"], "verbs": _READ},
            {"apiGroups": ["scheduling.volcano.sh"], "resources": ["queues"], "verbs": _READ},
            {"apiGroups": ["topology.volcano.sh"], "resources": ["hypernodes"], "verbs": _READ},
            {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": _READ},
        ]
        allowed = self.child(cluster_role(_CATALOG, rules))
        self.child(cluster_role_binding(_CATALOG, _CATALOG, [group(name) for name in groups]), depends_on=[allowed])


def role_rules(role_name: Role) -> list[dict[str, Any]]:
    """Return the RBAC rules of a role in its tenant's namespace.

    No role grants ``bus.volcano.sh/commands``: a command can close a queue for all its users. Rule OBJ-001 protects the
    ConfigMaps and Secrets of TrainJobs, whose names are reserved. PodGroups of pods without a controller are their
    user's; rules OBJ-001 and GNG-006 protect all others, and QUE-002 decides on the queue.
    """
    submit = [
        {"apiGroups": ["trainer.kubeflow.org"], "resources": ["trainjobs"], "verbs": _WRITE},
        {"apiGroups": ["trainer.kubeflow.org"], "resources": ["trainingruntimes"], "verbs": _READ},
        {"apiGroups": ["trainyard.dev"], "resources": ["tenantpolicies"], "verbs": _READ},
        {"apiGroups": [""], "resources": ["configmaps", "secrets", "persistentvolumeclaims"], "verbs": _WRITE},
        {"apiGroups": [""], "resources": ["pods", "pods/log", "events", "resourcequotas"], "verbs": _READ},
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": _READ},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": _READ},
        {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": _READ},
        {"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups"], "verbs": _READ},
        {"apiGroups": ["wgpolicyk8s.io"], "resources": ["policyreports"], "verbs": _READ},
    ]
    author = [{"apiGroups": ["trainer.kubeflow.org"], "resources": ["trainingruntimes"], "verbs": _WRITE}]
    raw = [
        {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": _WRITE},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": _WRITE},
        {"apiGroups": [""], "resources": ["pods"], "verbs": _WRITE},
        {"apiGroups": ["batch.volcano.sh"], "resources": ["jobs"], "verbs": _WRITE},
        {"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups"], "verbs": _WRITE},
    ]
    return submit + {Role.SUBMIT: [], Role.AUTHOR: author, Role.RAW: raw}[role_name]


def _groups(settings: TenantSettings) -> dict[Role, tuple[str, ...]]:
    roles = settings.roles
    return {Role.SUBMIT: roles.submit, Role.AUTHOR: roles.author, Role.RAW: roles.raw}


def _namespace(tenant: str, settings: TenantSettings) -> dict[str, Any]:
    labels = namespace_labels(tenant, settings)
    body = namespace(tenant, pod_security=settings.pod_security.value, labels=labels)
    facts = tenant_facts(tenant_policy(tenant, settings)["spec"])
    # The controller writes these annotations after a manual change of the TenantPolicy; force lets `up` restore them.
    body["metadata"]["annotations"] = {_QUEUE_ANNOTATION: default_queue(settings), **facts, FORCED_ANNOTATION: "true"}
    return body


def _quota(tenant: str, settings: TenantSettings) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "tenant", "namespace": tenant},
        "spec": {"hard": dict(settings.object_quota)},
    }


def _no_foreign_neighbors(tenant: str) -> dict[str, Any]:
    """Return a quota of zero pods with affinity to other namespaces: the wall behind rule TEN-010.

    It also applies to the pods of controllers whose templates no rule evaluates, such as those of an operator.
    """
    scope = {"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "cross-namespace-affinity", "namespace": tenant},
        "spec": {"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [scope]}},
    }


def _network_policies(tenant: str, settings: StackSettings) -> list[dict[str, Any]]:
    if not settings.network_policies.tenants:
        return []
    trainer = TrainerSettings.of(settings)
    status_server = (trainer.namespace, CONTROLLER_PORT) if trainer.progress_reports else None
    return [tenant_network_policy(tenant, settings.network_policies, status_server)]


def _install(context: Installation, needed: Resources) -> Tenants:
    args = TenantsArgs(context.settings, context.tenant_objects, context.retired_tenants)
    return Tenants("tenants", args, context.options_after(*needed.ready))


COMPONENT: Final = Declaration(
    name="tenants",
    order=90,
    install=_install,
    needs_all=Group.OTHERS,
    namespaced_kinds={("trainyard.dev/v1alpha1", "TenantPolicy"): "tenantpolicies"},
)
