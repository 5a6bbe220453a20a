"""JobSet: its CustomResourceDefinition, permissions, controller and admission webhooks.

JobSet's own certificate management is disabled: the trainer controller's leader creates the Secret, so that all webhook
certificates are renewed in one place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pulumi
import yaml

from trainyard import upstream
from trainyard.platform.takeover.job_set_gates import check_gates
from trainyard.settings.sections.jobset import JobSetSettings
from trainyard.settings.versions import component_release

from .common.bounded_amounts import with_bounded_amounts
from .common.declaration import Declaration, Resources, WebhookServer
from .common.installation import Installation
from .common.job_set_definition import JOB_SET_CRD, custom_resource_definition
from .common.network_policies import program_policy
from .common.objects import Component
from .common.pod_settings import ZAP_LOG
from .common.program_deployments import declare_permissions, declare_program
from .common.target import Target
from .common.workload import ConfigVolume, SecretVolume, Workload, config_map, namespace, service
from .hooks.webhooks import excluding_namespaces, wait_for_ca_bundles, with_client_configs

__all__ = [
    "COMPONENT",
    "JOBSET_SECRET",
    "JOBSET_SERVICE",
    "MANIFESTS",
    "JobSet",
    "JobSetArgs",
    "custom_resource_definition",
    "webhook_configurations",
]

JOBSET_SECRET = "jobset-webhook-server-cert"  # noqa: S105 - a name
JOBSET_SERVICE = "jobset-webhook-service"

_NAME = "jobset-controller-manager"
_ROLE = "config/components/rbac/role.yaml"
_PROXY = "config/components/rbac/auth_proxy_role.yaml"
_ELECTION = "config/components/rbac/leader_election_role.yaml"
_WEBHOOKS = "config/components/webhook/manifests.yaml"
MANIFESTS = (JOB_SET_CRD, _ROLE, _PROXY, _ELECTION, _WEBHOOKS)
"""Upstream files that this component reads."""

_CONFIG = "/etc/jobset"
_CERTIFICATES = "/etc/jobset-certificates"


@dataclass(frozen=True)
class JobSetArgs:
    """Arguments of the JobSet component."""

    settings: JobSetSettings
    target: Target
    webhooks_from: tuple[str, ...] | None = None


class JobSet(Component):
    """JobSet's CustomResourceDefinition, controller and webhooks.

    Attributes
    ----------
    crds
        The CustomResourceDefinition; dependency of everything that uses JobSets.
    namespaces
        Its namespace by name; dependency of the objects inside.
    ready
        Deployment and webhook configurations; dependencies of every JobSet.
    """

    def __init__(self, name: str, args: JobSetArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("jobset", name, opts)
        if args.settings.install is True:
            self._install(args)
        self.register_outputs({})

    def _install(self, args: JobSetArgs) -> None:
        settings = args.settings
        workload = _workload(args)
        own_namespace = self.namespaces[settings.namespace] = self.child(namespace(settings.namespace))
        self.crds = [self.child(custom_resource_definition(settings.version))]
        cluster_roles = {"jobset-manager-role": _ROLE, "jobset-proxy-role": _PROXY}
        permissions = declare_permissions(
            self,
            workload,
            {name: _rules(settings.version, path) for name, path in cluster_roles.items()},
            {"jobset-leader-election-role": _rules(settings.version, _ELECTION)},
        )
        configuration = self.child(_configuration(settings), depends_on=[own_namespace])
        webhook_service = self.child(
            service(workload, JOBSET_SERVICE, {"https": (443, "webhook")}), depends_on=[own_namespace]
        )
        self.child(
            service(workload, "jobset-controller-manager-metrics-service", {"https": (8443, "metrics")}),
            depends_on=[own_namespace],
        )
        if (policy := program_policy(workload, webhooks_from=args.webhooks_from)) is not None:
            self.child(policy, depends_on=[own_namespace])
        manager = declare_program(self, workload, depends_on=[*permissions, configuration, webhook_service, *self.crds])
        webhooks = [
            self.child(wait_for_ca_bundles(each), depends_on=[manager])
            for each in webhook_configurations(settings, args.target)
        ]
        self.ready = [manager, *webhooks]


def _rules(version: str, path: str) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = upstream.documents("jobset", version, path)[0]["rules"]
    return rules


def webhook_configurations(settings: JobSetSettings, target: Target) -> list[dict[str, Any]]:
    """Return JobSet's webhook configurations."""

    def client_config(path: str) -> dict[str, Any]:
        return target.access.client_config("jobset", service=JOBSET_SERVICE, namespace=settings.namespace, path=path)

    found = []
    for configuration in upstream.documents("jobset", settings.version, _WEBHOOKS):
        name = f"jobset-{configuration['metadata']['name']}"
        webhooks = [_only_jobset_pods(webhook) for webhook in configuration["webhooks"]]
        body = {**configuration, "metadata": {"name": name}, "webhooks": webhooks}
        connected = with_bounded_amounts(with_client_configs(body, client_config))
        found.append(excluding_namespaces(connected, target.system_namespaces))
    return found


