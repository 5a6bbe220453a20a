"""Provider of a kind cluster: one container per node, labeled after the fabric."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping

import yaml

from trainyard.checks.finding import Finding
from trainyard.cluster.environment import LOCAL_PASSPHRASE, local_environment
from trainyard.cluster.folders import cluster_folder, private_folder, write_private
from trainyard.cluster.provider import ClusterAccess, ClusterStatus, NodeChanges, ProcessStatus
from trainyard.cluster.simulated_nodes import PLATFORM_NODE
from trainyard.cluster.toolchain import Toolchain
from trainyard.errors import TrainyardError
from trainyard.progress import Progress
from trainyard.settings.fabric import FabricSettings
from trainyard.settings.versions import KUBERNETES_VERSION
from trainyard.topology import compile_fabric

__all__ = ["KindProvider", "kind_configuration"]

_ENGINES = ("docker", "podman", "nerdctl")
_MANY_NODES = 20


def kind_configuration(name: str, fabric: FabricSettings) -> str:
    """Return the kind configuration of a fabric: a worker for each node with its labels, and one for the platform.

    Containers have no accelerators, and kind chooses their names; the label ``trainyard.dev/fabric-node`` carries the
    fabric's name of the node.
    """
    workers = [
        {"role": "worker", "labels": {"trainyard.dev/fabric-node": node.name, **_allowed_labels(node.labels)}}
        for node in compile_fabric(fabric).nodes
    ]
    platform = {
        "role": "worker",
        "labels": {"trainyard.dev/fabric-node": PLATFORM_NODE, "trainyard.dev/platform": "true"},
    }
    document = {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "name": name,
        "nodes": [{"role": "control-plane"}, platform, *workers],
    }
    return yaml.safe_dump(document, sort_keys=False)


def _allowed_labels(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in sorted(labels.items()) if not key.startswith("kubernetes.io/")}


class KindProvider:
    """A kind cluster on this machine.

    Parameters
    ----------
    name
        Name of the cluster.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = cluster_folder(name)

    def up(self, fabric: FabricSettings, progress: Progress) -> ClusterAccess:
        """Create the cluster if it does not exist.

        Raises
        ------
        TrainyardError
            The ``kind`` command or a container engine is missing, or the fabric is too large.
        """
        configuration = kind_configuration(self.name, fabric)
        write_private(self.folder.configuration / "kind.yaml", configuration)
        self._require_tools(len(compile_fabric(fabric).nodes))
        private_folder(self.folder.pulumi)
        if not (self.folder.pulumi / "passphrase").is_file():
            write_private(self.folder.pulumi / "passphrase", LOCAL_PASSPHRASE)
        with progress.step("Cluster in containers") as step:
            if self._exists():
                step.done("already exists")
            else:
                step.update("creating nodes")
                image = f"docker.io/kindest/node:v{KUBERNETES_VERSION}"
                self._kind(
                    "create",
                    "cluster",
                    "--config",
                    str(self.folder.configuration / "kind.yaml"),
                    "--image",
                    image,
                    "--wait",
                    "180s",
                )
            write_private(self.folder.kubeconfig, self._kind("get", "kubeconfig", "--name", self.name))
        return self.access()

    def down(self, *, delete: bool, progress: Progress) -> None:
        """Stop the containers; with ``delete``, remove the cluster and its files."""
        self._require_tools(0)
        with progress.step("Stop the cluster in containers") as step:
            if delete:
                self._kind("delete", "cluster", "--name", self.name)
                shutil.rmtree(self.folder.root, ignore_errors=True)
                step.done("removed")
                return
            containers = self._kind("get", "nodes", "--name", self.name).split()
            if containers:
                _run([self._engine() or "docker", "stop", *containers], dict(os.environ))
            step.done(f"{len(containers)} containers stopped")

    def status(self) -> ClusterStatus:
        """Return the status of the cluster's containers."""
        missing = self._missing()
        if missing:
            return ClusterStatus(self.name, None, (), "; ".join(str(finding) for finding in missing))
        if not self._exists():
            return ClusterStatus(
                self.name,
                None,
                (),
                f"cluster {self.name} does not exist; run `trainyard cluster up --name {self.name} --provider kind`",
            )
        processes = []
        for node in sorted(self._kind("get", "nodes", "--name", self.name).split()):
            running = (
                _run(
                    [self._engine() or "docker", "inspect", "--format", "{{.State.Running}}", node], dict(os.environ)
                ).strip()
                == "true"
            )
            processes.append(
                ProcessStatus(
                    node,
                    KUBERNETES_VERSION,
                    "",
                    None,
                    "healthy" if running else "stopped",
                    "" if running else "container is stopped",
                )
            )
        return ClusterStatus(self.name, self.folder.kubeconfig, tuple(processes))

    def logs(self, process: str, lines: int) -> str:
        """Return the last lines of a node's container."""
        self._require_tools(0)
        return _run([self._engine() or "docker", "logs", "--tail", str(lines), process], dict(os.environ))

    def sync_nodes(self, fabric: FabricSettings) -> NodeChanges:
        """Change nothing: the nodes are containers created with the cluster."""
        return NodeChanges(unchanged=len(compile_fabric(fabric).nodes) + 1)

    def environment(self) -> dict[str, str]:
        """Return the variables that point tools at this cluster."""
        return local_environment(self.access().kubeconfig, self.folder.pulumi, Toolchain().folders())

    def keep_access(self) -> None:
        """Do nothing: the folder of the cluster has the kubeconfig."""

    def access(self) -> ClusterAccess:
        """Return the access to the cluster."""
        if not self.folder.kubeconfig.is_file():
            raise TrainyardError(
                f"Cluster {self.name} does not exist",
                fix=f"run `trainyard cluster up --name {self.name} --provider kind`",
            )
        return ClusterAccess(self.name, self.folder.kubeconfig, f"kind-{self.name}", None)

    def _exists(self) -> bool:
        return self.name in self._kind("get", "clusters").split()

    @staticmethod
    def _engine() -> str | None:
        wanted = os.environ.get("KIND_EXPERIMENTAL_PROVIDER")
        return next((engine for engine in ([wanted] if wanted else _ENGINES) if shutil.which(engine)), None)

    def _missing(self, nodes: int = 0) -> list[Finding]:
        findings = []
        if shutil.which("kind") is None:
            findings.append(
                Finding("kind", "the kind command is not on PATH", "install kind: https://kind.sigs.k8s.io")
            )
        if self._engine() is None:
            findings.append(
                Finding("container engine", f"none of {', '.join(_ENGINES)} is on PATH", "install one of them")
            )
        if nodes > _MANY_NODES:
            findings.append(
                Finding(
                    "trainyard:fabric.domains",
                    f"{nodes} nodes would be {nodes} containers on this machine",
                    f"declare at most {_MANY_NODES}, or use the embedded provider",
                )
            )
        return findings

    def _require_tools(self, nodes: int) -> None:
        if findings := self._missing(nodes):
            raise TrainyardError(
                f"Requirements of provider kind are missing for cluster {self.name}",
                findings=findings,
                fix="install them, or use --provider embedded; "
                f"the configuration for kind is {self.folder.configuration / 'kind.yaml'}",
            )

    def _kind(self, *arguments: str) -> str:
        engine = self._engine()
        chosen = {"KIND_EXPERIMENTAL_PROVIDER": engine} if engine and engine != "docker" else {}
        return _run(["kind", *arguments], {**os.environ, **chosen})


def _run(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)  # noqa: S603
    if done.returncode:
        raise TrainyardError(
            f"`{' '.join(command[:3])}` failed: {' '.join(done.stderr.split())[-400:]}",
            fix="check that the container engine runs",
        )
    return done.stdout
