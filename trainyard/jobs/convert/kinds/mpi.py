"""MPIJob of the training operator (v1) and of the MPI operator (v2beta1)."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from trainyard.api import Body
from trainyard.api.constants import CONTAINER_NODE
from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.field_finding import Fidelity, FieldFinding
from trainyard.jobs.convert.mpi_volumes import map_operator_volumes
from trainyard.jobs.convert.operator_roles import Roles, require
from trainyard.jobs.convert.part import Part
from trainyard.jobs.convert.run_policy import read_clean_pod_policy, read_run_policy
from trainyard.jobs.convert.variables import literal, note_legacy_hosts, set_first
from trainyard.jobs.render.pod_editing import upsert_env
from trainyard.jobs.render.pod_set import LAUNCHER

_PATH: Final = "spec.mpiReplicaSpecs"
_FIRST_ROLES: Final = Roles(_PATH, "mpi", "Never", "mpijob-controller", (LAUNCHER,))
_ROLES: Final = Roles(_PATH, "mpi", "Never", "mpi-operator", (), launched=True)
IMPLEMENTATIONS: Final = ("OpenMPI", "Intel", "MPICH")
_SERVER: Final = ("/usr/sbin/sshd", "-De")
_READY: Final = "Ready"
_ROOT: Final = "/root"
_GROUP: Final = 1000
_KUBEXEC: Final = "kubexec"
_DEVICES: Final = ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")


def convert(draft: Draft) -> None:
    """Convert an MPIJob to a draft."""
    source = draft.source
    first = source.peek("apiVersion") == "kubeflow.org/v1"
    named = source.text("spec.mainContainer")
    source.same("spec.mainContainer", "the training container")
    mains = (named,) if named else ()
    launcher_policy = "Never" if first else "OnFailure"
    roles = _FIRST_ROLES if first else _ROLES
    launcher = roles.read(draft, "Launcher", LAUNCHER, restart_policy=launcher_policy, mains=mains)
    launcher = require(draft, roles, launcher, "Launcher")
    if launcher.pods != 1:
        raise source.malformed(f"{launcher.role}.replicas", f"must be 1, but is {launcher.pods}")
    worker = roles.read(draft, "Worker", CONTAINER_NODE, mains=mains)
    # MPIJob v1 has no such field: a launcher with GPUs is in its host file.
    trains = bool(source.flag("spec.runLauncherAsWorker")) or (first and _requests_gpus(launcher))
    source.same("spec.runLauncherAsWorker", "mpi.runLauncherAsNode")
    if worker is None and not trains:
        raise source.malformed(f"{_PATH}.Worker", "is missing, or has no pods")
    policy = _policy(draft)
    for part in draft.parts:
        map_operator_volumes(source, part, draft.name)
    lead(draft, launcher, worker, policy, trains=trains)
    if not trains:
        _hide_devices(draft, launcher)
    if not first:
        # The entry points of the operator's images wait for the workers by this variable.
        for part in draft.parts:
            set_first(part, [literal("K_MPI_JOB_ROLE", LAUNCHER if part is launcher else "worker")])
    if worker is not None:
        _serve(draft, worker, first=first)
    for part in draft.parts:
        old = [f"{source.peek('metadata.name')}-{role}" for role in ("worker-", "launcher")]
        note_legacy_hosts(source, part, old, (worker or launcher).first_host(draft.name))
        note_legacy_hosts(source, part, [_KUBEXEC], "SSH, which mpirun takes by itself", what="program")
    read_run_policy(draft)
    read_clean_pod_policy(draft, "spec.cleanPodPolicy")


def lead(draft: Draft, launcher: Part, worker: Part | None, policy: Body, *, trains: bool) -> None:
    """Configure a launcher that starts the processes on workers over SSH.

    Parameters
    ----------
    policy
        The runtime's MPI policy.
    trains
        Whether the launcher is also a node.
    """
    if trains:
        policy["runLauncherAsNode"] = True
    draft.framework, draft.policy = "mpi", {"mpi": policy}
    draft.nodes = (worker.pods if worker is not None else 0) + trains
    draft.train(launcher)
    draft.succeed_with(launcher.name)
    draft.parts.sort(key=lambda part: part is launcher)
    if not PurePosixPath(policy.get("sshAuthMountPath", _ROOT)).is_relative_to(_ROOT):
        for part in (launcher, *([worker] if worker is not None else ())):
            _share_keys(draft, part)
    if worker is None:
        return
    launcher.waits_for = ((worker.name, _READY),)
    if worker.main != CONTAINER_NODE:
        draft.train(worker)
        worker.trains = False


def _share_keys(draft: Draft, part: Part) -> None:
    """Let users other than root read the keys, as the old operators did."""
    context = part.pod.get("securityContext") or {}
    own = {**context, **(part.container.get("securityContext") or {})}
    if "fsGroup" in context or own.get("runAsUser") == 0:
        return
    group = own.get("runAsGroup") or own.get("runAsUser") or _GROUP
    part.pod["securityContext"] = {**context, "fsGroup": group}
    message = f"fsGroup {group}: users other than root read the keys of SSH with it"
    note = FieldFinding.of(f"{part.path}.spec.securityContext", group, Fidelity.CHANGED, message)
    draft.source.notes.append(note)


def _policy(draft: Draft) -> Body:
    source = draft.source
    policy: Body = {"mpiImplementation": IMPLEMENTATIONS[0]}
    slots = source.integer("spec.slotsPerWorker", 1)
    policy["numProcPerNode"] = slots or 1
    source.same("spec.slotsPerWorker", "mpi.numProcPerNode: slots in the host file")
    implementation = source.text("spec.mpiImplementation")
    if implementation is not None:
        if implementation not in IMPLEMENTATIONS:
            names = ", ".join(IMPLEMENTATIONS)
            raise source.malformed("spec.mpiImplementation", f"must be one of {names}, but is {implementation!r}")
        policy["mpiImplementation"] = implementation
        source.same("spec.mpiImplementation", "mpi.mpiImplementation")
    path = source.text("spec.sshAuthMountPath")
    if path:
        policy["sshAuthMountPath"] = path
        source.same("spec.sshAuthMountPath", "mpi.sshAuthMountPath")
    if source.text("spec.launcherCreationPolicy") == "WaitForWorkersReady":
        source.same("spec.launcherCreationPolicy", "the launcher depends on ready workers")
    else:
        source.changed("spec.launcherCreationPolicy", "the launcher starts when the workers are ready")
    return policy


def _requests_gpus(launcher: Part) -> bool:
    """Return whether a launcher requests GPUs, by which the training operator adds it to the host file."""
    resources = [container.get("resources") or {} for container in launcher.containers]
    return any("gpu" in name for each in resources for name in each.get("limits") or {})


def _hide_devices(draft: Draft, launcher: Part) -> None:
    """Hide the GPUs of its node from a launcher, as the operators do: images of CUDA show all of them."""
    for position, entry in enumerate(draft.source.peek(f"{launcher.container_path}.env") or ()):
        if entry.get("name") in _DEVICES:
            message = "empty, as the operator sets it: it hides the devices from a launcher"
            draft.source.changed(f"{launcher.container_path}.env[{position}]", message)
    upsert_env(launcher.container, [{"name": name, "value": ""} for name in _DEVICES])


def _serve(draft: Draft, worker: Part, *, first: bool) -> None:
    """Set an SSH server as the command of workers without one, as the MPI operator does."""
    if "command" not in worker.container and "args" not in worker.container:
        worker.container["command"] = [_SERVER[0]]
        worker.container["args"] = list(_SERVER[1:])
    if first:
        fix = "use an image with an SSH server, such as mpioperator/openmpi, and mpirun without kubexec"
        draft.source.notes.append(_ssh_note(worker, fix))


def _ssh_note(worker: Part, fix: str) -> FieldFinding:
    return FieldFinding.of(
        f"{worker.path}.spec.containers[{worker.main}]",
        worker.container.get("image"),
        Fidelity.CHANGED,
        "workers are reached over SSH instead of kubectl exec",
        fix,
    )


CONVERTERS: Final = {("kubeflow.org/v1", "MPIJob"): convert, ("kubeflow.org/v2beta1", "MPIJob"): convert}
