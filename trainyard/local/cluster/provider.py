"""Interface of control plane providers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from trainyard.listening import url_host
from trainyard.local.cluster.host_address import HOST
from trainyard.progress import Progress

if TYPE_CHECKING:
    from trainyard.settings.fabric import FabricSettings


@dataclass(frozen=True)
class WebhookClient:
    """Certificate that an API server shows to certain webhooks.

    Parameters
    ----------
    authority
        Its authority, PEM.
    name
        Its common name.
    hosts
        Hosts to which it is shown: address and port on this machine, or ``SERVICE.NAMESPACE.svc`` of port 443.
    """

    authority: str
    name: str
    hosts: tuple[str, ...]


@dataclass(frozen=True)
class ClusterAccess:
    """Access to a cluster.

    Parameters
    ----------
    name
        Name of the cluster.
    kubeconfig
        Kubeconfig file.
    context
        Context in it; None: the current one.
    webhook_ports
        Host port of each program's webhook server, by program; None if webhooks are called through Services.
    webhook_address
        Address of this machine at these ports.
    webhook_client
        Certificate that its API server shows to webhooks; None: it shows none.
    """

    name: str
    kubeconfig: Path
    context: str | None = None
    webhook_ports: Mapping[str, int] | None = None
    webhook_client: WebhookClient | None = None
    webhook_address: str = HOST

    def client_config(
        self, program: str, *, service: str, namespace: str, path: str, port: int = 443
    ) -> dict[str, Any]:
        """Return the ``clientConfig`` of a webhook, without its ``caBundle``.

        Parameters
        ----------
        program
            Program that serves the webhook.
        service, namespace, port
            Its Service, where webhooks are called through Services.
        path
            Path of the webhook.
        """
        if self.webhook_ports is None:
            return {"service": {"name": service, "namespace": namespace, "path": path, "port": port}}
        return {"url": f"https://{self.webhook_host(program, service=service, namespace=namespace)}{path}"}

    def webhook_host(self, program: str, *, service: str, namespace: str) -> str:
        """Return the host of a program's webhooks, for which an API server may have a certificate."""
        if self.webhook_ports is None:
            return f"{service}.{namespace}.svc"
        return f"{url_host(self.webhook_address)}:{self.webhook_ports[program]}"


@dataclass(frozen=True)
class ProcessStatus:
    """One process of a control plane.

    Parameters
    ----------
    name
        Name of the program; further replicas have a number, as in ``jobset-1``.
    version
        Its version.
    address
        Host and port that it serves; empty if none.
    pid
        Process id; None if it does not run on this machine.
    health
        ``healthy``, ``unhealthy``, ``starting``, ``stopping``, ``stopped`` or ``not installed``.
    detail
        Why it is not healthy, with the relevant log line.
    log
        Log file; None if there is none.
    """

    name: str
    version: str
    address: str
    pid: int | None
    health: str
    detail: str = ""
    log: Path | None = None

    @property
    def pending(self) -> bool:
        """Whether it is expected to become healthy: its process does not answer yet, or it ran before the last stop."""
        return not self.ok and (self.pid is not None or self.health in ("starting", "stopped"))

    @property
    def ok(self) -> bool:
        """Whether its health needs no attention."""
        return self.health in ("healthy", "stopping", "not installed")


@dataclass(frozen=True)
class ClusterStatus:
    """A control plane and its processes.

    Parameters
    ----------
    detail
        Why no processes are listed; empty if they are.
    """

    name: str
    kubeconfig: Path | None
    processes: tuple[ProcessStatus, ...]
    detail: str = ""

    @property
    def healthy(self) -> bool:
        """Whether every expected process runs and is healthy."""
        return not self.detail and all(process.ok for process in self.processes)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON output of ``trainyard cluster status``."""
        return {
            "name": self.name,
            "kubeconfig": str(self.kubeconfig) if self.kubeconfig else None,
            "healthy": self.healthy,
            "detail": self.detail,
            "processes": [
                {
                    "name": process.name,
                    "version": process.version,
                    "address": process.address,
                    "pid": process.pid,
                    "health": process.health,
                    "detail": process.detail,
                    "log": str(process.log) if process.log else None,
                }
                for process in self.processes
            ],
        }


@dataclass(frozen=True)
class NodeChanges:
    """Names of the nodes that a synchronization changed."""

    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    unchanged: int = 0

    def __str__(self) -> str:
        parts = [
            f"{len(names)} {verb}"
            for names, verb in ((self.created, "created"), (self.updated, "updated"), (self.deleted, "deleted"))
            if names
        ]
        return ", ".join([*parts, f"{self.unchanged} unchanged"])


class Provider(Protocol):
    """Provider of a control plane."""

    def up(self, fabric: FabricSettings, progress: Progress) -> ClusterAccess:
        """Start the control plane with the nodes of a fabric; idempotent."""

    def down(self, *, delete: bool, progress: Progress) -> None:
        """Stop the control plane; with ``delete``, also remove its objects and files."""

    def status(self) -> ClusterStatus:
        """Return the status of every process."""

    def logs(self, process: str, lines: int) -> str:
        """Return the last lines of the log of a process."""

    def sync_nodes(self, fabric: FabricSettings) -> NodeChanges:
        """Synchronize the simulated nodes with a fabric; a provider with real nodes changes nothing."""

    def environment(self) -> dict[str, str]:
        """Return the variables that point tools (kubectl, pulumi) at this control plane."""

    def access(self) -> ClusterAccess:
        """Return the access to the control plane; its files may end with this process."""

    def keep_access(self) -> None:
        """Write the files of the access so that they outlive this process: a state refers to them."""
