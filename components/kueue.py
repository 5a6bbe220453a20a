"""Kueue: its CustomResourceDefinitions, permissions, controller, admission webhooks and queues.

It manages TrainJobs only. Its own certificate management is disabled: the trainer controller's leader creates the
Secret. Upstream converts version v1beta1 of its kinds by a webhook whose certificate only its own management can
renew; the kinds are served in v1beta2, the stored version, alone. Without the conversion, v1beta1 would lose fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import pulumi
import yaml

from trainyard import upstream
from trainyard.kube.training_kinds import RESOURCE_FLAVORS
from trainyard.settings.sections.kueue import KueueSettings
from trainyard.settings.stack import StackSettings
from trainyard.settings.versions import component_release

from .common.bounded_amounts import with_bounded_amounts
from .common.declaration import Declaration, Resources, WebhookServer
from .common.installation import Installation
from .common.kueue_queues import local_queues, queue_objects
from .common.network_policies import program_policy
from .common.objects import Component
from .common.pod_settings import ZAP_LOG
from .common.program_deployments import declare_permissions, declare_program
from .common.rbac import group, role, role_binding
from .common.target import Target
from .common.workload import ConfigVolume, SecretVolume, Workload, config_map, configured_by, namespace, service
from .hooks.webhooks import (
    WebhookReadinessHook,
    excluding_namespaces,
    wait_for_ca_bundles,
    with_client_configs,
)

__all__ = [
    "COMPONENT",
    "MANIFESTS",
    "Kueue",
    "KueueArgs",
    "configuration",
    "custom_resource_definitions",
    "webhook_configurations",
]

_NAME = "kueue-controller-manager"
_SECRET = "kueue-webhook-server-cert"  # noqa: S105 - a name
_SERVICE = "kueue-webhook-service"

_KINDS: Final = {
    "admissionchecks": "AdmissionCheck",
    "clusterqueues": "ClusterQueue",
    "cohorts": "Cohort",
    "localqueues": "LocalQueue",
    "multikueueclusters": "MultiKueueCluster",
    "multikueueconfigs": "MultiKueueConfig",
    "provisioningrequestconfigs": "ProvisioningRequestConfig",
    "resourceflavors": "ResourceFlavor",
    "topologies": "Topology",
    "workloadpriorityclasses": "WorkloadPriorityClass",
    "workloads": "Workload",
}
_CRDS = tuple(f"config/components/crd/bases/kueue.x-k8s.io_{plural}.yaml" for plural in _KINDS)
_ROLE = "config/components/rbac/role.yaml"
_METRICS = "config/components/rbac/metrics_auth_role.yaml"
_ELECTION = "config/components/rbac/leader_election_role.yaml"
_WEBHOOKS = "config/components/webhook/manifests.yaml"
MANIFESTS = (*_CRDS, _ROLE, _METRICS, _ELECTION, _WEBHOOKS)
"""Upstream files that this component reads."""

_API, _SERVED = RESOURCE_FLAVORS.api_version, RESOURCE_FLAVORS.version
_READ = ("get", "list", "watch")
_GROUPS: Final = {
    "": ("events", "limitranges", "namespaces", "nodes", "pods", "pods/status"),
    "jobset.x-k8s.io": ("jobsets",),
    "kueue.x-k8s.io": None,
    "node.k8s.io": None,
    "scheduling.k8s.io": None,
    "trainer.kubeflow.org": None,
}
"""Resources that it needs for TrainJobs, by API group; None stands for all of upstream's role."""
_READ_ONLY = ("jobsets",)
_NEVER: Final = {"pods": "delete"}

_CONFIG_MAP = "kueue-manager-config"
_CONFIG = "/etc/kueue/config"
_CERTIFICATES = "/etc/kueue/webhook/certs"
_METRICS_CERTIFICATES = "/etc/kueue/metrics/certs"
"""Fixed in Kueue's code."""


@dataclass(frozen=True)
class KueueArgs:
    """Arguments of the Kueue component.

    Parameters
    ----------
    settings
        Version, namespace, replicas and queues.
    target
        The cluster.
    webhooks_from
        Address blocks of the API servers, which reach the webhooks; None: all addresses.
    """

    settings: KueueSettings
    target: Target
    webhooks_from: tuple[str, ...] | None = None


