"""The trainer API and Trainyard's controller, which also issues the webhook certificates of Volcano and JobSet.

Its Deployment depends on the CustomResourceDefinitions of Volcano and JobSet but not on their Deployments: these become
ready only after this controller's leader has written their Secrets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pulumi

import trainyard
from trainyard.api.constants import CONTROLLER_SERVICE, WEBHOOK_VALIDATION_DISABLED, WEBHOOK_VALIDATION_LABEL
from trainyard.api.crds import build
from trainyard.controller.configuration import (
    SERVING_SECRET,
    WEBHOOK_TIMEOUT_SECONDS,
    Certificate,
    Configuration,
    WebhookClients,
)
from trainyard.controller.permissions import KEYS_ROLE, cluster_rules, key_rules, namespaced_rules
from trainyard.settings.sections.jobset import JobSetSettings
from trainyard.settings.sections.trainer import TrainerSettings

from .common.declaration import Declaration, Group, Resources, certificate
from .common.flow_control import flow_schemas, priority_levels
from .common.installation import Installation
from .common.job_set_definition import custom_resource_definition
from .common.network_policies import program_policy
from .common.objects import Component
from .common.pod_settings import CONTROLLER_LOG
from .common.policy_server import PolicyServerParts, policy_server
from .common.program_deployments import declare_program
from .common.rbac import (
    cluster_role,
    cluster_role_binding,
    group,
    role,
    role_binding,
    service_account,
    service_account_subject,
)
from .common.target import Target
from .common.workload import CONTROLLER_PORT, ConfigVolume, Workload, config_map, configured_by, namespace, service
from .hooks.webhooks import wait_for_ca_bundles

__all__ = ["COMPONENT", "DEFAULTER", "VALIDATOR", "Trainer", "TrainerArgs"]

VALIDATOR = "validator.trainer.kubeflow.org"
DEFAULTER = "defaulter.trainer.kubeflow.org"

API_LEVEL = "v2.3.0"
"""The upstream release whose API this controller serves; the Kubeflow SDK reads it."""

_PROGRAM = "trainyard-controller"
_CONFIG = "/etc/trainyard"
_PATH = "trainer-kubeflow-org-v1alpha1"


@dataclass(frozen=True)
class TrainerArgs:
    """Arguments of the Trainer component.

    Parameters
    ----------
    settings
        Namespace, replicas, workers.
    target
        The cluster.
    jobset_definition
        JobSet's CustomResourceDefinition, whose schema is embedded in that of runtimes.
    certificates
        Certificates that the leader issues for other components.
    policies
        The policy server in the controller's pod.
    crds
        CustomResourceDefinitions of Volcano and JobSet: the controller starts after them, and is deleted before them.
    namespaces
        Further namespaces, by name, in which the leader writes certificates.
    metrics_from
        Namespaces whose pods may read metrics; None: all.
    webhooks_from
        Address blocks of the API servers, which reach the webhooks; None: all addresses.
    """

    settings: TrainerSettings
    target: Target
    jobset_definition: Mapping[str, Any]
    certificates: tuple[Certificate, ...]
    policies: PolicyServerParts
    crds: Sequence[pulumi.Resource] = ()
    namespaces: Mapping[str, pulumi.Resource] = field(default_factory=dict)
    metrics_from: tuple[str, ...] | None = None
    webhooks_from: tuple[str, ...] | None = None


class Trainer(Component):
    """The trainer API and its controller.

    Attributes
    ----------
    crds
        CustomResourceDefinitions; dependencies of everything that uses the trainer's kinds.
    ready
        Deployment and webhook configurations; dependencies of every runtime and TrainJob.
    """

    def __init__(self, name: str, args: TrainerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("trainer", name, opts)
        if args.settings.install is True:
            self._install(args)
        self.register_outputs({})

    def _install(self, args: TrainerArgs) -> None:
        settings = args.settings
        configuration = _configuration(args)
        workload = _workload(args, configuration)
        own_namespace = self.child(namespace(settings.namespace))
        self.crds = [self.child(definition) for definition in build(args.jobset_definition)]
        permissions = self._permissions(configuration, {settings.namespace: own_namespace, **args.namespaces})
        levels = [self.child(level) for level in priority_levels()]
        flows = [
            self.child(schema, depends_on=levels) for schema in flow_schemas(CONTROLLER_SERVICE, settings.namespace)
        ]
        file = self.child(
            config_map("trainyard-controller-config", settings.namespace, {"config.yaml": configuration.as_yaml()}),
            depends_on=[own_namespace],
        )
        rules = self.child(args.policies.rules, depends_on=[own_namespace])
        ports = {"https": (443, "webhook"), "metrics": (8443, "metrics"), "status-server": (10443, "webhook")}
        webhook_service = self.child(service(workload, CONTROLLER_SERVICE, ports), depends_on=[own_namespace])
        self._publish_version(settings.namespace, own_namespace)
        policy = program_policy(
            workload,
            webhooks_from=args.webhooks_from,
            metrics_from=args.metrics_from,
            reports=settings.progress_reports,
        )
        if policy is not None:
            self.child(policy, depends_on=[own_namespace])
        controller = declare_program(
            self,
            workload,
            depends_on=[*permissions, *flows, file, rules, webhook_service, *self.crds, *args.crds],
        )
        webhooks = [
            self.child(wait_for_ca_bundles(each), depends_on=[controller]) for each in _webhook_configurations(args)
        ]
        self.ready = [controller, *webhooks]

    def _permissions(
        self, configuration: Configuration, namespaces: Mapping[str, pulumi.Resource]
    ) -> list[pulumi.Resource]:
        own = configuration.namespace
        subject = service_account_subject(CONTROLLER_SERVICE, own)
        account = self.child(service_account(CONTROLLER_SERVICE, own), depends_on=[namespaces[own]])
        granted = self.child(cluster_role(CONTROLLER_SERVICE, cluster_rules(configuration)))
        keys = self.child(cluster_role(KEYS_ROLE, key_rules()))
        bindings: list[pulumi.Resource] = [
            self.child(
                cluster_role_binding(CONTROLLER_SERVICE, CONTROLLER_SERVICE, [subject]), depends_on=[granted, account]
            )
        ]
        for name, own_namespace in namespaces.items():
            rules = namespaced_rules(name, configuration)
            if rules:
                allowed = self.child(role(CONTROLLER_SERVICE, name, rules), depends_on=[own_namespace])
                bindings.append(
                    self.child(role_binding(CONTROLLER_SERVICE, name, [subject]), depends_on=[allowed, account])
                )
        return [account, keys, *bindings]

    def _publish_version(self, name: str, own_namespace: pulumi.Resource) -> None:
        """Publish the version of the trainer API, which clients read before they submit."""
        public = "kubeflow-trainer-public"
        self.child(config_map(public, name, {"kubeflow_trainer_version": API_LEVEL}), depends_on=[own_namespace])
        rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [public], "verbs": ["get"]}
        allowed = self.child(role(public, name, [rule]), depends_on=[own_namespace])
        self.child(role_binding(public, name, [group("system:authenticated")]), depends_on=[allowed])


def _configuration(args: TrainerArgs) -> Configuration:
    own = certificate(
        SERVING_SECRET,
        args.settings.namespace,
        CONTROLLER_SERVICE,
        args.target,
        mutating=(DEFAULTER,),
        validating=(VALIDATOR,),
    )
    return Configuration(
        namespace=args.settings.namespace,
        workers=args.settings.workers,
        shutdown_delay_seconds=args.settings.shutdown_delay_seconds,
        coscheduling_scheduler=args.settings.coscheduling_scheduler,
        usage=args.settings.record_usage,
        certificates=(own, *args.certificates),
        policy=args.policies.configuration,
        webhook_clients=_webhook_clients(args),
    )


def _webhook_clients(args: TrainerArgs) -> WebhookClients | None:
    """Return the API servers that the settings name, or else those of the provider."""
    if (chosen := args.settings.webhook_clients) is not None:
        return WebhookClients(authority=chosen.authority, names=chosen.names)
    own = args.target.access.webhook_client
    host = args.target.access.webhook_host(_PROGRAM, service=CONTROLLER_SERVICE, namespace=args.settings.namespace)
    if own is None or host not in own.hosts:
        return None
    return WebhookClients(authority=own.authority, names=(own.name,))


def _workload(args: TrainerArgs, configuration: Configuration) -> Workload:
    settings, target = args.settings, args.target
    return Workload(
        name=CONTROLLER_SERVICE,
        namespace=settings.namespace,
        pods=target.pods,
        program="trainyard-controller",
        log_flag=CONTROLLER_LOG,
        image=target.images.reference("trainyard-controller", f"v{trainyard.__version__}"),
        command=("trainyard",),
        args=("controller", "run", f"--config={_CONFIG}/config.yaml"),
        replicas=settings.replicas,
        termination_grace_seconds=configuration.termination_grace_seconds,
        ports={"webhook": CONTROLLER_PORT, "metrics": 8443, "health": 8081},
        readiness={"httpGet": {"path": "/readyz", "port": "health"}},
        liveness={"httpGet": {"path": "/healthz", "port": "health"}},
        cpu="250m",
        memory=("192Mi", "2Gi"),
        volumes=(ConfigVolume("trainyard-controller-config", _CONFIG), *args.policies.volumes),
        sidecars=(args.policies.container,),
        env_fields=args.policies.container.env_fields,
        annotations=configured_by(configuration.as_yaml()),
    )


def _webhook_configurations(args: TrainerArgs) -> list[dict[str, Any]]:
    disabled = [WEBHOOK_VALIDATION_DISABLED]
    opt_out, opted_out = (
        {"matchExpressions": [{"key": WEBHOOK_VALIDATION_LABEL, "operator": operator, "values": disabled}]}
        for operator in ("NotIn", "In")
    )
    validating = [
        _webhook(args, "validate", "clustertrainingruntime", {"objectSelector": opt_out}),
        _webhook(args, "validate", "trainingruntime", {}),
        _webhook(args, "validate", "trainjob", {}),
        # These only warn, so nothing waits for their answer.
        _webhook(
            *(args, "validate", "clustertrainingruntime"),
            {"objectSelector": opted_out, "failurePolicy": "Ignore"},
            name="labeled",
        ),
        *(
            _webhook(args, "validate", kind, {"failurePolicy": "Ignore"}, name="deleted", operations=("DELETE",))
            for kind in ("clustertrainingruntime", "trainingruntime")
        ),
    ]
    # Defaulting only unifies the notation of runtimes; the validating webhook, which must answer, rejects invalid ones.
    notation = {"failurePolicy": "Ignore", "reinvocationPolicy": "Never"}
    mutating = [
        _webhook(args, "mutate", "trainjob", {"reinvocationPolicy": "Never"}),
        _webhook(args, "mutate", "clustertrainingruntime", {"objectSelector": opt_out, **notation}),
        _webhook(args, "mutate", "trainingruntime", notation),
    ]
    return [
        _webhook_configuration("ValidatingWebhookConfiguration", VALIDATOR, validating),
        _webhook_configuration("MutatingWebhookConfiguration", DEFAULTER, mutating),
    ]


def _webhook_configuration(kind: str, name: str, webhooks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": webhooks,
    }


def _webhook(
    args: TrainerArgs,
    verb: str,
    kind: str,
    extra: Mapping[str, Any],
    *,
    name: str = "",
    operations: Sequence[str] = ("CREATE", "UPDATE"),
) -> dict[str, Any]:
    configuration = VALIDATOR if verb == "validate" else DEFAULTER
    first, _, rest = configuration.partition(".")
    client_config = args.target.access.client_config(
        _PROGRAM,
        service=CONTROLLER_SERVICE,
        namespace=args.settings.namespace,
        path=f"/{verb}-{_PATH}-{kind}",
    )
    return {
        "name": f"{first}.{f'{name}-' if name else ''}{kind}.{rest}",
        "admissionReviewVersions": ["v1"],
        "clientConfig": client_config,
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "rules": [
            {
                "apiGroups": ["trainer.kubeflow.org"],
                "apiVersions": ["v1alpha1"],
                "operations": list(operations),
                "resources": [f"{kind}s"],
            }
        ],
        "sideEffects": "None",
        "timeoutSeconds": WEBHOOK_TIMEOUT_SECONDS,
        **extra,
    }


def _install(context: Installation, needed: Resources) -> Trainer:
    settings, target = context.settings, context.target
    definition = custom_resource_definition(JobSetSettings.of(settings).version)
    policies = policy_server(settings, target)
    args = TrainerArgs(
        TrainerSettings.of(settings),
        target,
        definition,
        context.certificates,
        policies,
        crds=needed.crds,
        namespaces=needed.namespaces,
        metrics_from=settings.network_policies.metrics_from,
        webhooks_from=settings.network_policies.webhooks_from,
    )
    return Trainer("trainer", args, context.options)


COMPONENT: Final = Declaration(
    name="trainer",
    order=30,
    install=_install,
    needs_all=Group.WEBHOOK_SERVERS,
    images={
        "trainyard-controller": "localhost/trainyard-controller",
        "opa": "docker.io/openpolicyagent/opa",
    },
)
