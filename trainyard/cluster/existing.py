"""Provider of an existing cluster: a kubeconfig context that must be set explicitly."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from trainyard.cluster.environment import tool_path
from trainyard.cluster.provider import ClusterAccess, ClusterStatus, NodeChanges, ProcessStatus
from trainyard.cluster.toolchain import Toolchain
from trainyard.errors import TrainyardError
from trainyard.kube import ApiError, Client, TransportError
from trainyard.kube.credentials import kubeconfig
from trainyard.progress import Progress
from trainyard.settings.fabric import FabricSettings

__all__ = ["ExistingProvider"]


class ExistingProvider:
    """A cluster that is not managed by Trainyard; it is never started, stopped or removed.

    Parameters
    ----------
    name
        Name of the cluster, for messages.
    context
        Context of the kubeconfig.
    kubeconfig
        Kubeconfig file; None: ``KUBECONFIG`` or ``~/.kube/config``.
    """

    def __init__(self, name: str, *, context: str | None, kubeconfig: str | None) -> None:
        if not context:
            raise TrainyardError(
                f"Provider existing requires the kubeconfig context of cluster {name}",
                fix="set trainyard:cluster.context in the stack; the current context is never used",
            )
        self.name = name
        self._context = context
        files = (
            [kubeconfig]
            if kubeconfig
            else [*filter(None, os.environ.get("KUBECONFIG", "").split(os.pathsep)), "~/.kube/config"][:1]
        )
        self._kubeconfig = Path(files[0]).expanduser().absolute()

    def up(self, fabric: FabricSettings, progress: Progress) -> ClusterAccess:
        """Check that the cluster answers."""
        with progress.step("Cluster") as step:
            status = self.status()
            if not status.healthy:
                why = status.detail or status.processes[0].detail
                kubectl = f"kubectl --kubeconfig {self._kubeconfig} --context {self._context}"
                raise TrainyardError(
                    f"The cluster of context {self._context} does not answer: {why}",
                    fix=f"check the context with `{kubectl} get --raw /readyz`",
                )
            step.done(f"context {self._context} answers")
        return self.access()

    def down(self, *, delete: bool, progress: Progress) -> None:
        """Raise an error: Trainyard does not manage the cluster."""
        verb = "removed" if delete else "stopped"
        raise TrainyardError(
            f"The cluster of context {self._context} is not managed by Trainyard, so it cannot be {verb}",
            fix="remove Trainyard's objects from it with `trainyard destroy`",
        )

    def status(self) -> ClusterStatus:
        """Return whether the API server answers."""
        if not self._kubeconfig.is_file():
            return ClusterStatus(self.name, None, (), f"{self._kubeconfig} does not exist")
        try:
            version = asyncio.run(self._version())
        except (ApiError, TransportError, TrainyardError, OSError, ValueError) as error:
            return ClusterStatus(
                self.name,
                self._kubeconfig,
                (ProcessStatus("kube-apiserver", "", self._context, None, "unhealthy", str(error)),),
            )
        return ClusterStatus(
            self.name,
            self._kubeconfig,
            (ProcessStatus("kube-apiserver", version.removeprefix("v"), self._context, None, "healthy"),),
        )

    async def _version(self) -> str:
        async with Client.from_kubeconfig(self._kubeconfig, self._context, patience=0.0) as client:
            return str((await client.request("GET", "/version"))["gitVersion"])

    def logs(self, process: str, lines: int) -> str:
        """Raise an error: the processes do not run on this machine."""
        raise TrainyardError(
            f"The processes of the cluster of context {self._context} do not run on this machine",
            fix=f"use `kubectl --context {self._context} logs`",
        )

    def sync_nodes(self, fabric: FabricSettings) -> NodeChanges:
        """Change nothing: the nodes are real."""
        return NodeChanges()

    def environment(self) -> dict[str, str]:
        """Return the variables that point tools at this cluster, without a Pulumi backend, which the team chooses."""
        return {
            **tool_path(Toolchain().folders()),
            "KUBECONFIG": str(self._kubeconfig),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
        }

    def access(self) -> ClusterAccess:
        """Return the access to the cluster.

        Raises
        ------
        TrainyardError
            The kubeconfig does not exist, is invalid, or does not have the context.
        """
        if not self._kubeconfig.is_file():
            raise TrainyardError(
                f"{self._kubeconfig} does not exist", fix="set trainyard:cluster.kubeconfig in the stack, or KUBECONFIG"
            )
        kubeconfig(self._kubeconfig, self._context)
        return ClusterAccess(self.name, self._kubeconfig, self._context, None)
