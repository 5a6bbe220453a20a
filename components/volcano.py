"""Volcano: its CustomResourceDefinitions, permissions, scheduler, controllers and admission webhooks.

The admission Deployment depends on the webhook configurations, because the program serves only once they exist. It
reads its certificate from a Secret that the trainer controller's leader writes. The scheduler creates the queues root
and default through the queue webhooks and exits after a minute without them, so it depends on the admission Deployment.
"""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass
from typing import Any, Final

import pulumi

from trainyard import upstream
from trainyard.platform.takeover.scheduler_drift import check_scheduler
from trainyard.scheduling.scheduler import stack_configuration
from trainyard.settings.sections.volcano import VolcanoSettings
from trainyard.settings.versions import component_release

from .common.bounded_amounts import with_bounded_amounts
from .common.declaration import Declaration, Resources, WebhookServer
from .common.installation import Installation
from .common.network_policies import program_policy
from .common.objects import Component, KubernetesObject
from .common.pod_settings import KLOG
from .common.program_deployments import declare_program
from .common.rbac import cluster_role, cluster_role_binding, service_account, service_account_subject
from .common.target import Target
from .common.workload import ConfigVolume, SecretVolume, Workload, config_map, namespace, service
from .hooks.webhooks import excluding_namespaces, with_client_configs

__all__ = [
    "ADMISSION_SECRET",
    "ADMISSION_SERVICE",
    "COMPONENT",
    "MANIFESTS",
    "Volcano",
    "VolcanoArgs",
    "custom_resource_definitions",
    "webhook_configurations",
]

ADMISSION_SECRET = "volcano-admission-secret"  # noqa: S105 - a name
ADMISSION_SERVICE = "volcano-admission-service"

_INSTALLER = "installer/volcano-development.yaml"
_CRDS = (
    *(
        f"config/crd/volcano/bases/{name}.yaml"
        for name in (
            "batch.volcano.sh_cronjobs",
            "batch.volcano.sh_jobs",
            "bus.volcano.sh_commands",
            "config.volcano.sh_colocationconfigurations",
            "nodeinfo.volcano.sh_numatopologies",
            "scheduling.volcano.sh_podgroups",
            "scheduling.volcano.sh_queues",
            "shard.volcano.sh_nodeshards",
            "topology.volcano.sh_hypernodes",
        )
    ),
    "config/crd/jobflow/bases/flow.volcano.sh_jobflows.yaml",
    "config/crd/jobflow/bases/flow.volcano.sh_jobtemplates.yaml",
)
MANIFESTS = (*_CRDS, _INSTALLER)
"""Upstream files that this component reads."""

_ADMISSION = "volcano-admission"
"""Deployment of vc-webhook-manager, which reads its certificate only when it starts (its cmd/webhook-manager)."""

_ADDED = {_ADMISSION: ({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},)}
"""Rules missing in upstream's roles: the webhook that the installer omits reads the queue of a PodGroup's namespace."""

_CERTIFICATES = "/admission.local.config/certificates"
_HEALTH = {"httpGet": {"path": "/healthz", "port": "health"}}


@dataclass(frozen=True)
class VolcanoArgs:
    """Arguments of the Volcano component.

    Parameters
    ----------
    settings
        Version, namespace and replicas.
    scheduler_configuration
        Text of ``volcano-scheduler.conf``.
    target
        The cluster.
    metrics_from
        Namespaces whose pods may read metrics; None: all.
    webhooks_from
        Address blocks of the API servers, which reach the webhooks; None: all addresses.
    """

    settings: VolcanoSettings
    scheduler_configuration: str
    target: Target
    metrics_from: tuple[str, ...] | None = None
    webhooks_from: tuple[str, ...] | None = None


