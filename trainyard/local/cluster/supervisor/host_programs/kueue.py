"""Host program of Kueue."""

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

_METRICS_CERTIFICATES = "/etc/kueue/metrics/certs"


def _command(context: RunContext, arguments: list[str]) -> list[str]:
    return [str(context.program), *with_flags(arguments[1:], {"kubeconfig": str(context.kubeconfig)})]


def _configuration(context: RunContext, name: str, text: str) -> str:
    document = load(text, name)
    if not isinstance(document, dict) or not str(document.get("apiVersion", "")).startswith("config.kueue.x-k8s.io/"):
        return text
    webhook = document.setdefault("webhook", {})
    folder = local_paths(str(webhook.get("certDir", "")), context.mounts)
    webhook |= {"host": context.host, "port": context.ports["kueue/webhook"], "certDir": folder}
    document["health"] = {"healthProbeBindAddress": context.address("kueue/health")}
    document["metrics"] = {"bindAddress": "0"}
    return yaml.safe_dump(document, sort_keys=False)


def _variables(context: RunContext) -> dict[str, str]:
    """Return the variables of this build, which replaces the fixed folder of the metrics certificate."""
    folder = local_paths(_METRICS_CERTIFICATES, context.mounts)
    return {**memory_variable(120, 30)(context), "KUEUE_METRICS_CERTIFICATES": folder}


PROGRAMS: Final = ComponentPrograms(
    "kueue",
    35,
    {
        "kueue": HostProgram(
            command=_command,
            health=health_probe("kueue/health", "/readyz"),
            crds=("workloads.kueue.x-k8s.io", "jobsets.jobset.x-k8s.io", "trainjobs.trainer.kubeflow.org"),
            serving_port="kueue/webhook",
            variables=_variables,
            configuration=_configuration,
            ports=("webhook", "health"),
            deployment="kueue-controller-manager",
            optional=True,
        ),
    },
)
