"""Provider of a cluster on this machine whose nodes have kubelets and containerd: real pods."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from trainyard import pki
from trainyard.errors import TrainyardError
from trainyard.kube.api_errors import ApiError, TransportError
from trainyard.local.cluster.control_plane_certificates import read_pair
from trainyard.local.cluster.embedded import EmbeddedProvider
from trainyard.local.cluster.folders import private_folder, write_private
from trainyard.local.cluster.host_address import IpFamily
from trainyard.local.cluster.image_sources import image_builder
from trainyard.local.cluster.kubeconfig import certificate_kubeconfig
from trainyard.local.cluster.node.cleanup import clean_up_node, stop_nodes
from trainyard.local.cluster.node.control_groups import create, hierarchies
from trainyard.local.cluster.node.network import connect, is_connected
from trainyard.local.cluster.node.node_files import NodeFolder, NodePrograms, files, init_file
from trainyard.local.cluster.node.node_images import enter, first_process, import_images
from trainyard.local.cluster.node.node_objects import DNS, system_objects
from trainyard.local.cluster.node.node_plan import GATEWAY, NodePlan, machine_name, plan_nodes
from trainyard.local.cluster.node.node_storage import PROVISIONER, storage_objects
from trainyard.local.cluster.node.real_nodes import await_nodes, await_system, label_nodes
from trainyard.local.cluster.node.requirements import most_pods, programs_on_machine, require_suitable_machine, reserved
from trainyard.local.cluster.process import alive, last_lines, read_record
from trainyard.local.cluster.provider import ClusterAccess, NodeChanges
from trainyard.local.cluster.state import ClusterState, ProgramFile, load_state
from trainyard.local.cluster.toolchain import own_program
from trainyard.local.images.built_image import BuiltImage
from trainyard.progress import Progress, Step
from trainyard.scheduling.topology.fabric_compiler import compile_fabric
from trainyard.settings.fabric import FabricSettings

T = TypeVar("T")

_PAUSE, _FOLDERS = "pause", "volume-folders"
"""Images."""
_LIFETIME = datetime.timedelta(days=365)
_SERVER_NAME = "kubernetes.default.svc"
"""In the certificate of the API server, whatever the address."""
_PROGRAMS = ("containerd", "kubelet", "kube-proxy")


class NodeProvider(EmbeddedProvider):
    """A control plane as of the embedded provider, and a node with a kubelet for each one of the fabric.

    Parameters
    ----------
    name
        Name of the cluster.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._files: dict[str, dict[str, str]] = {}
        self._programs: NodePrograms | None = None

    def up(self, fabric: FabricSettings, progress: Progress, *, expected_nodes: int = 0) -> ClusterAccess:
        """Start what does not run, import the images, and wait until the nodes are ready and names are resolved.

        Parameters
        ----------
        fabric, progress, expected_nodes
            As for the embedded provider.

        Raises
        ------
        TrainyardError
            The machine is unsuitable, a program or image cannot be built, or a node does not become ready.
        """
        if self.ip_family not in (None, IpFamily.IPV4):
            raise TrainyardError(
                "Provider node connects its nodes by IPv4 only", fix="leave out --ip-family, or use provider embedded"
            )
        require_suitable_machine(self.name)
        nodes = compile_fabric(fabric).nodes
        plans = plan_nodes(machine_name(self.folder.root), [node.name for node in nodes])
        self.kubelets = tuple(plan.name for plan in plans)
        programs = programs_on_machine(
            own_program("kubelet", progress=progress), own_program("kube-proxy", progress=progress)
        )
        images = image_builder(progress=progress).build((), progress)
        pause = _named(images, _PAUSE)
        self._programs = programs
        self._files = {
            plan.name: files(
                plan, programs, pause.reference, reserved(node.capacity, node.name), most_pods(node.capacity)
            )
            for plan, node in zip(plans, nodes, strict=True)
        }
        access = super().up(fabric, progress, expected_nodes=expected_nodes)
        with progress.step("Images") as step:
            imported = import_images({name: enter(pid) for name, pid in self._first_processes(plans).items()}, images)
            step.done(f"{imported} imported" if imported else "all present")
        with progress.step("Names and storage") as step:
            state = load_state(self.folder)
            assert state is not None  # noqa: S101
            objects = [
                *system_objects(state.ports["kube-apiserver/secure"], _named(images, DNS).reference),
                *storage_objects(*(_named(images, name).reference for name in (PROVISIONER, _FOLDERS))),
            ]
            self._run(await_system(access.kubeconfig, objects, step.update))
            step.done(f"{DNS} and {PROVISIONER} are available")
        return access

    def _prepare(self, programs: dict[str, ProgramFile], nodes: int) -> ClusterState:
        former = load_state(self.folder)
        state = super()._prepare(programs, nodes)
        cluster = machine_name(self.folder.root)
        plans = plan_nodes(cluster, state.kubelets)
        running = [plan for plan in plans if alive(read_record(self.folder.processes, plan.process))]
        if running and self._intact(plans, former):
            for plan in plans:
                if plan not in running:
                    clean_up_node(plan)
        else:
            # What is there belongs to other nodes or to an interrupted start.
            stop_nodes(self.folder)
            connect(cluster, plans)
        groups = [create(plan.cgroup, hierarchies()) for plan in plans]
        for plan, folders in zip(plans, groups, strict=True):
            self._write(plan, state, folders)
        return state

    def _intact(self, plans: tuple[NodePlan, ...], former: ClusterState | None) -> bool:
        return former is not None and former.kubelets == self.kubelets and is_connected(plans[0].cluster, plans)

    def _write(self, plan: NodePlan, state: ClusterState, cgroups: list[Path]) -> None:
        assert self._programs is not None  # noqa: S101
        folder = NodeFolder(self.folder.nodes / plan.name)
        for part in folder.parts:
            private_folder(part)
        now = datetime.datetime.now(datetime.UTC)
        authority = read_pair(self.folder.pki, "ca")
        server = f"https://{GATEWAY}:{state.ports['kube-apiserver/secure']}"
        pairs = {
            "kubelet": (f"system:node:{plan.name}", ("system:nodes",), (plan.address,)),
            "kube-proxy": ("system:kube-proxy", (), ()),
        }
        texts: dict[str, str | bytes] = {
            **self._files[plan.name],
            "etc/ca.crt": authority.certificate,
            "etc/init.json": init_file(plan, folder.root, self.folder.root.parent, self._programs, cgroups),
        }
        for name, (user, groups, addresses) in pairs.items():
            certificate, key = folder.root / "etc" / f"{name}.crt", folder.root / "etc" / f"{name}.key"
            if certificate.is_file() and key.is_file() and pki.renewal_due(certificate.read_bytes()) > now:
                pair = pki.KeyPair(certificate.read_bytes(), key.read_bytes())
            else:
                pair = pki.issue(
                    authority,
                    user,
                    now=now,
                    lifetime=_LIFETIME,
                    organizations=groups,
                    ip_addresses=addresses,
                    server=bool(addresses),
                    client=True,
                )
            texts |= {f"etc/{name}.crt": pair.certificate, f"etc/{name}.key": pair.key}
            texts[f"etc/{name}.kubeconfig"] = certificate_kubeconfig(
                self.name, server, authority.certificate, user, pair, server_name=_SERVER_NAME
            )
        for path, text in texts.items():
            data = text.encode() if isinstance(text, str) else text
            target = folder.root / path
            if not target.is_file() or target.read_bytes() != data:
                write_private(target, data)

    def _first_processes(self, plans: tuple[NodePlan, ...]) -> dict[str, int]:
        found = {}
        for plan in plans:
            record = read_record(self.folder.processes, plan.process)
            started = record.pid if record is not None and alive(record) else None
            first = first_process(started) if started is not None else None
            if first is None:
                raise TrainyardError(
                    f"Node {plan.name} does not run", fix=f"read `trainyard cluster logs {plan.process}`"
                )
            found[plan.name] = first
        return found

    def _stop_nodes(self, step: Step) -> int:
        """Stop the nodes, also those of an interrupted start, which the state does not know yet."""
        return stop_nodes(self.folder, step)

    def sync_nodes(self, fabric: FabricSettings) -> NodeChanges:
        """Wait until the nodes are ready, and give them the labels and devices of the fabric."""
        nodes = compile_fabric(fabric).nodes
        kubeconfig = self.access().kubeconfig
        self._run(await_nodes(kubeconfig, {node.name for node in nodes}, lambda _: None))
        return self._run(label_nodes(kubeconfig, nodes))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return asyncio.run(work)
        except (ApiError, TransportError) as error:
            raise TrainyardError(
                f"The API server of cluster {self.name} does not answer: {error}", fix="see `trainyard cluster status`"
            ) from error

    def logs(self, process: str, lines: int) -> str:
        """Return the last lines of the log of a process; ``node-NAME/kubelet`` is that of a program of a node."""
        node, _, program = process.partition("/")
        if program in _PROGRAMS and node.startswith("node-"):
            return last_lines(NodeFolder(self.folder.nodes / node.removeprefix("node-")).log(program), lines)
        return super().logs(process, lines)

    def access(self) -> ClusterAccess:
        """Return the access to the control plane; webhooks are called through Services."""
        return replace(super().access(), webhook_ports=None)


def _named(images: list[BuiltImage], name: str) -> BuiltImage:
    return next(image for image in images if image.name == name)
