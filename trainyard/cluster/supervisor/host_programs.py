"""Platform programs as host processes instead of containers.

A definition states only the differences from the container: the kubeconfig and the addresses on 127.0.0.1.
To add a program, add an entry to `HOST_PROGRAMS`.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

import trainyard
from trainyard.cluster.health_probes import Probe
from trainyard.cluster.ports import HOST
from trainyard.cluster.sizing import memory_limit
from trainyard.cluster.supervisor.pod_requirements import local_paths
from trainyard.errors import TrainyardError

__all__ = ["HOST_PROGRAMS", "HostProgram", "RunContext", "with_flags"]


_LONGEST_SOCKET = 103
"""Maximum length of a Unix socket path in bytes on all systems."""


@dataclass(frozen=True)
class RunContext:
    """Inputs of a program's definition.

    Parameters
    ----------
    program
        Program file; unused by programs of this Python environment.
    namespace
        Namespace of the Deployment.
    kubeconfig
        Kubeconfig with the token of the Deployment's ServiceAccount.
    folder
        Folder of the process.
    ports
        Ports of the cluster by use.
    mounts
        Local path by mount path.
    sockets
        Folder of the Unix sockets that the processes of the cluster share.
    nodes
        Size class of the cluster's fleet.
    """

    program: Path
    namespace: str
    kubeconfig: Path
    folder: Path
    ports: Mapping[str, int]
    mounts: Mapping[str, Path] = field(default_factory=dict)
    sockets: Path = Path()
    nodes: int = 0

    def address(self, use: str) -> str:
        """Return host and port of a use."""
        return f"{HOST}:{self.ports[use]}"


@dataclass(frozen=True)
class HostProgram:
    """Definition of a program that runs as a host process.

    Parameters
    ----------
    upstream
        Whether the program comes from the toolchain; the others come with this Python environment.
    crds
        CustomResourceDefinitions that it requires.
    webhook_configurations
        Names of webhook configurations that it requires, read from its arguments.
    command
        Command line, from the context and the container's arguments with local paths.
    variables
        Environment variables.
    health
        Health endpoint.
    serving_port
        Use of a further port that must accept connections.
    configuration
        Rewrites a file of a ConfigMap volume.
    fast_stop_signal
        Signal to stop without delay; a kubelet sends SIGTERM.
    """

    command: Callable[[RunContext, list[str]], list[str]]
    health: Callable[[RunContext], Probe]
    upstream: bool = True
    crds: tuple[str, ...] = ()
    serving_port: str | None = None
    webhook_configurations: Callable[[list[str]], list[str]] = lambda _: []
    variables: Callable[[RunContext], dict[str, str]] = lambda _: {}
    configuration: Callable[[RunContext, str, str], str] = lambda _context, _name, text: text
    fast_stop_signal: signal.Signals = signal.SIGTERM


def with_flags(arguments: list[str], flags: Mapping[str, str | None]) -> list[str]:
    """Return arguments with flags replaced: each given value is set once, at the end; None removes the flag."""
    kept: list[str] = []
    skip = False
    for position, argument in enumerate(arguments):
        if skip:
            skip = False
            continue
        name, equals, _ = argument.lstrip("-").partition("=")
        if argument.startswith("-") and name in flags:
            following = arguments[position + 1] if position + 1 < len(arguments) else "-"
            skip = not equals and not following.startswith("-")
            continue
        kept.append(argument)
    return kept + [f"--{name}={value}" for name, value in flags.items() if value is not None]


def _volcano(program: str) -> Callable[[RunContext, list[str]], list[str]]:
    def command(context: RunContext, arguments: list[str]) -> list[str]:
        flags = {
            "kubeconfig": str(context.kubeconfig),
            "enable-healthz": "true",
            "healthz-address": context.address(f"{program}/health"),
        }
        if program == "vc-webhook-manager":
            flags |= {"listen-address": HOST, "port": str(context.ports[f"{program}/webhook"])}
        else:
            flags |= {"listen-address": context.address(f"{program}/metrics")}
        return [str(context.program), *with_flags(arguments[1:], flags)]

    return command


def _volcano_webhooks(arguments: list[str]) -> list[str]:
    paths = "/jobs/mutate,/jobs/validate,/podgroups/mutate,/pods/validate,/pods/mutate,/queues/mutate,/queues/validate"
    for argument in arguments:
        if found := re.match(r"^--?enabled-admission=(.*)$", argument):
            paths = found[1]
    return [f"volcano-admission-service{path.strip().replace('/', '-')}" for path in paths.split(",") if path.strip()]


def _memory(program: str) -> Callable[[RunContext], dict[str, str]]:
    return lambda context: {"GOMEMLIMIT": memory_limit(program, context.nodes)}


def _volcano_variables(program: str) -> Callable[[RunContext], dict[str, str]]:
    return lambda context: {
        **_memory(program)(context),
        "DEBUG_SOCKET_DIR": str(context.folder / "sockets"),
        "KUBE_POD_NAMESPACE": context.namespace,
    }


def _jobset_command(context: RunContext, arguments: list[str]) -> list[str]:
    flags = {
        "kubeconfig": str(context.kubeconfig),
        "health-probe-bind-address": context.address("jobset/health"),
        "metrics-bind-address": "0",
    }
    return [str(context.program), *with_flags(arguments[1:], flags)]


_JOBSET_CERTIFICATES = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108


def _jobset_configuration(context: RunContext, name: str, text: str) -> str:
    document = yaml.safe_load(text)
    if not isinstance(document, dict) or not str(document.get("apiVersion", "")).startswith("config.jobset.x-k8s.io/"):
        return text
    webhook = document.setdefault("webhook", {})
    folder = str(webhook.get("certDir") or _JOBSET_CERTIFICATES)
    webhook |= {"host": HOST, "port": context.ports["jobset/webhook"], "certDir": local_paths(folder, context.mounts)}
    election = document.get("leaderElection")
    if isinstance(election, dict) and election.get("leaderElect"):
        election.setdefault("resourceNamespace", context.namespace)
    return yaml.safe_dump(document, sort_keys=False)


def _controller_command(context: RunContext, arguments: list[str]) -> list[str]:
    own = arguments[arguments.index("run") + 1 :] if "run" in arguments else arguments[1:]
    flags = {
        "kubeconfig": str(context.kubeconfig),
        "host": HOST,
        "webhook-port": str(context.ports["trainyard-controller/webhook"]),
        "health-port": str(context.ports["trainyard-controller/health"]),
        "metrics-port": str(context.ports["trainyard-controller/metrics"]),
    }
    return [sys.executable, "-m", "trainyard", "controller", "run", *with_flags(own, flags)]


def _controller_configuration(context: RunContext, name: str, text: str) -> str:
    document = yaml.safe_load(text)
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


def _health(use: str, path: str, *, tls: bool = False) -> Callable[[RunContext], Probe]:
    return lambda context: Probe(context.ports[use], path, unverified_tls=tls)


_VOLCANO_CRDS = (
    "podgroups.scheduling.volcano.sh",
    "queues.scheduling.volcano.sh",
    "hypernodes.topology.volcano.sh",
    "jobs.batch.volcano.sh",
)

HOST_PROGRAMS: Mapping[str, HostProgram] = {
    "vc-scheduler": HostProgram(
        command=_volcano("vc-scheduler"),
        health=_health("vc-scheduler/health", "/healthz"),
        crds=_VOLCANO_CRDS,
        variables=_volcano_variables("vc-scheduler"),
    ),
    "vc-controller-manager": HostProgram(
        command=_volcano("vc-controller-manager"),
        health=_health("vc-controller-manager/health", "/healthz"),
        crds=_VOLCANO_CRDS,
        variables=_volcano_variables("vc-controller-manager"),
    ),
    "vc-webhook-manager": HostProgram(
        command=_volcano("vc-webhook-manager"),
        health=_health("vc-webhook-manager/health", "/healthz", tls=True),
        crds=_VOLCANO_CRDS,
        serving_port="vc-webhook-manager/webhook",
        webhook_configurations=_volcano_webhooks,
        variables=_volcano_variables("vc-webhook-manager"),
    ),
    "jobset": HostProgram(
        command=_jobset_command,
        health=_health("jobset/health", "/readyz"),
        crds=("jobsets.jobset.x-k8s.io",),
        serving_port="jobset/webhook",
        variables=_memory("jobset"),
        configuration=_jobset_configuration,
    ),
    "trainyard-controller": HostProgram(
        command=_controller_command,
        health=_health("trainyard-controller/health", "/readyz"),
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
    ),
    "opa": HostProgram(
        command=_opa_command,
        health=_health("opa/health", "/health?bundles"),
        variables=_memory("opa"),
    ),
}
"""Definition by program, in the order of the status."""
