"""Provider of an existing cluster: a kubeconfig context that must be set explicitly."""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import os
from pathlib import Path

import yaml

from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.kube.client import Client
from trainyard.kube.credentials import kubeconfig
from trainyard.kube.kubeconfig_files import files_of, selected
from trainyard.local.cluster.environment import tool_path
from trainyard.local.cluster.folders import cache_home, state_home, write_private
from trainyard.local.cluster.provider import ClusterAccess, ClusterStatus, NodeChanges, ProcessStatus
from trainyard.local.cluster.toolchain import Toolchain
from trainyard.progress import Progress
from trainyard.settings.fabric import FabricSettings


class ExistingProvider:
    """A cluster that is not managed by Trainyard; it is never started, stopped or removed.

    Parameters
    ----------
    name
        Name of the cluster, for messages.
    context
        Context of the kubeconfig.
    kubeconfig
        Kubeconfig file; None: the files of ``KUBECONFIG``, or ``~/.kube/config``.
    """

    def __init__(self, name: str, *, context: str | None, kubeconfig: str | None) -> None:
        if not context:
            raise TrainyardError(
                f"Provider existing requires the kubeconfig context of cluster {name}",
                fix="set trainyard:cluster.context in the stack; the current context is never used",
            )
        self.name = name
        self._context = context
        self._files = [
            path.absolute() for path in files_of(kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config")
        ]

    @property
    def _kubeconfig(self) -> Path:
        """The file with the context; where its entries are in several files, a private copy of these entries.

        Pulumi's provider accepts one file, and its content would become part of the stack's state. A copy that was not
        kept, or that is outdated, is replaced by one in the cache, which is removed at the end of this process.
        """
        file, text = self._selected()
        if file is not None:
            return file
        if self._kept.is_file() and self._kept.read_text() == text:
            return self._kept
        return _temporary(cache_home() / "kubeconfigs" / f"{self._kept.stem}-{os.getpid()}.yaml", text)

    @property
    def _kept(self) -> Path:
        key = hashlib.sha256(os.pathsep.join([self._context, *map(str, self._files)]).encode()).hexdigest()[:16]
        return state_home() / "kubeconfigs" / f"{key}.yaml"

    def _selected(self) -> tuple[Path | None, str]:
        """Return the file that has the whole context; else None, and its entries as one kubeconfig."""
        if len(self._files) == 1 or not self._files[0].is_file():
            return self._files[0], ""
        body, file = selected(self._files, self._context)
        return file, yaml.safe_dump(body)

    def keep_access(self) -> None:
        """Keep the copy of a context whose entries are in several files: the state of a stack refers to it."""
        file, text = self._selected()
        if file is None:
            self._kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_private(self._kept, text)

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
        if not self._files[0].is_file():
            return ClusterStatus(self.name, None, (), f"{self._files[0]} does not exist")
        try:
            kubeconfig = self._kubeconfig
            version = asyncio.run(self._version())
        except (ApiError, TransportError, TrainyardError, OSError, ValueError) as error:
            return ClusterStatus(
                self.name,
                self._files[0],
                (ProcessStatus("kube-apiserver", "", self._context, None, "unhealthy", str(error)),),
            )
        return ClusterStatus(
            self.name,
            kubeconfig,
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


def _temporary(path: Path, text: str) -> Path:
    """Write an owner-only file that is removed at the end of this process."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.is_file():
        atexit.register(path.unlink, missing_ok=True)
    write_private(path, text)
    return path
