"""Host programs of the trainer: its controller, and the policy server beside it."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Final

import yaml

import trainyard
from trainyard.errors import TrainyardError
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

_LONGEST_SOCKET = 103
"""Maximum length of a Unix socket path in bytes on all systems."""


def _controller_command(context: RunContext, arguments: list[str]) -> list[str]:
    own = arguments[arguments.index("run") + 1 :] if "run" in arguments else arguments[1:]
    flags = {
        "kubeconfig": str(context.kubeconfig),
        "host": context.host,
        "webhook-port": str(context.ports["trainyard-controller/webhook"]),
        "health-port": str(context.ports["trainyard-controller/health"]),
        "metrics-port": str(context.ports["trainyard-controller/metrics"]),
    }
    return [sys.executable, "-m", "trainyard", "controller", "run", *with_flags(own, flags)]


def _controller_configuration(context: RunContext, name: str, text: str) -> str:
    document = load(text, name)
    if not isinstance(document, dict) or "policy" not in document:
        return text
    policy = document["policy"]
    policy |= {"socket": _policy_socket(context), "bundle": local_paths(policy["bundle"], context.mounts)}
    return yaml.safe_dump(document, sort_keys=True)


def _controller_variables(context: RunContext) -> dict[str, str]:
    """Run the controller from the code of its supervisor, not from an installed package."""
    return {"PYTHONPATH": str(Path(trainyard.__file__).resolve().parent.parent)}


def _opa_command(context: RunContext, arguments: list[str]) -> list[str]:
    flags = {
        "addr": f"unix://{_policy_socket(context)}",
        "diagnostic-addr": context.address("opa/health"),
        # A kubelet stops all containers at once; here OPA is stopped after the controller has exited.
        "shutdown-wait-period": None,
    }
    return [str(context.program), *with_flags(arguments[1:], flags)]


def _policy_socket(context: RunContext) -> str:
    path = str(context.sockets / "opa.sock")
    if len(path.encode()) > _LONGEST_SOCKET:
        raise TrainyardError(
            f"The path of the policy server's socket is longer than {_LONGEST_SOCKET} bytes: {path}",
            fix="set TRAINYARD_STATE_HOME to a folder with a shorter path",
        )
    return path


PROGRAMS: Final = ComponentPrograms(
    "trainer",
    30,
    {
        "trainyard-controller": HostProgram(
            command=_controller_command,
            health=health_probe("trainyard-controller/health", "/readyz"),
            upstream=False,
            crds=(
                "trainjobs.trainer.kubeflow.org",
                "trainingruntimes.trainer.kubeflow.org",
                "clustertrainingruntimes.trainer.kubeflow.org",
            ),
            serving_port="trainyard-controller/webhook",
            configuration=_controller_configuration,
            variables=_controller_variables,
            fast_stop_signal=signal.SIGINT,
            ports=("webhook", "health", "metrics"),
            deployment="kubeflow-trainer-controller-manager",
        ),
        "opa": HostProgram(
            command=_opa_command,
            health=health_probe("opa/health", "/health?bundles"),
            variables=memory_variable(80, 0),
            ports=("health",),
        ),
    },
)
