"""Host programs of Volcano."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from trainyard.listening import url_host
from trainyard.local.cluster.supervisor.host_programs.base import (
    ComponentPrograms,
    HostProgram,
    RunContext,
    health_probe,
    memory_variable,
    with_flags,
)

_CRDS = (
    "podgroups.scheduling.volcano.sh",
    "queues.scheduling.volcano.sh",
    "hypernodes.topology.volcano.sh",
    "jobs.batch.volcano.sh",
)


def _command(program: str) -> Callable[[RunContext, list[str]], list[str]]:
    def command(context: RunContext, arguments: list[str]) -> list[str]:
        flags = {
            "kubeconfig": str(context.kubeconfig),
            "enable-healthz": "true",
            "healthz-address": context.address(f"{program}/health"),
        }
        if program == "vc-webhook-manager":
            flags |= {"listen-address": url_host(context.host), "port": str(context.ports[f"{program}/webhook"])}
        else:
            flags |= {"listen-address": context.address(f"{program}/metrics")}
        return [str(context.program), *with_flags(arguments[1:], flags)]

    return command


def _webhooks(arguments: list[str]) -> list[str]:
    paths = "/jobs/mutate,/jobs/validate,/podgroups/mutate,/pods/validate,/pods/mutate,/queues/mutate,/queues/validate"
    for argument in arguments:
        if found := re.match(r"^--?enabled-admission=(.*)$", argument):
            paths = found[1]
    return [f"volcano-admission-service{path.strip().replace('/', '-')}" for path in paths.split(",") if path.strip()]


def _variables(base: int, each: int) -> Callable[[RunContext], dict[str, str]]:
    return lambda context: {
        **memory_variable(base, each)(context),
        "DEBUG_SOCKET_DIR": str(context.folder / "sockets"),
        "KUBE_POD_NAMESPACE": context.namespace,
        "PANIC_ON_ERROR": "false",
    }


PROGRAMS: Final = ComponentPrograms(
    "volcano",
    10,
    {
        "vc-scheduler": HostProgram(
            command=_command("vc-scheduler"),
            health=health_probe("vc-scheduler/health", "/healthz"),
            crds=_CRDS,
            variables=_variables(300, 200),
            ports=("health", "metrics"),
            deployment="volcano-scheduler",
        ),
        "vc-controller-manager": HostProgram(
            command=_command("vc-controller-manager"),
            health=health_probe("vc-controller-manager/health", "/healthz"),
            crds=_CRDS,
            variables=_variables(120, 50),
            ports=("health", "metrics"),
            deployment="volcano-controllers",
        ),
        "vc-webhook-manager": HostProgram(
            command=_command("vc-webhook-manager"),
            health=health_probe("vc-webhook-manager/health", "/healthz", tls=True),
            crds=_CRDS,
            serving_port="vc-webhook-manager/webhook",
            webhook_configurations=_webhooks,
            variables=_variables(100, 0),
            ports=("webhook", "health"),
            deployment="volcano-admission",
        ),
    },
)
