"""Training started by a launcher over SSH: keys, host file and node counts.

The replicatedJobs have fixed names. ``launcher`` is one pod and runs the TrainJob's command in its container ``node``
(or ``launcher``). The pods of ``node`` run an SSH server, through which the launcher starts processes. ``numNodes``
counts training nodes: the pods of ``node`` and, with runLauncherAsNode, the launcher. A single node is then the
launcher, and replicatedJob ``node`` is removed. Each node gets image, variables and resources of the TrainJob's
trainer, since it runs the same program.

Kueue counts pods and resources as upstream places them: at least one pod of ``node``, and the resources of the trainer
on the launcher. A job in one of its queues follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from pathlib import PurePosixPath
from typing import Annotated, ClassVar, Final, Protocol, TypeVar

from pydantic import Field

from trainyard.api import Body, KubernetesModel
from trainyard.api.constants import CONTAINER_NODE, DATASET_INITIALIZER, MODEL_INITIALIZER, TRAINER
from trainyard.checks.finding import Finding
from trainyard.jobs.render.devices import gpu_count
from trainyard.jobs.render.frameworks.base import Framework
from trainyard.jobs.render.frameworks.mpi_implementations import HOST_FILE_DIRECTORY, HOST_FILE_NAME, Implementation
from trainyard.jobs.render.frameworks.passed_variables import unpassed_variables
from trainyard.jobs.render.hosts import MOST_FILE_BYTES, hosts, size_error, size_of_hosts
from trainyard.jobs.render.job_set_builder import JobSetBuilder
from trainyard.jobs.render.job_view import JobView
from trainyard.jobs.render.merge import merge_resources
from trainyard.jobs.render.pod_editing import copied, prepend_env, upsert_env, upsert_mount, upsert_volume
from trainyard.jobs.render.pod_set import LAUNCHER, PodSet
from trainyard.jobs.render.reserved_env import reserved_errors
from trainyard.jobs.render.resolution import Resolution
from trainyard.jobs.render.resolved_job import ResolvedJob

Policy = TypeVar("Policy", bound=KubernetesModel)

_NODE: Final = CONTAINER_NODE
KEYS_VOLUME: Final = "mpi-ssh-auth"
HOST_FILE_VOLUME: Final = "mpi-hostfile"
_PRIVATE_KEY: Final = "ssh-privatekey"
_PUBLIC_KEY: Final = "ssh-publickey"
_PLACEHOLDER: Final = "<{}: generated once by the controller>"
_ROOT_HOME: Final = "/root"


MountPath = Annotated[str, Field(min_length=1, max_length=4096, alias="sshAuthMountPath")]
"""Mount path of the SSH keys."""


class LaunchPolicy(Protocol):
    """Fields that the policies of these frameworks have in common."""

    @property
    def num_proc_per_node(self) -> int:
        """Processes (slots) per node."""

    @property
    def ssh_auth_mount_path(self) -> str:
        """Mount path of the SSH keys."""

    @property
    def run_launcher_as_node(self) -> bool:
        """Whether the launcher is also a training node."""


class SshLaunched(Framework[Policy]):
    """A framework with a launcher that starts processes over SSH."""

    launched = True
    one_process_a_device = True

    keys = "ssh"
    children: ClassVar = {"ConfigMap": (f"-{HOST_FILE_VOLUME}",), "Secret": (f"-{KEYS_VOLUME}",)}
    title: ClassVar[str]
    """Name of the framework in messages."""

    def launch_policy(self, job: JobView) -> LaunchPolicy:
        """Return the policy of the runtime, with defaults."""
        raise NotImplementedError

    def implementation(self, job: JobView) -> Implementation:
        """Return host file format and variables of the launcher."""
        raise NotImplementedError

    def resolve(self, resolution: Resolution) -> None:
        """Label the launcher as the trainer, and set counts and resources of launcher and nodes."""
        _assign_trainer(resolution)
        launcher, node = resolution.pod_set(LAUNCHER), resolution.pod_set(_NODE)
        if launcher is not None:
            resolution.set_count(LAUNCHER, 1)
        if node is not None:
            workers = self._workers(resolution, node, with_launcher=launcher is not None)
            if workers == 0:
                resolution.remove(_NODE)
            else:
                resolution.set_count(_NODE, workers)
        self._place_resources(resolution)

    def validate(self, job: ResolvedJob) -> Iterable[Finding]:
        """Yield invalid numbers, variables and paths, and runtimes without a launcher or without nodes."""
        yield from self._process_errors(job)
        yield from reserved_errors(job, frozenset(self.implementation(job).variables))
        trainer, policy = job.spec.trainer, self.launch_policy(job)
        launcher, node = job.pod_set(LAUNCHER), job.pod_set(_NODE)
        both = launcher is not None and node is not None
        if trainer and (trainer.num_nodes or 1) >= 2 and policy.run_launcher_as_node and not both:
            yield Finding(
                "spec.trainer.numNodes",
                f"must have 1 when {self.title} trainingRuntime with enabled runLauncherAsNode "
                "does not have either launcher and node",
                f"use a runtime with replicatedJobs {LAUNCHER} and {_NODE}",
            )
        path = policy.ssh_auth_mount_path
        if ":" in path or path.rstrip("/") == HOST_FILE_DIRECTORY:
            yield Finding(
                "spec.runtimeRef",
                f"spec.mlPolicy.{self.name}.sshAuthMountPath of the runtime cannot be {path!r}",
                f"name the .ssh directory of the user in the image, not {HOST_FILE_DIRECTORY}",
            )
        nodes = self._host_pod_sets(job)
        size = sum(size_of_hosts(job, pod_set, separators=len(" slots=2147483647 \n")) for pod_set in nodes)
        yield from size_error(job, f"{HOST_FILE_NAME} of the host file", size, MOST_FILE_BYTES)
        yield from self._slot_warnings(job)
        yield from _image_warnings(job)
        yield from self._variable_warnings(job)
        if launcher is None or _container(launcher) is None:
            yield _incomplete(LAUNCHER, launcher, "nothing starts the processes")
        if (node is None and not policy.run_launcher_as_node) or (node and _container(node) is None):
            yield _incomplete(_NODE, node, "there is no node to start processes on")

    def build(self, builder: JobSetBuilder) -> Iterable[Body]:
        """Mount keys and host file, and set variables of the launcher and image and variables of the nodes.

        Return the Secret with the keys and the ConfigMap with the host file.
        """
        policy, implementation = self.launch_policy(builder), self.implementation(builder)
        addresses = self._hosts(builder)
        for pod_set in _launcher_and_nodes(builder):
            upsert_volume(pod_set.pod, _keys_volume(builder, policy.ssh_auth_mount_path))
            container = _container(pod_set)
            if container is not None:
                upsert_mount(container, {"name": KEYS_VOLUME, "mountPath": policy.ssh_auth_mount_path})
        launcher = builder.pod_set(LAUNCHER)
        if launcher is not None:
            upsert_volume(launcher.pod, _host_file_volume(builder))
            container = _container(launcher)
            if container is not None:
                upsert_mount(container, {"name": HOST_FILE_VOLUME, "mountPath": HOST_FILE_DIRECTORY})
                self._set_variables(builder, launcher, container, addresses)
        _configure_workers(builder)
        given = builder.context.keys or {}
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": builder.metadata(f"{builder.name}-{KEYS_VOLUME}"),
            "type": "kubernetes.io/ssh-auth",
            "immutable": True,
            "stringData": {name: given.get(name, _PLACEHOLDER.format(name)) for name in (_PRIVATE_KEY, _PUBLIC_KEY)},
        }
        host_file = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": builder.metadata(f"{builder.name}-{HOST_FILE_VOLUME}"),
            "data": {HOST_FILE_NAME: implementation.host_file(addresses)},
        }
        return secret, host_file

    def _workers(self, job: JobView, node: PodSet, *, with_launcher: bool) -> int:
        """Return the number of pods of ``node``.

        If the TrainJob does not set numNodes, a higher parallelism of ``node`` takes precedence over numNodes of the
        runtime.
        """
        requested = job.spec.trainer.num_nodes if job.spec.trainer else None
        nodes = max(requested if requested is not None else job.ml_policy.num_nodes or 1, 1)
        workers = nodes - 1 if with_launcher and self.launch_policy(job).run_launcher_as_node else nodes
        if job.kueue_queue is not None:
            workers = max(workers, 1)
        own = int(node.job["template"]["spec"].get("parallelism", 1))
        return own if requested is None and own > max(workers, 1) else workers

    def _launcher_trains(self, job: JobView) -> bool:
        return self.launch_policy(job).run_launcher_as_node or job.pod_set(_NODE) is None

    def _gets_resources(self, job: JobView, pod_set: PodSet) -> bool:
        """Return whether the resources of the TrainJob are those of a launcher or of nodes."""
        if job.kueue_queue is not None:
            return pod_set.name == LAUNCHER or self.launch_policy(job).run_launcher_as_node
        return pod_set.name != LAUNCHER or self._launcher_trains(job)

    def _place_resources(self, resolution: Resolution) -> None:
        """Set the resources of the TrainJob on each training node, but not on a launcher that does not train."""
        requested = resolution.spec.trainer.resources_per_node if resolution.spec.trainer else None
        if requested is None or not _launcher_is_trainer(resolution):
            return
        for pod_set in _launcher_and_nodes(resolution):
            container = _container(pod_set)
            if container is None:
                continue
            own = resolution.runtime_resources(pod_set.name, container["name"])
            resources = merge_resources(own or {}, {})
            if self._gets_resources(resolution, pod_set):
                resources = merge_resources(resources, copied(requested))
            resolution.set_resources(pod_set.name, container["name"], resources or None)

    def _slots(self, job: JobView, host: PodSet | None = None) -> int:
        """Return the processes of a host: set by TrainJob or runtime; if the runtime has the default 1, one per GPU.

        Parameters
        ----------
        host
            The pods; None: those of ``node``, else the launcher.
        """
        trainer, policy = job.spec.trainer, self.launch_policy(job)
        if trainer and isinstance(trainer.num_proc_per_node, int):
            return trainer.num_proc_per_node
        if policy.num_proc_per_node != 1:
            return policy.num_proc_per_node
        pod_set = host or job.pod_set(_NODE) or job.pod_set(LAUNCHER)
        container = _container(pod_set) if pod_set else None
        return max(1, ceil(gpu_count((container or {}).get("resources", {}))))

    def _hosts(self, job: JobView) -> list[tuple[str, int]]:
        """Return the host names with their slots."""
        implementation = self.implementation(job)
        addresses = list[tuple[str, int]]()
        for pod_set in self._host_pod_sets(job):
            names, slots = hosts(job, pod_set), self._slots(job, pod_set)
            if pod_set.name == LAUNCHER and implementation.short_launcher:
                names = [name.partition(".")[0] for name in names]
            addresses += [(name, slots) for name in names]
        return addresses

    def _set_variables(
        self, job: JobView, launcher: PodSet, container: Body, addresses: Sequence[tuple[str, int]]
    ) -> None:
        implementation, slots = self.implementation(job), self._slots(job)
        defaults = implementation.defaults_of(
            launcher_is_node=launcher in self._host_pod_sets(job),
            host_network=bool(launcher.pod.get("hostNetwork")),
        )
        own = {entry["name"] for entry in container.get("env", ())}
        processes = sum(number for _, number in addresses) or slots
        variables = implementation.environment(len(addresses), slots, processes, defaults)
        kept = own & defaults.keys()
        prepend_env(container, [variable for variable in variables if variable["name"] not in kept])

    def _slot_warnings(self, job: ResolvedJob) -> Iterator[Finding]:
        """Warn about devices of a host that no process uses."""
        slots = {pod_set.name: self._slots(job, pod_set) for pod_set in self._host_pod_sets(job)}
        if len(set(slots.values())) > 1 and self.implementation(job).uniform:
            numbers = ", ".join(f"{name} {number}" for name, number in slots.items())
            yield Finding.warning(
                "spec.trainer.numProcPerNode",
                f"the hosts have different numbers of devices ({numbers}), but {self.title} starts "
                f"{self._slots(job)} processes on each",
                "give launcher and node the same resources, or set numProcPerNode",
            )

    def _variable_warnings(self, job: ResolvedJob) -> Iterator[Finding]:
        trainer, launcher = job.spec.trainer, job.pod_set(LAUNCHER)
        container = _container(launcher) if launcher else None
        if trainer is None or not trainer.env or container is None or not _launcher_is_trainer(job):
            return
        if job.pod_set(_NODE) is None or self.implementation(job).passes_variables:
            return
        command = container.get("command") if trainer.command is None else trainer.command
        arguments = container.get("args") if trainer.args is None else trainer.args
        yield from unpassed_variables(trainer.env, [*(command or ()), *(arguments or ())])

    def _host_pod_sets(self, job: JobView) -> list[PodSet]:
        with_launcher = self.launch_policy(job).run_launcher_as_node
        return [pod_set for pod_set in _launcher_and_nodes(job) if pod_set.name == _NODE or with_launcher]

    def _process_errors(self, job: ResolvedJob) -> Iterator[Finding]:
        processes = job.spec.trainer.num_proc_per_node if job.spec.trainer else None
        if isinstance(processes, str):
            yield Finding(
                "spec.trainer.numProcPerNode",
                f"must have an int value for {self.title} TrainJob",
                "set the number of processes per node, or remove it for one per GPU",
            )
        elif processes is not None and processes < 1:
            yield Finding("spec.trainer.numProcPerNode", f"must be 1 or more, but is {processes}", "use 1 or more")


def _incomplete(name: str, pod_set: PodSet | None, consequence: str) -> Finding:
    missing = f"replicatedJob {name}" if pod_set is None else f"container {_NODE} in replicatedJob {name}"
    return Finding.warning(
        "spec.runtimeRef", f"the runtime has no {missing}: {consequence}", f"add {missing} to the runtime"
    )


def _image_warnings(job: ResolvedJob) -> Iterator[Finding]:
    """Warn about an image of the TrainJob on nodes that need an SSH server, and a container that clients do not find.

    An image of the same repository as the runtime's is taken for another version of it.
    """
    image, node, launcher = job.spec.trainer and job.spec.trainer.image, job.pod_set(_NODE), job.pod_set(LAUNCHER)
    container = _container(node) if node else None
    own = container.get("image", "") if container else ""
    if image and container and _launcher_is_trainer(job) and _repository(image) != _repository(own):
        yield Finding.warning(
            "spec.trainer.image",
            f"{image!r} is also the image of the nodes, which must have an SSH server",
            f"build it from the image of the runtime ({own}), or install sshd in it",
        )
    if launcher is not None and launcher.container(_NODE) is None and launcher.container(LAUNCHER) is not None:
        yield Finding.warning(
            "spec.runtimeRef",
            f'the container of replicatedJob "{LAUNCHER}" is not named {_NODE}: get_job of the Kubeflow SDK fails',
            f"name it {_NODE} in the runtime",
        )


def _repository(image: str) -> str:
    """Return an image without tag and digest."""
    name = image.partition("@")[0]
    return name.rpartition(":")[0] if ":" in name.rpartition("/")[2] else name


def _launcher_and_nodes(job: JobView) -> list[PodSet]:
    """Return launcher and nodes, in the order of the runtime."""
    return [pod_set for pod_set in job.pod_sets if pod_set.name in (_NODE, LAUNCHER)]


def _container(pod_set: PodSet) -> Body | None:
    """Return the container that trains or launches training."""
    found = pod_set.container(_NODE)
    return pod_set.container(LAUNCHER) if found is None and pod_set.name == LAUNCHER else found


def _assign_trainer(resolution: Resolution) -> None:
    """Label the launcher as the trainer if no replicatedJob is; remove the label of ``node`` if both have it.

    A launcher that is labelled as an initializer stays one; any other value of the label means nothing.
    """
    launcher, node = resolution.pod_set(LAUNCHER), resolution.pod_set(_NODE)
    if launcher is None:
        return
    if resolution.trainer is None and launcher.ancestor not in (DATASET_INITIALIZER, MODEL_INITIALIZER):
        resolution.set_ancestor(LAUNCHER, TRAINER)
    if _launcher_is_trainer(resolution) and node is not None and node.ancestor == TRAINER:
        resolution.set_ancestor(_NODE, None)


def _launcher_is_trainer(job: JobView) -> bool:
    """Return whether the launcher, and not another replicatedJob, runs the TrainJob's command."""
    launcher = job.pod_set(LAUNCHER)
    return launcher is not None and launcher.ancestor == TRAINER


