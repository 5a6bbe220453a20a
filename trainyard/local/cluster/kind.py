"""Provider of a kind cluster: one container per node, labeled after the fabric."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Mapping

import yaml

from trainyard.checks.finding import Finding
from trainyard.errors import TrainyardError
from trainyard.local.cluster.embedded import EmbeddedProvider
from trainyard.local.cluster.environment import LOCAL_PASSPHRASE, local_environment
from trainyard.local.cluster.folders import cluster_folder, private_folder, write_private
from trainyard.local.cluster.image_sources import image_builder
from trainyard.local.cluster.kind_requirements import find_kind, missing_for, missing_programs, responding_engine
from trainyard.local.cluster.node.node_images import import_images
from trainyard.local.cluster.node.real_nodes import await_nodes
from trainyard.local.cluster.provider import ClusterAccess, ClusterStatus, NodeChanges, ProcessStatus
from trainyard.local.cluster.simulated_nodes import PLATFORM_NODE
from trainyard.local.cluster.toolchain import Toolchain
from trainyard.local.images.container_engine import ContainerEngine, find_engine, kind_command
from trainyard.progress import Progress
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.settings.fabric import FabricSettings
from trainyard.settings.versions import KUBERNETES_VERSION

OWN_NODE_IMAGE = f"localhost/trainyard/kind-node:v{KUBERNETES_VERSION}"
"""Image of a node that is used where the engine has it."""
PLATFORM_IMAGES = (
    *("trainyard-controller", "opa", "vc-scheduler", "vc-controller-manager", "vc-webhook-manager", "jobset"),
    *("dataset-initializer", "model-initializer"),
)
"""Images of this checkout that the nodes get: no registry has them under these names."""


def kind_configuration(name: str, fabric: FabricSettings, *, cgroup_version: int = 2, image: str = "") -> str:
    """Return the kind configuration of a fabric: a worker for each node with its labels, and one for the platform.

    Containers have no accelerators, and kind chooses their names; the label ``trainyard.dev/fabric-node`` carries the
    fabric's name of the node. The kubelet starts on cgroup version 1 only with `failCgroupV1: false`. The
    kube-proxy in this project's node image has nftables and no iptables.
    """
    workers = [
        {"role": "worker", "labels": {"trainyard.dev/fabric-node": node.name, **_allowed_labels(node.labels)}}
        for node in compile_fabric(fabric).nodes
    ]
    platform = {
        "role": "worker",
        "labels": {"trainyard.dev/fabric-node": PLATFORM_NODE, "trainyard.dev/platform": "true"},
    }
    document: dict[str, object] = {"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4", "name": name}
    if cgroup_version == 1:
        document["kubeadmConfigPatches"] = ["kind: KubeletConfiguration\nfailCgroupV1: false\n"]
    if image.partition("@")[0].rpartition("/")[2].partition(":")[0] == "kind-node":
        document["networking"] = {"kubeProxyMode": "nftables"}
    document["nodes"] = [{"role": "control-plane"}, platform, *workers]
    return yaml.safe_dump(document, sort_keys=False)


def _allowed_labels(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in sorted(labels.items()) if not key.startswith("kubernetes.io/")}


def node_image(wanted: str | None, engine: str) -> str:
    """Return the image of the nodes: that of the settings, this project's where the engine has it, else upstream's."""
    if wanted:
        return wanted
    found = subprocess.run([engine, "image", "inspect", OWN_NODE_IMAGE], capture_output=True, check=False)  # noqa: S603
    return f"docker.io/kindest/node:v{KUBERNETES_VERSION}" if found.returncode else OWN_NODE_IMAGE


class KindProvider:
    """A kind cluster on this machine.

    Parameters
    ----------
    name
        Name of the cluster.
    image
        Image of the nodes; None: as `node_image`.
    """

    def __init__(self, name: str, image: str | None = None) -> None:
        self.name = name
        self.folder = cluster_folder(name)
        self._image = image

    def up(self, fabric: FabricSettings, progress: Progress) -> ClusterAccess:
        """Create the cluster, or start its containers, wait until the nodes are ready, and give them the images.

        Raises
        ------
        TrainyardError
            The ``kind`` command or a suitable container engine is missing, or the fabric is too large.
        """
        nodes = len(compile_fabric(fabric).nodes)
        engine = self._require_tools(fabric, nodes)
        private_folder(self.folder.pulumi)
        if not (self.folder.pulumi / "passphrase").is_file():
            write_private(self.folder.pulumi / "passphrase", LOCAL_PASSPHRASE)
        with progress.step("Cluster in containers") as step:
            if self._exists():
                started = self._start(engine.program)
                step.done(f"{started} containers started" if started else "already exists")
            else:
                step.update("creating nodes")
                self._create(engine.program)
            write_private(self.folder.kubeconfig, self._kind("get", "kubeconfig", "--name", self.name))
        with progress.step("Nodes") as step:
            containers = self._containers()
            asyncio.run(await_nodes(self.folder.kubeconfig, set(containers), step.update))
            step.done(f"{len(containers)} ready")
        images = image_builder(progress=progress).build(PLATFORM_IMAGES, progress)
        with progress.step("Images") as step:
            workers = [node for node in containers if not _is_control_plane(node)]
            inside = {node: [engine.program, "exec", "--interactive", node] for node in workers}
            imported = import_images(inside, images)
            step.done(f"{imported} imported" if imported else "all present")
        return self.access()

    def _create(self, engine: str) -> None:
        image = node_image(self._image, engine)
        configuration = str(self.folder.configuration / "kind.yaml")
        try:
            self._kind("create", "cluster", "--config", configuration, "--image", image, "--wait", "180s")
        except TrainyardError as error:
            raise TrainyardError(
                error.message,
                fix=f"check that {engine} has or can pull the image {image}; "
                "trainyard:cluster.nodeImage names another, and "
                f"`trainyard images build kind-node`, then `trainyard images load kind-node --into {engine}`, "
                "make one without a registry",
            ) from error

    def _start(self, engine: str) -> int:
        """Start the containers that are stopped, the control plane first, and return their number."""
        stopped = [node for node in self._containers() if not _runs(engine, node)]
        for node in sorted(stopped, key=lambda name: not _is_control_plane(name)):
            _run([engine, "start", node])
        return len(stopped)

    def down(self, *, delete: bool, progress: Progress) -> None:
        """Stop the containers; with ``delete``, remove the cluster and its files.

        A cluster of this name whose processes run on this machine is stopped too, before its files are removed.
        """
        if self.folder.state.exists() or self.folder.etcd.exists():
            EmbeddedProvider(self.name).down(delete=delete, progress=progress)
            return
        if findings := missing_programs():
            raise self._unsuitable(findings)
        with progress.step("Stop the cluster in containers") as step:
            if delete:
                self._kind("delete", "cluster", "--name", self.name)
                shutil.rmtree(self.folder.root, ignore_errors=True)
                step.done("removed")
                return
            containers = self._containers()
            if containers:
                _run([_engine(), "stop", *containers])
            step.done(f"{len(containers)} containers stopped")

    def status(self) -> ClusterStatus:
        """Return the status of the cluster's containers."""
        missing = missing_programs()
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
        for node in self._containers():
            state, detail = ("healthy", "") if _runs(_engine(), node) else ("stopped", "container is stopped")
            processes.append(ProcessStatus(node, KUBERNETES_VERSION, "", None, state, detail))
        return ClusterStatus(self.name, self.folder.kubeconfig, tuple(processes))

    def logs(self, process: str, lines: int) -> str:
        """Return the last lines of a node's container."""
        if findings := missing_programs():
            raise self._unsuitable(findings)
        return _run([_engine(), "logs", "--tail", str(lines), process])

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

    def _containers(self) -> list[str]:
        return sorted(self._kind("get", "nodes", "--name", self.name).split())

    def _require_tools(self, fabric: FabricSettings, nodes: int) -> ContainerEngine:
        """Write the configuration of kind, and return the engine."""
        findings, program = missing_programs(), find_engine()
        engine = responding_engine(program) if program else None
        if isinstance(engine, Finding):
            findings.append(engine)
        known = engine if isinstance(engine, ContainerEngine) else ContainerEngine("")
        image = node_image(self._image, known.program) if known.program else self._image or ""
        configuration = kind_configuration(self.name, fabric, cgroup_version=known.cgroup_version, image=image)
        write_private(self.folder.configuration / "kind.yaml", configuration)
        findings += missing_for(known, nodes)
        if findings or not isinstance(engine, ContainerEngine):
            raise self._unsuitable(findings)
        return engine

    def _unsuitable(self, findings: list[Finding]) -> TrainyardError:
        return TrainyardError(
            f"Requirements of provider kind are missing for cluster {self.name}",
            findings=findings,
            fix="see above, or use --provider embedded; "
            f"the configuration for kind is {self.folder.configuration / 'kind.yaml'}",
        )

    @staticmethod
    def _kind(*arguments: str) -> str:
        return _run(kind_command(*arguments, program=find_kind() or "kind"))


def _engine() -> str:
    return find_engine() or "docker"


def _is_control_plane(node: str) -> bool:
    return node.endswith("-control-plane")


def _runs(engine: str, node: str) -> bool:
    return _run([engine, "inspect", "--format", "{{.State.Running}}", node]).strip() == "true"


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))  # noqa: S603
    if done.returncode:
        raise TrainyardError(
            f"`{' '.join(command[:5])}` failed: {' '.join(done.stderr.split())[-400:]}",
            fix="check that the container engine runs",
        )
    return done.stdout
