"""The console in the cluster: read-only pages, for which each viewer signs in with a Kubernetes token.

Its own account only reviews tokens: all reads are made with the token of a viewer. With a proxy that names the viewers,
it also reads the kinds that pages show, and reviews what each viewer may see. Sessions are in the memory of its one
process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pulumi

import trainyard
from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.insight.console.shown_kinds import SHOWN_KINDS
from trainyard.settings.sections.console import PROGRAM, ConsoleSettings

from .common.declaration import Declaration, Resources, WebhookServer
from .common.installation import Installation
from .common.objects import Component
from .common.pod_settings import CONTROLLER_LOG
from .common.program_deployments import declare_program
from .common.rbac import cluster_role, cluster_role_binding, service_account, service_account_subject
from .common.target import Target
from .common.workload import ConfigVolume, SecretVolume, Workload, config_map, configured_by, namespace, service

__all__ = ["COMPONENT", "Console", "ConsoleArgs"]

_SECRET = "trainyard-console-cert"  # noqa: S105 - a name
_CERTIFICATE = "/etc/trainyard-console"
_PROXY_FOLDER = "/etc/trainyard-console-proxy"
_PROXY_CONFIG = "trainyard-console-proxy"
_SCENARIOS = "/etc/trainyard-console-scenarios"


@dataclass(frozen=True)
class ConsoleArgs:
    """Arguments of the Console component.

    Parameters
    ----------
    settings
        Namespace, names and sessions.
    target
        The cluster.
    name
        Name of the cluster for the pages.
    namespaces
        Namespaces that are read for viewers who may not list all: those of the tenants.
    """

    settings: ConsoleSettings
    target: Target
    name: str
    namespaces: tuple[str, ...] = ()


class Console(Component):
    """The console's Deployment, Service and permissions.

    Attributes
    ----------
    namespaces
        Its namespace by name, in which the trainer controller's leader writes the certificate.
    """

    def __init__(self, name: str, args: ConsoleArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("console", name, opts)
        settings = args.settings
        own_namespace = self.child(namespace(settings.namespace))
        self.namespaces[settings.namespace] = own_namespace
        workload = _workload(args)
        subject = service_account_subject(PROGRAM, settings.namespace)
        account = self.child(service_account(PROGRAM, settings.namespace), depends_on=[own_namespace])
        granted = self.child(cluster_role(PROGRAM, _rules(proxied=settings.proxy is not None)))
        bound = self.child(cluster_role_binding(PROGRAM, PROGRAM, [subject]), depends_on=[granted, account])
        ports = {"https": (443, "https"), **({"proxy": (8443, "proxy")} if settings.proxy else {})}
        before = [account, bound, self.child(service(workload, PROGRAM, ports), depends_on=[own_namespace])]
        if settings.proxy is not None:
            file = config_map(_PROXY_CONFIG, settings.namespace, {"ca.crt": settings.proxy.authority})
            before.append(self.child(file, depends_on=[own_namespace]))
        declare_program(self, workload, depends_on=before)
        self.register_outputs({})


def _rules(*, proxied: bool) -> list[dict[str, Any]]:
    """Return the rules of the console's ClusterRole; a console behind a proxy reads what it shows."""
    rules = [{"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}]
    if proxied:
        rules.append(
            {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]}
        )
        plurals: dict[str, list[str]] = {}
        for each in SHOWN_KINDS.values():
            plurals.setdefault(each.group, []).append(each.plural)
        rules += [
            {"apiGroups": [each], "resources": sorted(found), "verbs": ["list", "watch"]}
            for each, found in sorted(plurals.items())
        ]
    return rules


def _workload(args: ConsoleArgs) -> Workload:
    settings, target, proxy = args.settings, args.target, args.settings.proxy
    if target.pods.replicas(PROGRAM, 1) != 1:
        finding = Finding(
            f"trainyard:pods.programs.{PROGRAM}.replicas",
            "the console has one replica, because its sessions are in memory",
            "remove it",
        )
        raise TrainyardError("The settings of the console's pods cannot be applied", findings=[finding])
    host = f"{PROGRAM}.{settings.namespace}.svc"
    names = (host, f"{host}.cluster.local", *settings.hosts)
    return Workload(
        name=PROGRAM,
        namespace=settings.namespace,
        pods=target.pods,
        program=PROGRAM,
        log_flag=CONTROLLER_LOG,
        image=target.images.reference(PROGRAM, f"v{trainyard.__version__}"),
        command=("trainyard",),
        args=(
            *("console", "serve", f"--certificate={_CERTIFICATE}", f"--name={args.name}"),
            f"--sessions={settings.sessions}",
            *(f"--host={each}" for each in names),
            *(f"--namespace={each}" for each in args.namespaces),
            *((f"--scenarios={_SCENARIOS}",) if settings.scenarios else ()),
            *((f"--proxy-authority={_PROXY_FOLDER}/ca.crt",) if proxy else ()),
            *(f"--proxy-name={each}" for each in (proxy.names if proxy else ())),
        ),
        replicas=1,
        single=True,
        ports={"https": 9443, **({"proxy": 9444} if proxy else {})},
        readiness={"httpGet": {"path": "/readyz", "port": "https", "scheme": "HTTPS"}},
        liveness={"httpGet": {"path": "/healthz", "port": "https", "scheme": "HTTPS"}},
        memory=("192Mi", "2Gi"),
        tmp_size="64Mi",  # uploaded settings
        volumes=(
            SecretVolume(_SECRET, _CERTIFICATE),
            *((ConfigVolume(_PROXY_CONFIG, _PROXY_FOLDER),) if proxy else ()),
            *((ConfigVolume(settings.scenarios, _SCENARIOS, optional=True),) if settings.scenarios else ()),
        ),
        annotations=configured_by(proxy.authority) if proxy else {},
    )


def _names(settings: ConsoleSettings) -> tuple[str, ...]:
    """Return the names of its certificate beside those of the Service; `localhost` is that of a port-forward."""
    return (*settings.hosts, "localhost")


def _install(context: Installation, _needed: Resources) -> Console | None:
    settings = ConsoleSettings.of(context.settings)
    if settings.install is False:
        return None
    namespaces = tuple(sorted(context.settings.active_tenants))
    return Console("console", ConsoleArgs(settings, context.target, context.name, namespaces), context.options)


def _no_webhooks(_settings: Any, _target: Target) -> tuple[()]:
    return ()


COMPONENT: Final = Declaration(
    name="console",
    order=27,
    install=_install,
    images={PROGRAM: f"localhost/{PROGRAM}"},
    webhooks=WebhookServer(secret=_SECRET, service=PROGRAM, configurations=_no_webhooks, names=_names),
)
