"""Declaration of platform programs that run as host processes instead of containers."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainyard.listening import url_host
from trainyard.local.cluster.health_probes import Probe
from trainyard.local.cluster.host_address import HOST
from trainyard.local.cluster.sizing import memory_limit


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
    host
        Address on which it listens.
    """

    program: Path
    namespace: str
    kubeconfig: Path
    folder: Path
    ports: Mapping[str, int]
    mounts: Mapping[str, Path] = field(default_factory=dict)
    sockets: Path = Path()
    nodes: int = 0
    host: str = HOST

    def address(self, use: str) -> str:
        """Return host and port of a use."""
        return f"{url_host(self.host)}:{self.ports[use]}"


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
        Use of the port of its URL, which must accept connections.
    configuration
        Rewrites a file of a ConfigMap volume.
    fast_stop_signal
        Signal to stop without delay; a kubelet sends SIGTERM.
    ports
        Names of the ports that each replica has; ``webhook`` is that of webhooks.
    deployment
        Deployment whose first container it is; None: it runs beside another program.
    optional
        Whether not every platform has it: the status lists it only while it is installed.
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
    ports: tuple[str, ...] = ()
    deployment: str | None = None
    optional: bool = False


@dataclass(frozen=True)
class ComponentPrograms:
    """Programs of one component.

    Parameters
    ----------
    name
        Name of the component.
    order
        Position in the status; unique.
    programs
        Definition by program, in the order of the status.
    """

    name: str
    order: int
    programs: Mapping[str, HostProgram]


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


def memory_variable(base: int, each: int) -> Callable[[RunContext], dict[str, str]]:
    """Return the variable with the memory limit of a Go program; parameters as for `memory_limit`."""
    return lambda context: {"GOMEMLIMIT": memory_limit(base, each, context.nodes)}


def health_probe(use: str, path: str, *, tls: bool = False) -> Callable[[RunContext], Probe]:
    """Return the health endpoint at a port of the program (``<program>/<port>``)."""
    return lambda context: Probe(context.ports[use], path, unverified_tls=tls, host=context.host)
