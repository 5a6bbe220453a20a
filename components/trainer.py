"""The trainer API and Trainyard's controller, which also makes the webhook certificates of Volcano and JobSet.

Its Deployment comes after the CustomResourceDefinitions of Volcano and JobSet but not after their Deployments: those
become ready only when this controller's leader has written their Secrets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

import trainyard
from components.flow_control import flow_schemas, priority_levels
from components.objects import Component, KubernetesObject
from components.policy_server import PolicyServerParts
from components.rbac import (
    cluster_role,
    cluster_role_binding,
    group,
    role,
    role_binding,
    service_account,
    service_account_subject,
)
from components.target import Target
from components.webhooks import awaited
from components.workload import ConfigVolume, Workload, deployment, namespace, service
from trainyard.api.constants import CONTROLLER_SERVICE
from trainyard.api.crds import build
from trainyard.controller.configuration import (
    SERVING_SECRET,
    WEBHOOK_TIMEOUT_SECONDS,
    Certificate,
    Configuration,
)
from trainyard.controller.permissions import KEYS_ROLE, cluster_rules, key_rules, namespaced_rules
from trainyard.settings.platform import TrainerSettings

__all__ = ["DEFAULTER", "TRAINER_SERVICE", "VALIDATOR", "Trainer", "TrainerArgs", "certificate"]

TRAINER_SERVICE = CONTROLLER_SERVICE
VALIDATOR = "validator.trainer.kubeflow.org"
DEFAULTER = "defaulter.trainer.kubeflow.org"

API_LEVEL = "v2.3.0"
"""The release of the trainer API that clients may take this one for; the Kubeflow SDK reads it."""

_CONFIG = "/etc/trainyard"
_PATH = "trainer-kubeflow-org-v1alpha1"


@dataclass(frozen=True)
class TrainerArgs:
    """What the trainer is made from.

    Parameters
    ----------
    settings
        Namespace, replicas, workers.
    target
        The cluster.
    jobset_definition
        JobSet's CustomResourceDefinition, whose schema is part of the runtimes'.
    certificates
        Certificates that the leader makes for others.
    policies
        The policy server in the controller's pod.
    """

    settings: TrainerSettings
    target: Target
    jobset_definition: Mapping[str, Any]
    certificates: tuple[Certificate, ...]
    policies: PolicyServerParts


class Trainer(Component):
    """The trainer API and its controller.

    Parameters
    ----------
    after
        CustomResourceDefinitions of Volcano and JobSet.
    homes
        Namespaces, by name, that the leader writes certificates into.

    Attributes
    ----------
    crds
        CustomResourceDefinitions; what uses the trainer's kinds comes after them.
    ready
        Deployment and webhook configurations; every runtime and TrainJob comes after them.
    """

    def __init__(
        self,
        name: str,
        args: TrainerArgs,
        *,
        after: Iterable[pulumi.Resource] = (),
        homes: Mapping[str, pulumi.Resource] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("trainer", name, opts)
        self.crds: list[KubernetesObject] = []
        self.ready: list[KubernetesObject] = []
        if args.settings.install is True:
            self._install(args, list(after), homes or {})
        self.register_outputs({})

    def _install(self, args: TrainerArgs, after: list[pulumi.Resource], homes: Mapping[str, pulumi.Resource]) -> None:
        settings = args.settings
        configuration = _configuration(args)
        workload = _workload(args, configuration)
        home = self.child(namespace(settings.namespace))
        self.crds = [self.child(definition) for definition in build(args.jobset_definition)]
        permissions = self._permissions(configuration, {settings.namespace: home, **homes})
        levels = [self.child(level) for level in priority_levels()]
        flows = [self.child(schema, after=levels) for schema in flow_schemas(TRAINER_SERVICE, settings.namespace)]
        file = self.child(
            _config_map("trainyard-controller-config", settings.namespace, {"config.yaml": configuration.as_yaml()}),
            after=[home],
        )
        rules = self.child(args.policies.rules, after=[home])
        ports = {"https": (443, "webhook"), "metrics": (8443, "metrics"), "status-server": (10443, "webhook")}
        webhook_service = self.child(service(workload, TRAINER_SERVICE, ports), after=[home])
        if settings.replicas > 1:
            self.child(_disruption_budget(workload), after=[home])
        self._published(settings.namespace, home)
        controller = self.child(
            deployment(workload), after=[*permissions, *flows, file, rules, webhook_service, *self.crds, *after]
        )
        webhooks = [self.child(awaited(each), after=[controller]) for each in _webhook_configurations(args)]
        self.ready = [controller, *webhooks]

    def _permissions(self, configuration: Configuration, homes: Mapping[str, pulumi.Resource]) -> list[pulumi.Resource]:
        own = configuration.namespace
        subject = service_account_subject(TRAINER_SERVICE, own)
        account = self.child(service_account(TRAINER_SERVICE, own), after=[homes[own]])
        granted = self.child(cluster_role(TRAINER_SERVICE, cluster_rules(configuration)))
        keys = self.child(cluster_role(KEYS_ROLE, key_rules()))
        bindings: list[pulumi.Resource] = [
            self.child(cluster_role_binding(TRAINER_SERVICE, TRAINER_SERVICE, [subject]), after=[granted, account])
        ]
        for name, home in homes.items():
            rules = namespaced_rules(name, configuration)
            if rules:
                allowed = self.child(role(TRAINER_SERVICE, name, rules), after=[home])
                bindings.append(self.child(role_binding(TRAINER_SERVICE, name, [subject]), after=[allowed, account]))
        return [account, keys, *bindings]

    def _published(self, name: str, home: pulumi.Resource) -> None:
        """Publish which trainer API this is, because clients ask before they submit."""
        public = "kubeflow-trainer-public"
        self.child(_config_map(public, name, {"kubeflow_trainer_version": API_LEVEL}), after=[home])
        rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [public], "verbs": ["get"]}
        allowed = self.child(role(public, name, [rule]), after=[home])
        self.child(role_binding(public, name, [group("system:authenticated")]), after=[allowed])


def certificate(
    secret: str,
    namespace_name: str,
    service_name: str,
    target: Target,
    *,
    mutating: Iterable[str] = (),
    validating: Iterable[str] = (),
) -> Certificate:
    """Return the certificate of one webhook server.

    Parameters
    ----------
    secret, namespace_name
        Where the leader keeps it.
    service_name
        Service in front of the server; its names are on the certificate.
    target
        The cluster; where webhooks are reached by URL, 127.0.0.1 is on the certificate too.
    mutating, validating
        Webhook configurations that must trust it.
    """
    host = f"{service_name}.{namespace_name}.svc"
    return Certificate(
        secret=secret,
        namespace=namespace_name,
        dns_names=(host, f"{host}.cluster.local"),
        ip_addresses=() if target.access.webhook_ports is None else ("127.0.0.1",),
        mutating_webhook_configurations=tuple(sorted(mutating)),
        validating_webhook_configurations=tuple(sorted(validating)),
    )


def _configuration(args: TrainerArgs) -> Configuration:
    own = certificate(
        SERVING_SECRET,
        args.settings.namespace,
        TRAINER_SERVICE,
        args.target,
        mutating=(DEFAULTER,),
        validating=(VALIDATOR,),
    )
    return Configuration(
        namespace=args.settings.namespace,
        workers=args.settings.workers,
        shutdown_delay_seconds=args.settings.shutdown_delay_seconds,
        certificates=(own, *args.certificates),
        policy=args.policies.configuration,
    )


def _workload(args: TrainerArgs, configuration: Configuration) -> Workload:
    settings, target = args.settings, args.target
    return Workload(
        name=TRAINER_SERVICE,
        namespace=settings.namespace,
        program="trainyard-controller",
        image=target.images.reference("trainyard-controller", f"v{trainyard.__version__}"),
        command=("trainyard",),
        args=("controller", "run", f"--config={_CONFIG}/config.yaml"),
        replicas=settings.replicas,
        termination_grace_seconds=configuration.termination_grace_seconds,
        ports={"webhook": 9443, "metrics": 8443, "health": 8081},
        readiness={"httpGet": {"path": "/readyz", "port": "health"}},
        liveness={"httpGet": {"path": "/healthz", "port": "health"}},
        cpu="250m",
        memory=("192Mi", "2Gi"),
        volumes=(ConfigVolume("trainyard-controller-config", _CONFIG), *args.policies.volumes),
        node_selector=target.node_selector,
        sidecars=(args.policies.container,),
        # The file is read at the start only, so a change of it has to start new pods.
        annotations={"trainyard.dev/configuration": hashlib.sha256(configuration.as_yaml().encode()).hexdigest()[:16]},
    )


def _webhook_configurations(args: TrainerArgs) -> list[dict[str, Any]]:
    opt_out = {
        "matchExpressions": [
            {"key": "trainer.kubeflow.org/webhook-validation", "operator": "NotIn", "values": ["disabled"]}
        ]
    }
    validating = [
        _webhook(args, "validate", "clustertrainingruntime", {"objectSelector": opt_out}),
        _webhook(args, "validate", "trainingruntime", {}),
        _webhook(args, "validate", "trainjob", {}),
    ]
    mutating = [_webhook(args, "mutate", "trainjob", {"reinvocationPolicy": "Never"})]
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


def _webhook(args: TrainerArgs, verb: str, kind: str, extra: Mapping[str, Any]) -> dict[str, Any]:
    configuration = VALIDATOR if verb == "validate" else DEFAULTER
    first, _, rest = configuration.partition(".")
    client_config = args.target.access.client_config(
        "trainyard-controller",
        service=TRAINER_SERVICE,
        namespace=args.settings.namespace,
        path=f"/{verb}-{_PATH}-{kind}",
    )
    return {
        "name": f"{first}.{kind}.{rest}",
        "admissionReviewVersions": ["v1"],
        "clientConfig": client_config,
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "rules": [
            {
                "apiGroups": ["trainer.kubeflow.org"],
                "apiVersions": ["v1alpha1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": [f"{kind}s"],
            }
        ],
        "sideEffects": "None",
        "timeoutSeconds": WEBHOOK_TIMEOUT_SECONDS,
        **extra,
    }


def _config_map(name: str, namespace_name: str, data: Mapping[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace_name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}


def _disruption_budget(workload: Workload) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": workload.name, "namespace": workload.namespace},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": workload.selector}},
    }
