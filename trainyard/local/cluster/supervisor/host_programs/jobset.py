"""Host program of JobSet."""

from __future__ import annotations

from typing import Final

import yaml

from trainyard.local.cluster.supervisor.host_programs.base import (
    ComponentPrograms,
    HostProgram,
    RunContext,
    health_probe,
    memory_variable,
    with_flags,
)
from trainyard.local.cluster.supervisor.pod_requirements import local_paths
from trainyard.manifests.loader import load


def _command(context: RunContext, arguments: list[str]) -> list[str]:
    flags = {
        "kubeconfig": str(context.kubeconfig),
        "health-probe-bind-address": context.address("jobset/health"),
        "metrics-bind-address": "0",
    }
    return [str(context.program), *with_flags(arguments[1:], flags)]


_CERTIFICATES = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108


def _configuration(context: RunContext, name: str, text: str) -> str:
    document = load(text, name)
    if not isinstance(document, dict) or not str(document.get("apiVersion", "")).startswith("config.jobset.x-k8s.io/"):
        return text
    webhook = document.setdefault("webhook", {})
    folder = str(webhook.get("certDir") or _CERTIFICATES)
    webhook |= {
        "host": context.host,
        "port": context.ports["jobset/webhook"],
        "certDir": local_paths(folder, context.mounts),
    }
    election = document.get("leaderElection")
    if isinstance(election, dict) and election.get("leaderElect"):
        election.setdefault("resourceNamespace", context.namespace)
    return yaml.safe_dump(document, sort_keys=False)


PROGRAMS: Final = ComponentPrograms(
    "jobset",
    20,
    {
        "jobset": HostProgram(
            command=_command,
            health=health_probe("jobset/health", "/readyz"),
            crds=("jobsets.jobset.x-k8s.io",),
            serving_port="jobset/webhook",
            variables=memory_variable(100, 20),
            configuration=_configuration,
            ports=("webhook", "health"),
            deployment="jobset-controller-manager",
        ),
    },
)
