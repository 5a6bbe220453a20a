"""Volcano: its CustomResourceDefinitions, permissions, scheduler, controllers and admission webhooks.

The admission program waits for its webhook configurations and only then serves, so these come before it; it reads its
certificate from a Secret that the trainer controller's leader makes. The scheduler makes the queues root and default
through the queue webhooks and gives up after a minute without them, so it comes last.
"""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass
from typing import Any

import pulumi

from components.objects import Component, KubernetesObject
from components.rbac import cluster_role, cluster_role_binding, service_account, service_account_subject
from components.target import Target
from components.webhooks import outside_of, retargeted
from components.workload import ConfigVolume, SecretVolume, Workload, deployment, namespace, service
from trainyard import upstream
from trainyard.settings.platform import VolcanoSettings
from trainyard.settings.versions import component_release

__all__ = [
    "ADMISSION_SECRET",
    "ADMISSION_SERVICE",
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

_ADDED = {"volcano-admission": ({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},)}
"""What upstream's roles lack: the webhook that the installer leaves out reads the queue of a PodGroup's namespace."""

_CERTIFICATES = "/admission.local.config/certificates"
_HEALTH = {"httpGet": {"path": "/healthz", "port": "health"}}


@dataclass(frozen=True)
class VolcanoArgs:
    """What Volcano is made from.

    Parameters
    ----------
    settings
        Version, namespace and replicas.
    scheduler_configuration
        Text of ``volcano-scheduler.conf``.
    target
        The cluster.
    """

    settings: VolcanoSettings
    scheduler_configuration: str
    target: Target


class Volcano(Component):
    """Volcano.

    Attributes
    ----------
    crds
        CustomResourceDefinitions; what uses Volcano's kinds comes after them.
    homes
        Its namespace by name; what is put into it comes after it.
    ready
        Deployments and webhook configurations; every queue, HyperNode and job comes after them.
    """

    def __init__(self, name: str, args: VolcanoArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("volcano", name, opts)
        self.crds: list[KubernetesObject] = []
        self.homes: dict[str, KubernetesObject] = {}
        self.ready: list[KubernetesObject] = []
        if args.settings.install is True:
            self._install(args)
        self.register_outputs({})

    def _install(self, args: VolcanoArgs) -> None:
        settings, target = args.settings, args.target
        version = settings.version
        home = self.homes[settings.namespace] = self.child(namespace(settings.namespace))
        self.crds = [self.child(definition) for definition in custom_resource_definitions(version)]
        configurations = webhook_configurations(settings, target)
        admission, controllers, schedulers = _workloads(args, [_path(each) for each in configurations])

        permissions = {w.name: self._permissions(w, version) for w in (admission, controllers, schedulers)}
        # A new configuration is a new object: the scheduler starts with it, and only when it runs the former one goes.
        conf = self.child(
            _config_map(
                _configuration_name(args.scheduler_configuration),
                settings.namespace,
                {
                    "volcano-scheduler.conf": args.scheduler_configuration,
                },
            ),
            after=[home],
        )
        # The controllers look for this one by name, to learn whether they are to discover the network themselves.
        discovery = self.child(
            _config_map("volcano-controller-configmap", settings.namespace, {"volcano-controller.conf": ""}),
            after=[home],
        )
        services = [
            self.child(service(admission, ADMISSION_SERVICE, {"https": (443, "webhook")}), after=[home]),
            self.child(
                service(controllers, "volcano-controllers-service", {"metrics": (8081, "metrics")}),
                after=[home],
            ),
            self.child(service(schedulers, "volcano-scheduler-service", {"metrics": (8080, "metrics")}), after=[home]),
        ]
        webhooks = [self.child(each, after=[*self.crds, services[0]]) for each in configurations]
        admitted = self.child(deployment(admission), after=[*permissions[admission.name], *webhooks])
        controlled = self.child(deployment(controllers), after=[*permissions[controllers.name], discovery, *self.crds])
        scheduled = self.child(deployment(schedulers), after=[*permissions[schedulers.name], conf, admitted])
        self.ready = [*webhooks, admitted, controlled, scheduled]

    def _permissions(self, workload: Workload, version: str) -> list[KubernetesObject]:
        rules = _rules(version, workload.name)
        role = self.child(cluster_role(workload.name, rules))
        account = self.child(service_account(workload.name, workload.namespace), after=list(self.homes.values()))
        subject = service_account_subject(workload.name, workload.namespace)
        binding = self.child(
            cluster_role_binding(f"{workload.name}-role", workload.name, [subject]), after=[role, account]
        )
        return [account, binding]


def custom_resource_definitions(version: str) -> list[dict[str, Any]]:
    """Return Volcano's CustomResourceDefinitions, JobFlow's among them, without descriptions."""
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

    return [outside_of(retargeted(each, client_config), target.system_namespaces) for each in found]


def _podgroup_defaulting(configurations: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the webhook that gives a PodGroup its namespace's queue; the installer leaves it out."""
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
    # Only upstream's installation hook signs certificates; here the trainer controller makes them.
    return [*(rule for rule in rules if "certificates.k8s.io" not in rule["apiGroups"]), *_ADDED.get(name, ())]


def _config_map(name: str, namespace_name: str, data: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace_name},
        "data": data,
    }


def _configuration_name(text: str) -> str:
    return f"volcano-scheduler-configuration-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def _workloads(args: VolcanoArgs, admissions: list[str]) -> tuple[Workload, Workload, Workload]:
    settings, target = args.settings, args.target
    elect = settings.replicas > 1
    tag = component_release("volcano", settings.version).tag
    admission = Workload(
        name="volcano-admission",
        namespace=settings.namespace,
        program="vc-webhook-manager",
        image=target.images.reference("vc-webhook-manager", tag),
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
        node_selector=target.node_selector,
    )
    controllers = Workload(
        name="volcano-controllers",
        namespace=settings.namespace,
        program="vc-controller-manager",
        image=target.images.reference("vc-controller-manager", tag),
        command=("/vc-controller-manager",),
        args=(
            f"--leader-elect={str(elect).lower()}",
            f"--leader-elect-resource-namespace={settings.namespace}",
            "--enable-healthz=true",
            "--enable-metrics=true",
            "--logtostderr",
            "-v=2",
        ),
        replicas=settings.replicas,
        ports={"metrics": 8081, "health": 11251},
        readiness=_HEALTH,
        liveness=_HEALTH,
        memory=("128Mi", "4Gi"),
        env={"KUBE_POD_NAMESPACE": settings.namespace, "HELM_RELEASE_NAME": "volcano"},
        single=not elect,
        node_selector=target.node_selector,
    )
    schedulers = Workload(
        name="volcano-scheduler",
        namespace=settings.namespace,
        program="vc-scheduler",
        image=target.images.reference("vc-scheduler", tag),
        command=("/vc-scheduler",),
        args=(
            "--scheduler-conf=/volcano.scheduler/volcano-scheduler.conf",
            # Else a configuration that cannot be read is replaced by the built-in one; only a log line tells.
            "--disable-default-scheduler-config=true",
            f"--leader-elect={str(elect).lower()}",
            f"--leader-elect-resource-namespace={settings.namespace}",
            "--enable-healthz=true",
            "--enable-metrics=true",
            "--logtostderr",
            "-v=2",
        ),
        replicas=settings.replicas,
        ports={"metrics": 8080, "health": 11251},
        readiness=_HEALTH,
        liveness=_HEALTH,
        cpu="500m",
        memory=("256Mi", "8Gi"),
        volumes=(ConfigVolume(_configuration_name(args.scheduler_configuration), "/volcano.scheduler"),),
        env={"DEBUG_SOCKET_DIR": "/tmp/klog-socks"},  # noqa: S108 - a pod's own emptyDir
        single=not elect,
        node_selector=target.node_selector,
    )
    return admission, controllers, schedulers