class Kueue(Component):
    """Kueue's CustomResourceDefinitions, controller, webhooks, and the queues of the settings.

    Attributes
    ----------
    crds
        CustomResourceDefinitions.
    namespaces
        Its namespace by name; dependency of the objects inside.
    ready
        Deployment, webhook configurations and queues; dependencies of every tenant.
    """

    def __init__(self, name: str, args: KueueArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("kueue", name, opts)
        settings, target = args.settings, args.target
        if settings.install is True:
            self._install(settings, target, args.webhooks_from)
        if settings.install is not False:
            self._queues(settings, target)
        self.register_outputs({})

    def _install(self, settings: KueueSettings, target: Target, webhooks_from: tuple[str, ...] | None) -> None:
        own_namespace = self.namespaces[settings.namespace] = self.child(namespace(settings.namespace))
        self.crds = [self.child(definition) for definition in custom_resource_definitions(settings.version)]
        text = configuration(settings)
        workload = _workload(settings, target, text)
        cluster_roles = {
            "kueue-manager-role": _manager_rules(settings.version),
            "kueue-metrics-auth-role": _rules(settings.version, _METRICS),
        }
        permissions = declare_permissions(self, workload, cluster_roles, _namespaced_rules(settings))
        files = {"controller_manager_config.yaml": text}
        file = self.child(config_map(_CONFIG_MAP, settings.namespace, files), depends_on=[own_namespace])
        webhook_service = self.child(
            service(workload, _SERVICE, {"https": (443, "webhook")}), depends_on=[own_namespace]
        )
        self.child(
            service(workload, "kueue-controller-manager-metrics-service", {"https": (8443, "metrics")}),
            depends_on=[own_namespace],
        )
        if (policy := program_policy(workload, webhooks_from=webhooks_from)) is not None:
            self.child(policy, depends_on=[own_namespace])
        manager = declare_program(self, workload, depends_on=[*permissions, file, webhook_service, *self.crds])
        webhooks = [
            self.child(wait_for_ca_bundles(each), depends_on=[manager])
            for each in webhook_configurations(settings, target)
        ]
        self.ready = [manager, *webhooks]

    def _queues(self, settings: KueueSettings, target: Target) -> None:
        """Declare flavors before the queues that use them; the first one waits until its webhook is reached."""
        installed = list(self.ready)
        before = installed
        for level in queue_objects(settings):
            sample = next((each for each in level if each["kind"] == "ResourceFlavor"), None)
            hooks = None
            if sample is not None and settings.install is True:
                hooks = WebhookReadinessHook(target.access, RESOURCE_FLAVORS, sample).binding()
            declared = [self.child(each, depends_on=before, hooks=hooks) for each in level]
            self.ready += declared
            before = [*installed, *declared] if declared else before


def custom_resource_definitions(version: str) -> list[dict[str, Any]]:
    """Return Kueue's CustomResourceDefinitions without descriptions, served in the stored version only."""
    found = []
    for path in _CRDS:
        definition = upstream.without_descriptions(upstream.documents("kueue", version, path)[0])
        for each in definition["spec"]["versions"]:
            each["served"] = each["name"] == _SERVED
            if not each["served"]:
                each["schema"] = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        found.append(definition)
    return found


def webhook_configurations(settings: KueueSettings, target: Target) -> list[dict[str, Any]]:
    """Return the webhook configurations of Kueue's own kinds, and of TrainJobs in namespaces with a LocalQueue."""

    def client_config(path: str) -> dict[str, Any]:
        return target.access.client_config("kueue", service=_SERVICE, namespace=settings.namespace, path=path)

    found = []
    for body in upstream.documents("kueue", settings.version, _WEBHOOKS):
        own = [each for each in body["webhooks"] if _groups(each) == {"kueue.x-k8s.io"}]
        jobs = [each for each in body["webhooks"] if _groups(each) == {"trainer.kubeflow.org"} and settings.tenants]
        named = {**body, "metadata": {"name": f"kueue-{body['metadata']['name']}"}, "webhooks": own}
        complete = excluding_namespaces(with_client_configs(named, client_config), target.system_namespaces)
        selected = with_bounded_amounts(with_client_configs({**named, "webhooks": jobs}, client_config))["webhooks"]
        complete["webhooks"] += [{**each, "namespaceSelector": _within(settings.tenants)} for each in selected]
        found.append(complete)
    return found


def _groups(webhook: dict[str, Any]) -> set[str]:
    return {name for rule in webhook["rules"] for name in rule["apiGroups"]}


def _within(namespaces: Iterable[str]) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(namespaces)}]}


def _rules(version: str, path: str) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = upstream.documents("kueue", version, path)[0]["rules"]
    return rules


def _manager_rules(version: str) -> list[dict[str, Any]]:
    """Return the rules of upstream's role that TrainJobs need, without those of other integrations."""
    found = []
    for rule in _rules(version, _ROLE):
        (api_group,) = rule["apiGroups"]
        if api_group not in _GROUPS:
            continue
        kept = _GROUPS[api_group]
        for resource in rule["resources"]:
            if kept is not None and resource not in kept:
                continue
            verbs = [
                verb
                for verb in rule["verbs"]
                if (resource not in _READ_ONLY or verb in _READ) and verb != _NEVER.get(resource)
            ]
            found.append({"apiGroups": [api_group], "resources": [resource], "verbs": verbs})
    return found


def _namespaced_rules(settings: KueueSettings) -> dict[str, list[dict[str, Any]]]:
    """Return the rules of the Roles in its own namespace, where MultiKueue reads kubeconfigs from Secrets."""
    found = {"kueue-leader-election-role": _rules(settings.version, _ELECTION)}
    if settings.multi_kueue is not None:
        found["kueue-manager-secrets-role"] = [{"apiGroups": [""], "resources": ["secrets"], "verbs": list(_READ)}]
    return found