class Volcano(Component):
    """Volcano's CustomResourceDefinitions, controllers, scheduler and webhooks.

    Attributes
    ----------
    crds
        CustomResourceDefinitions; dependencies of everything that uses Volcano's kinds.
    namespaces
        Its namespace by name; dependency of the objects inside.
    ready
        Deployments and webhook configurations; dependencies of every queue, HyperNode and job.
    """

    def __init__(self, name: str, args: VolcanoArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("volcano", name, opts)
        if args.settings.install is True:
            self._install(args)
        self.register_outputs({})

    def _install(self, args: VolcanoArgs) -> None:
        settings, target = args.settings, args.target
        version = settings.version
        own_namespace = self.namespaces[settings.namespace] = self.child(namespace(settings.namespace))
        self.crds = [self.child(definition) for definition in custom_resource_definitions(version)]
        configurations = webhook_configurations(settings, target)
        admission, controllers, schedulers = _workloads(args, [_path(each) for each in configurations])

        permissions = {w.name: self._permissions(w, version) for w in (admission, controllers, schedulers)}
        # A changed configuration is a new ConfigMap; the former one is deleted after the scheduler's roll-out.
        conf = self.child(
            config_map(
                _configuration_name(args.scheduler_configuration),
                settings.namespace,
                {
                    "volcano-scheduler.conf": args.scheduler_configuration,
                },
            ),
            depends_on=[own_namespace],
        )
        # The controllers read this ConfigMap by name; empty, it disables their own network discovery.
        discovery = self.child(
            config_map("volcano-controller-configmap", settings.namespace, {"volcano-controller.conf": ""}),
            depends_on=[own_namespace],
        )
        services = [
            self.child(service(admission, ADMISSION_SERVICE, {"https": (443, "webhook")}), depends_on=[own_namespace]),
            self.child(
                service(controllers, "volcano-controllers-service", {"metrics": (8081, "metrics")}),
                depends_on=[own_namespace],
            ),
            self.child(
                service(schedulers, "volcano-scheduler-service", {"metrics": (8080, "metrics")}),
                depends_on=[own_namespace],
            ),
        ]
        for workload in (admission, controllers, schedulers):
            if (policy := _policy(workload, args)) is not None:
                self.child(policy, depends_on=[own_namespace])
        webhooks = [self.child(each, depends_on=[*self.crds, services[0]]) for each in configurations]
        admission_deployment = declare_program(self, admission, depends_on=[*permissions[admission.name], *webhooks])
        controller_deployment = declare_program(
            self, controllers, depends_on=[*permissions[controllers.name], discovery, *self.crds]
        )
        scheduler_deployment = declare_program(
            self, schedulers, depends_on=[*permissions[schedulers.name], conf, admission_deployment]
        )
        self.ready = [*webhooks, admission_deployment, controller_deployment, scheduler_deployment]

    def _permissions(self, workload: Workload, version: str) -> list[KubernetesObject]:
        rules = _rules(version, workload.name)
        role = self.child(cluster_role(workload.name, rules))
        account = self.child(
            service_account(workload.name, workload.namespace), depends_on=list(self.namespaces.values())
        )
        subject = service_account_subject(workload.name, workload.namespace)
        binding = self.child(
            cluster_role_binding(f"{workload.name}-role", workload.name, [subject]), depends_on=[role, account]
        )
        return [account, binding]


def _policy(workload: Workload, args: VolcanoArgs) -> dict[str, Any] | None:
    return program_policy(workload, webhooks_from=args.webhooks_from, metrics_from=args.metrics_from)


def custom_resource_definitions(version: str) -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of Volcano and JobFlow, without descriptions."""
    return [
        upstream.without_descriptions(definition)
        for path in _CRDS
        for definition in upstream.documents("volcano", version, path)
    ]


def webhook_configurations(settings: VolcanoSettings, target: Target) -> list[dict[str, Any]]:
    """Return Volcano's webhook configurations."""
    found = upstream.documents(
        "volcano",
        settings.version,
        _INSTALLER,
        kinds=("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
    )
    found.append(_podgroup_defaulting(found))

    def client_config(path: str) -> dict[str, Any]:
        return target.access.client_config(
            "vc-webhook-manager", service=ADMISSION_SERVICE, namespace=settings.namespace, path=path
        )

    connected = (with_bounded_amounts(with_client_configs(each, client_config)) for each in found)
    return [excluding_namespaces(each, target.system_namespaces) for each in connected]


def _podgroup_defaulting(configurations: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the webhook that sets the queue of a PodGroup from its namespace; upstream's installer omits it."""
    twin = next(each for each in configurations if each["metadata"]["name"].endswith("-podgroups-validate"))
    configuration: dict[str, Any] = copy.deepcopy(twin)
    configuration["kind"] = "MutatingWebhookConfiguration"
    configuration["metadata"]["name"] = f"{ADMISSION_SERVICE}-podgroups-mutate"
    webhook = configuration["webhooks"][0]
    webhook["name"] = "mutatepodgroup.volcano.sh"
    webhook["reinvocationPolicy"] = "Never"
    webhook["clientConfig"]["service"]["path"] = "/podgroups/mutate"
    return configuration


def _path(configuration: dict[str, Any]) -> str:
    suffix: str = configuration["metadata"]["name"].removeprefix(ADMISSION_SERVICE)
    return suffix.replace("-", "/")


def _rules(version: str, name: str) -> list[dict[str, Any]]:
    roles = upstream.documents("volcano", version, _INSTALLER, kinds=("ClusterRole",))
    rules: list[dict[str, Any]] = next(role["rules"] for role in roles if role["metadata"]["name"] == name)
    # Only upstream's installation hook signs certificates; here the trainer controller issues them.
    return [*(rule for rule in rules if "certificates.k8s.io" not in rule["apiGroups"]), *_ADDED.get(name, ())]


def _configuration_name(text: str) -> str:
    return f"volcano-scheduler-configuration-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def _workloads(args: VolcanoArgs, admissions: list[str]) -> tuple[Workload, Workload, Workload]:
    return _admission(args, admissions), _controllers(args), _scheduler(args)


def _admission(args: VolcanoArgs, admissions: list[str]) -> Workload:
    settings, target = args.settings, args.target
    return Workload(
        name=_ADMISSION,
        namespace=settings.namespace,
        pods=target.pods,
        program="vc-webhook-manager",
        log_flag=KLOG,
        image=target.images.reference("vc-webhook-manager", _tag(settings)),
        command=("/vc-webhook-manager",),
        args=(
            f"--enabled-admission={','.join(sorted(admissions))}",
            f"--tls-cert-file={_CERTIFICATES}/tls.crt",
            f"--tls-private-key-file={_CERTIFICATES}/tls.key",
            f"--ca-cert-file={_CERTIFICATES}/ca.crt",
            f"--webhook-namespace={settings.namespace}",
            f"--webhook-service-name={ADMISSION_SERVICE}",
            "--enable-healthz=true",
            "--port=8443",
            "--logtostderr",
            "-v=2",
        ),
        replicas=settings.replicas,
        ports={"webhook": 8443, "health": 11251},
        readiness={"tcpSocket": {"port": "webhook"}},
        liveness={"tcpSocket": {"port": "webhook"}, "initialDelaySeconds": 60},
        memory=("64Mi", "1Gi"),
        volumes=(SecretVolume(ADMISSION_SECRET, _CERTIFICATES),),
    )


def _controllers(args: VolcanoArgs) -> Workload:
    settings, target = args.settings, args.target
    replicas = target.pods.replicas("vc-controller-manager", settings.replicas)
    return Workload(
        name="volcano-controllers",
        namespace=settings.namespace,
        pods=target.pods,
        program="vc-controller-manager",
        log_flag=KLOG,
        image=target.images.reference("vc-controller-manager", _tag(settings)),
        command=("/vc-controller-manager",),
        args=_elected(settings, replicas),
        replicas=replicas,
        ports={"metrics": 8081, "health": 11251},
        readiness=_HEALTH,
        liveness=_HEALTH,
        memory=("128Mi", "4Gi"),
        env={"KUBE_POD_NAMESPACE": settings.namespace, "HELM_RELEASE_NAME": "volcano"},
        single=replicas == 1,
    )


def _scheduler(args: VolcanoArgs) -> Workload:
    settings, target = args.settings, args.target
    replicas = target.pods.replicas("vc-scheduler", settings.replicas)
    return Workload(
        name="volcano-scheduler",
        namespace=settings.namespace,
        pods=target.pods,
        program="vc-scheduler",
        log_flag=KLOG,
        image=target.images.reference("vc-scheduler", _tag(settings)),
        command=("/vc-scheduler",),
        args=(
            "--scheduler-conf=/volcano.scheduler/volcano-scheduler.conf",
            # Otherwise the scheduler replaces an unreadable configuration with the built-in one and only logs it.
            "--disable-default-scheduler-config=true",
            *_elected(settings, replicas),
        ),
        replicas=replicas,
        ports={"metrics": 8080, "health": 11251},
        readiness=_HEALTH,
        liveness=_HEALTH,
        cpu="500m",
        memory=("256Mi", "8Gi"),
        volumes=(ConfigVolume(_configuration_name(args.scheduler_configuration), "/volcano.scheduler"),),
        env={
            "DEBUG_SOCKET_DIR": "/tmp/klog-socks",  # noqa: S108 - a pod's own emptyDir
            # Otherwise amounts of one job that a float rounds end the scheduler of all tenants.
            "PANIC_ON_ERROR": "false",
        },
        single=replicas == 1,
    )


def _tag(settings: VolcanoSettings) -> str:
    return component_release("volcano", settings.version).tag


def _elected(settings: VolcanoSettings, replicas: int) -> tuple[str, ...]:
    """Return the arguments of a program that elects a leader among several replicas."""
    return (
        f"--leader-elect={str(replicas > 1).lower()}",
        f"--leader-elect-resource-namespace={settings.namespace}",
        "--enable-healthz=true",
        "--enable-metrics=true",
        "--logtostderr",
        "-v=2",
    )


def _install(context: Installation, _needed: Resources) -> Volcano:
    settings = context.settings
    configuration, networks = stack_configuration.configuration(settings), settings.network_policies
    readers, callers = networks.metrics_from, networks.webhooks_from
    args = VolcanoArgs(VolcanoSettings.of(settings), configuration, context.target, readers, callers)
    return Volcano("volcano", args, context.options)


COMPONENT: Final = Declaration(
    name="volcano",
    order=10,
    install=_install,
    images={
        "vc-scheduler": "docker.io/volcanosh/vc-scheduler",
        "vc-controller-manager": "docker.io/volcanosh/vc-controller-manager",
        "vc-webhook-manager": "docker.io/volcanosh/vc-webhook-manager",
    },
    manifests=MANIFESTS,
    webhooks=WebhookServer(
        secret=ADMISSION_SECRET,
        service=ADMISSION_SERVICE,
        configurations=webhook_configurations,
        deployment=_ADMISSION,
    ),
    inspect=check_scheduler,
)
