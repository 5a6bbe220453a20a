"""Flux: HPC scheduler inside the job that starts the processes of the command on all nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Annotated, ClassVar, Final

from pydantic import Field

from trainyard.api import Body
from trainyard.api.constants import CONTAINER_NODE
from trainyard.api.kubernetes_model import Int32, KubernetesModel
from trainyard.api.markers import rules
from trainyard.api.shape_rule import ShapeRule
from trainyard.checks.finding import Finding
from trainyard.jobs.render.devices import gpu_count, node_resources
from trainyard.jobs.render.frameworks.base import Framework
from trainyard.jobs.render.frameworks.flux_scripts import INIT, BrokerConfig, entrypoint
from trainyard.jobs.render.frameworks.roles import take_command
from trainyard.jobs.render.hosts import subdomain
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.job_view import JobView
from trainyard.jobs.render.pod_editing import upsert_mount, upsert_volume
from trainyard.jobs.render.pod_set import PodSet
from trainyard.jobs.render.resolved_job import ResolvedJob

_INSTALLER: Final = "flux-installer"
_SETTINGS: Final = {
    "FLUX_VIEW_IMAGE": "ghcr.io/converged-computing/flux-view-ubuntu:tag-jammy",
    "FLUX_NETWORK_DEVICE": "eth0",
    "FLUX_QUEUE_POLICY": "fcfs",
}
"""Variables of the training container that configure Flux, with their defaults."""

_KEY: Final = "curve.cert"
_SCRIPTS: Final = "flux-entrypoint"
_SCRIPTS_PATH: Final = "/etc/flux-config"
_INSTALL: Final = "flux-install"
_INSTALL_PATH: Final = "/mnt/flux"
_CURVE: Final = "flux-curve"
_SOFTWARE: Final = "spack-install"
_MEMORY: Final = "shared-memory"
_MEMORY_PATH: Final = "/dev/shm"  # noqa: S108


@dataclass(frozen=True)
class _Share:
    """Share of one node.

    Parameters
    ----------
    tasks
        Processes per node.
    gpus
        GPUs per node.
    """

    tasks: int
    gpus: int

    @property
    def divides(self) -> bool:
        """Whether the GPUs can be divided evenly among the processes."""
        return self.gpus % self.tasks == 0


_FLUX_PROCESSES = ShapeRule(
    "self >= 1",
    "NumProcPerNode in fluxPolicy must be >= 1",
    fix="use 1 or more",
    holds=lambda value: bool(value >= 1),
)


class FluxPolicy(KubernetesModel):
    """Flux: a scheduler inside the job."""

    num_proc_per_node: Annotated[Int32, Field(json_schema_extra=rules(_FLUX_PROCESSES))] = 1
    """Processes per node."""


class Flux(Framework[FluxPolicy]):
    """A Flux instance on all nodes; the first one submits the command."""

    name = "flux"
    order = 50
    summary = "Flux."
    policy_model = FluxPolicy
    ranks = ("FLUX_TASK_RANK", "PMI_RANK")
    sizes = ("FLUX_JOB_SIZE", "PMI_SIZE")

    splits_command = True
    keys = "curve"
    children: ClassVar = {"ConfigMap": (f"-{_SCRIPTS}",), "Secret": (f"-{_CURVE}",)}

    def validate(self, job: ResolvedJob) -> Iterable[Finding]:
        """Yield invalid numbers of processes, indivisible GPUs, and an init container named as the installer."""
        tasks = _requested_tasks(job)
        if tasks < 1:
            yield Finding(
                "spec.trainer.numProcPerNode",
                f"must be greater than or equal to 1 for Flux TrainJob, not {tasks}",
                "use 1 or more",
            )
        nodes = _nodes(job)
        if nodes is not None and any(entry["name"] == _INSTALLER for entry in nodes.pod.get("initContainers", ())):
            yield Finding(
                "spec.trainer.initContainers",
                f"InitContainer '{_INSTALLER}' is reserved",
                "rename it in the runtime: the framework adds one of this name",
            )
        share = _share(job)
        if tasks >= 1 and not share.divides:
            yield Finding.warning(
                "spec.trainer.numProcPerNode",
                f"{share.gpus} GPUs cannot be divided among {share.tasks} processes: each process sees all of them",
                "use a divisor of the number of GPUs of a node, or choose devices in the program",
            )

    def build(self, builder: JobSetBuilder) -> Iterable[Body]:
        """Wrap the command, and add Flux, its configuration and its key to the pods.

        Return the ConfigMap with scripts and configuration, and the Secret with the CURVE key of the brokers.
        """
        nodes = _nodes(builder)
        container = _container(nodes)
        if nodes is None or container is None:
            return ()
        settings = _settings(builder, container)
        command = _words(take_command(builder, container))
        container["command"] = ["/bin/bash", f"{_SCRIPTS_PATH}/entrypoint.sh"]
        container.pop("args", None)
        if command:
            container["args"] = command
        for volume in _volumes(builder):
            upsert_volume(nodes.pod, volume)
        install = {"name": _INSTALL, "mountPath": _INSTALL_PATH}
        scripts = {"name": _SCRIPTS, "mountPath": _SCRIPTS_PATH, "readOnly": True}
        nodes.pod.setdefault("initContainers", []).append(
            {
                "name": _INSTALLER,
                "image": settings["FLUX_VIEW_IMAGE"],
                "command": ["/bin/bash", f"{_SCRIPTS_PATH}/init.sh"],
                "volumeMounts": [install, scripts],
            }
        )
        for mount in (
            install,
            {"name": _SOFTWARE, "mountPath": "/opt/software"},
            scripts,
            {"name": _CURVE, "mountPath": "/curve", "readOnly": True},
            {"name": _MEMORY, "mountPath": _MEMORY_PATH},
        ):
            upsert_mount(container, mount)
        return _scripts(builder, nodes, settings), _key(builder)


def _words(command: list[str]) -> list[str]:
    """Split a first element with blanks: upstream joins all elements, and its script splits them at blanks."""
    return [*command[0].split(), *command[1:]] if command else command


def _scripts(builder: JobSetBuilder, nodes: PodSet, settings: Mapping[str, str]) -> Body:
    count, share = max(1, nodes.count), _share(builder)
    prefix = f"{builder.name}-{nodes.name}-0-"
    hosts = f"{prefix}[{_range(count)}]"
    config = BrokerConfig(settings["FLUX_NETWORK_DEVICE"], subdomain(builder), hosts, settings["FLUX_QUEUE_POLICY"])
    resources = [f"--cores={_range(share.tasks)}"]
    options = ["-N", str(count), "-n", str(count * share.tasks)]
    if share.gpus:
        resources.append(f"--gpus={_range(share.gpus)}")
        per_task = ["-g", str(share.gpus // share.tasks)]
        options += per_task if share.divides else ["-o", "gpu-affinity=off"]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": builder.metadata(f"{builder.name}-{_SCRIPTS}"),
        "data": {
            "broker.toml": config.text(),
            "entrypoint.sh": entrypoint(f"{prefix}0", hosts, resources, options),
            "init.sh": INIT,
        },
    }


def _key(builder: JobSetBuilder) -> Body:
    keys = builder.context.keys or {}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": builder.metadata(f"{builder.name}-{_CURVE}"),
        "type": "Opaque",
        "immutable": True,
        "stringData": {_KEY: keys.get(_KEY, f"<{_KEY}: generated once by the controller>")},
    }


def _nodes(job: JobView) -> PodSet | None:
    return job.trainer or job.pod_set(CONTAINER_NODE)


def _container(nodes: PodSet | None) -> Body | None:
    return (nodes.main_container or nodes.container(CONTAINER_NODE)) if nodes else None


def _settings(builder: JobSetBuilder, container: Body) -> dict[str, str]:
    """Return the settings of Flux from variables of the training container; the TrainJob takes precedence."""
    trainer = builder.spec.trainer
    settings = dict(_SETTINGS)
    for variable in (*container.get("env", ()), *((trainer.env if trainer else None) or ())):
        if variable["name"] in settings and variable.get("value"):
            settings[variable["name"]] = str(variable["value"])
    return settings


def _requested_tasks(job: JobView) -> int:
    trainer, policy = job.spec.trainer, job.ml_policy.of(Flux)
    requested = trainer.num_proc_per_node if trainer else None
    if isinstance(requested, int):
        return requested
    return policy.num_proc_per_node if policy else 1


def _share(job: JobView) -> _Share:
    return _Share(max(1, _requested_tasks(job)), max(0, ceil(gpu_count(node_resources(job)))))


def _range(count: int) -> str:
    return "0" if count == 1 else f"0-{count - 1}"


def _volumes(builder: JobSetBuilder) -> list[Body]:
    scripts = {"name": f"{builder.name}-{_SCRIPTS}", "defaultMode": 0o755}
    return [
        {"name": _SOFTWARE, "emptyDir": {}},
        {"name": _INSTALL, "emptyDir": {}},
        {"name": _SCRIPTS, "configMap": scripts},
        {"name": _MEMORY, "emptyDir": {"medium": "Memory"}},
        {"name": _CURVE, "secret": {"secretName": f"{builder.name}-{_CURVE}", "defaultMode": 0o400}},
    ]


FRAMEWORK: Final = Flux()