def configuration(settings: KueueSettings) -> str:
    """Return the text of the manager's configuration."""
    document: dict[str, Any] = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": settings.namespace,
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": ":8443", "enableClusterQueueResources": True},
        "webhook": {"port": 9443, "certDir": _CERTIFICATES},
        "leaderElection": {
            "leaderElect": True,
            "resourceName": "c1f6bfd2.kueue.x-k8s.io",
            "resourceNamespace": settings.namespace,
        },
        "internalCertManagement": {"enable": False},
        "manageJobsWithoutQueueName": False,
        "integrations": {"frameworks": ["trainer.kubeflow.org/trainjob"]},
        # The visibility server needs a certificate of its own; MultiKueue needs Secrets with kubeconfigs. Quota that
        # Kueue releases when a part of a job succeeds is not taken back when JobSet starts the part again.
        "featureGates": {
            "VisibilityOnDemand": False,
            "MultiKueue": settings.multi_kueue is not None,
            "ReclaimablePods": False,
        },
    }
    if clusters := settings.multi_kueue:
        document["multiKueue"] = {
            "origin": clusters.origin,
            "workerLostTimeout": f"{clusters.worker_lost_timeout_seconds}s",
        }
    if wait := settings.wait_for_pods_ready:
        recovery = wait.timeout_seconds if wait.recovery_timeout_seconds is None else wait.recovery_timeout_seconds
        document["waitForPodsReady"] = {
            "timeout": f"{wait.timeout_seconds}s",
            "recoveryTimeout": f"{recovery}s",
            "blockAdmission": wait.block_admission,
            "requeuingStrategy": {
                "timestamp": "Eviction",
                "backoffLimitCount": wait.backoff_limit_count,
                "backoffBaseSeconds": wait.backoff_base_seconds,
                "backoffMaxSeconds": wait.backoff_max_seconds,
            },
        }
    return yaml.safe_dump(document, sort_keys=False)


def _workload(settings: KueueSettings, target: Target, text: str) -> Workload:
    return Workload(
        name=_NAME,
        namespace=settings.namespace,
        pods=target.pods,
        program="kueue",
        log_flag=ZAP_LOG,
        image=target.images.reference("kueue", component_release("kueue", settings.version).tag),
        command=("/manager",),
        args=(f"--config={_CONFIG}/controller_manager_config.yaml", "--zap-log-level=2"),
        replicas=settings.replicas,
        ports={"webhook": 9443, "metrics": 8443, "health": 8081},
        readiness={"httpGet": {"path": "/readyz", "port": "health"}},
        liveness={"httpGet": {"path": "/healthz", "port": "health"}},
        cpu="250m",
        memory=("256Mi", "4Gi"),
        volumes=(
            ConfigVolume(_CONFIG_MAP, _CONFIG),
            SecretVolume(_SECRET, _CERTIFICATES),
            SecretVolume(_SECRET, _METRICS_CERTIFICATES),
        ),
        annotations=configured_by(text),
    )


def _install(context: Installation, _needed: Resources) -> Kueue | None:
    settings = KueueSettings.of(context.settings)
    if settings.install is False:
        return None
    return Kueue(
        "kueue", KueueArgs(settings, context.target, context.settings.network_policies.webhooks_from), context.options
    )


def _tenant_objects(stack: StackSettings, tenant: str) -> list[dict[str, Any]]:
    """Return the LocalQueues of a tenant, and the permission of its groups to read them and its Workloads."""
    settings = KueueSettings.of(stack)
    found = local_queues(settings, tenant)
    if not found:
        return []
    roles = stack.active_tenants[tenant].roles
    groups = sorted({*roles.submit, *roles.author, *roles.raw})
    rules = [{"apiGroups": ["kueue.x-k8s.io"], "resources": ["localqueues", "workloads"], "verbs": list(_READ)}]
    access = [role("kueue", tenant, rules), role_binding("kueue", tenant, [group(each) for each in groups])]
    return [*found, *(access if groups else ())]


COMPONENT: Final = Declaration(
    name="kueue",
    order=25,
    images={"kueue": "registry.k8s.io/kueue/kueue"},
    manifests=MANIFESTS,
    cluster_kinds={
        (_API, _KINDS[plural]): plural
        for plural in (
            "admissionchecks",
            "clusterqueues",
            "multikueueclusters",
            "multikueueconfigs",
            "resourceflavors",
            "topologies",
            "workloadpriorityclasses",
        )
    },
    namespaced_kinds={(_API, "LocalQueue"): "localqueues"},
    finalized_kinds={(_API, "Workload"): "workloads"},
    webhooks=WebhookServer(secret=_SECRET, service=_SERVICE, configurations=webhook_configurations),
    install=_install,
    tenant_objects=_tenant_objects,
    replaced_fields={(_API, "LocalQueue"): ("spec.clusterQueue",)},
)