def _configure_workers(builder: JobSetBuilder) -> None:
    trainer, node = builder.spec.trainer, builder.pod_set(_NODE)
    container = _container(node) if node else None
    if trainer is None or container is None or not _launcher_is_trainer(builder):
        return
    if trainer.image is not None:
        container["image"] = trainer.image
    if trainer.env:
        upsert_env(container, trainer.env)


def _keys_volume(builder: JobSetBuilder, folder: str) -> Body:
    public = {"key": _PUBLIC_KEY, "mode": 0o644}
    items = [
        {"key": _PRIVATE_KEY, "mode": _key_mode(folder), "path": "id_rsa"},
        {**public, "path": "id_rsa.pub"},
        {**public, "path": "authorized_keys"},
    ]
    secret = {"secretName": f"{builder.name}-{KEYS_VOLUME}", "defaultMode": 0o400, "items": items}
    return {"name": KEYS_VOLUME, "secret": secret}


def _key_mode(folder: str) -> int:
    """Return the mode of the private key, which is owned by root; ssh rejects a key of its user that others can read.

    For another user, this check does not apply; the user reads the key through the pod's fsGroup.
    """
    return 0o600 if PurePosixPath(folder).is_relative_to(_ROOT_HOME) else 0o640


def _host_file_volume(builder: JobSetBuilder) -> Body:
    items = [{"key": HOST_FILE_NAME, "mode": 0o444, "path": HOST_FILE_NAME}]
    return {"name": HOST_FILE_VOLUME, "configMap": {"name": f"{builder.name}-{HOST_FILE_VOLUME}", "items": items}}
