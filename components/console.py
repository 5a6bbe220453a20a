"""The console in the cluster: read-only pages, for which each viewer signs in with a Kubernetes token.

All reads are made with the token of a viewer, so that its own account has no permission. It stores no session: replicas
share the key of their certificate, which encrypts the tokens in cookies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pulumi

import trainyard
from trainyard.settings.sections.console import PROGRAM, ConsoleSettings

from .common.declaration import Declaration, Resources, WebhookServer
from .common.installation import Installation
from .common.objects import Component
from .common.pod_settings import CONTROLLER_LOG
from .common.program_deployments import declare_program
from .common.rbac import service_account
from .common.target import Target
from .common.workload import ConfigVolume, SecretVolume, Workload, namespace, service

__all__ = ["COMPONENT", "Console", "ConsoleArgs"]

_SECRET = "trainyard-console-cert"  # noqa: S105 - a name
_CERTIFICATE = "/etc/trainyard-console"
_SCENARIOS = "/etc/trainyard-console-scenarios"


@dataclass(frozen=True)
class ConsoleArgs:
    """Arguments of the Console component.

    Parameters
    ----------
    settings
        Namespace, names and number of viewers.
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
    """The console's Deployment, Service and ServiceAccount.

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
        account = self.child(service_account(PROGRAM, settings.namespace), depends_on=[own_namespace])
        address = service(workload, PROGRAM, {"https": (443, "https")})
        address["spec"]["sessionAffinity"] = "ClientIP"  # each replica that a viewer uses has a copy of the state
        before = [account, self.child(address, depends_on=[own_namespace])]
        declare_program(self, workload, depends_on=before)
        self.register_outputs({})


def _workload(args: ConsoleArgs) -> Workload:
    settings, target = args.settings, args.target
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
        ),
        replicas=1,
        ports={"https": 9443},
        readiness={"httpGet": {"path": "/readyz", "port": "https", "scheme": "HTTPS"}},
        liveness={"httpGet": {"path": "/healthz", "port": "https", "scheme": "HTTPS"}},
        memory=("192Mi", "2Gi"),
        tmp_size="64Mi",  # uploaded settings
        volumes=(
            SecretVolume(_SECRET, _CERTIFICATE),
            *((ConfigVolume(settings.scenarios, _SCENARIOS, optional=True),) if settings.scenarios else ()),
        ),
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