def _only_jobset_pods(webhook: dict[str, Any]) -> dict[str, Any]:
    """Restrict pod webhooks to the pods of JobSets; upstream adds this selector when it builds its release."""
    if not any("pods" in rule["resources"] for rule in webhook["rules"]):
        return webhook
    selector = {"matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]}
    return {**webhook, "objectSelector": selector}


def _configuration(settings: JobSetSettings) -> dict[str, Any]:
    document: dict[str, Any] = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "webhook": {"port": 9443, "certDir": _CERTIFICATES},
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": ":8443"},
        "leaderElection": {"leaderElect": True},
        "internalCertManagement": {"enable": False},
    }
    if settings.feature_gates:
        document["featureGates"] = {gate.value: True for gate in settings.feature_gates}
    files = {"controller_manager_config.yaml": yaml.safe_dump(document, sort_keys=False)}
    return config_map("jobset-manager-config", settings.namespace, files)


def _workload(args: JobSetArgs) -> Workload:
    settings, target = args.settings, args.target
    return Workload(
        name=_NAME,
        namespace=settings.namespace,
        pods=target.pods,
        program="jobset",
        log_flag=ZAP_LOG,
        image=target.images.reference("jobset", component_release("jobset", settings.version).tag),
        command=("/manager",),
        args=(f"--config={_CONFIG}/controller_manager_config.yaml", "--zap-log-level=2"),
        replicas=settings.replicas,
        ports={"webhook": 9443, "metrics": 8443, "health": 8081},
        readiness={"httpGet": {"path": "/readyz", "port": "health"}},
        liveness={"httpGet": {"path": "/healthz", "port": "health"}},
        cpu="250m",
        memory=("128Mi", "4Gi"),
        volumes=(ConfigVolume("jobset-manager-config", _CONFIG), SecretVolume(JOBSET_SECRET, _CERTIFICATES)),
        annotations=_gates_annotation(settings),
    )


def _gates_annotation(settings: JobSetSettings) -> dict[str, str]:
    """Return a pod annotation that restarts the manager when its feature gates change: it reads them at start."""
    gates = ",".join(sorted(gate.value for gate in settings.feature_gates))
    return {"trainyard.dev/feature-gates": gates} if gates else {}


def _install(context: Installation, _needed: Resources) -> JobSet:
    settings = context.settings
    args = JobSetArgs(JobSetSettings.of(settings), context.target, settings.network_policies.webhooks_from)
    return JobSet("jobset", args, context.options)


COMPONENT: Final = Declaration(
    name="jobset",
    order=20,
    install=_install,
    images={"jobset": "registry.k8s.io/jobset/jobset"},
    manifests=MANIFESTS,
    webhooks=WebhookServer(secret=JOBSET_SECRET, service=JOBSET_SERVICE, configurations=webhook_configurations),
    inspect=check_gates,
)
