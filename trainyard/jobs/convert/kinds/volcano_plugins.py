"""Plug-ins of Volcano Jobs: their effect on the pods, and the framework that replaces them."""

from __future__ import annotations

from typing import Final

from trainyard.api import Body
from trainyard.api.constants import CONTAINER_NODE
from trainyard.jobs.convert.draft import Draft
from trainyard.jobs.convert.kinds.mpi import lead
from trainyard.jobs.convert.kinds.ray_groups import HEAD
from trainyard.jobs.convert.kinds.tensorflow import name_roles
from trainyard.jobs.convert.kinds.volcano_flags import is_set, note_flags, read_flags
from trainyard.jobs.convert.kinds.volcano_policies import completes_job
from trainyard.jobs.convert.part import Part
from trainyard.jobs.convert.ranked import merge
from trainyard.jobs.convert.torch_environment import MASTER_PORT, set_node_variables, set_role_variables
from trainyard.jobs.convert.variables import Variable, indexed, literal, mentions, note_legacy_hosts, set_variables
from trainyard.jobs.render.frameworks.plain import PLAIN_LABEL
from trainyard.jobs.render.pod_editing import upsert_mount, upsert_volume
from trainyard.jobs.render.pod_set import LAUNCHER

_PLUGINS: Final = "spec.plugins"
_HEAD_SERVICE: Final = "head-svc"
_HOSTS_FOLDER: Final = "/etc/volcano"
_HOSTS_VOLUME: Final = "volcano-hosts"
_TF_ROLES: Final = ("chief", "worker", "ps", "evaluator")


def apply_plugins(draft: Draft) -> None:
    """Read the plug-ins; the most specific one determines the framework."""
    source = draft.source
    old = draft.source.peek("metadata.name")
    tasks = list(draft.parts)
    old_names = {id(part): part.name for part in tasks}
    names = source.keys(_PLUGINS)
    flags = {name: read_flags(source, name) for name in names}
    framework: str | None = next((name for name in _FRAMEWORK_PLUGINS if name in flags), None)
    applied = framework is not None and _FRAMEWORK_PLUGINS[framework](
        draft, {**flags.get("ssh", {}), **flags[framework]}
    )
    if not applied and "ssh" in flags and framework is None:
        applied = _over_ssh(draft, flags["ssh"])
        framework = "ssh" if applied else None
    if not applied:
        draft.framework, draft.policy = PLAIN_LABEL, {}
        deciding = _deciding(draft)
        draft.nodes = deciding.pods
        draft.train(deciding)
    for name in names:
        _note(draft, name, framework if applied else None, flags[name])
        note_flags(source, name, with_port=name == framework and not draft.policy)
    hosts = _hosts(draft, tasks, old_names)
    give_index = "env" in flags
    for part in draft.parts:
        if give_index:
            set_variables(source, part, [indexed("VC_TASK_INDEX"), indexed("VK_TASK_INDEX")], always=False)
        set_variables(source, part, list(_host_variables(hosts)), always=False)
        note_legacy_hosts(source, part, [f"{old}-{name}-" for name in old_names.values()], part.first_host(draft.name))
        if framework == "ray":
            note_legacy_hosts(source, part, [f"{old}-{_HEAD_SERVICE}"], "$RAY_HEAD_HOST")
    if any(mentions(part, _HOSTS_FOLDER) for part in draft.parts):
        _mount_hosts(draft, hosts)


def _deciding(draft: Draft) -> Part:
    """Return the task that trains: the one that completes the job, else that of the most pods it needs."""
    source = draft.source
    least = source.peek("spec.minSuccess")

    def weight(part: Part) -> tuple[bool, bool, bool, int]:
        needed = source.peek(f"{part.role}.minAvailable") != 0
        return completes_job(source, part), part.pods == least != 1, needed, part.pods

    return max(draft.parts, key=weight)


def _note(draft: Draft, name: str, framework: str | None, flags: dict[str, str]) -> None:
    source = draft.source
    path = f"{_PLUGINS}.{name}"
    if name == "ssh" and framework in ("mpi", "ssh"):
        message = "mlPolicy.mpi makes the keys and mounts them, without a configuration of ssh"
        source.changed(path, message, "let /etc/ssh/ssh_config of the image say StrictHostKeyChecking no")
    elif name == framework:
        policy = next(iter(draft.policy), None)
        source.changed(path, f"mlPolicy.{policy}, which sets the variables" if policy else "variables of the pods")
    elif name == "svc":
        alone = is_set(flags, "disable-network-policy")
        fix = "" if alone else "pods outside the job can connect to its pods: set networkPolicies of the platform"
        source.changed(path, "the headless Service of the JobSet: other host names", fix)
    elif name == "env":
        source.changed(path, "the completion index of the Job, where a command names the variable")
    elif name == "ssh":
        source.lost(path, "no keys are made for these tasks", "use two tasks, a launcher of one pod and its workers")
    elif framework is not None and name in _FRAMEWORK_PLUGINS:
        source.lost(path, f"beside {framework}", "keep one framework in a job")
    elif name == "hcclrank":
        source.lost(path, "no rank table is made for Huawei's collective library", "make it in the containers")
    elif name in _FRAMEWORK_PLUGINS:
        source.lost(path, "its tasks are not there", "correct the names of the tasks in its options")
    else:
        source.lost(path, "is not known here", "see what it sets, and add that to the runtime")


def _ray(draft: Draft, flags: dict[str, str]) -> bool:
    head, worker = draft.part(flags.get("head", "head")), draft.part(flags.get("worker", "worker"))
    if head is None:
        return False
    draft.framework, draft.policy = "ray", {"ray": {}}
    for part, option in ((head, "headContainer"), (worker, "workerContainer")):
        if part is None:
            continue
        wanted = flags.get(option, part.name)
        part.main = next((each["name"] for each in part.pod["containers"] if each["name"] == wanted), part.main)
        for field in ("command", "args"):
            part.container.pop(field, None)
            draft.source.changed(f"{part.container_path}.{field}", "Ray is started by the framework")
        part.pod["containers"].sort(key=lambda each, own=part: each["name"] != own.main)
    submitter = next((part for part in draft.parts if part not in (head, worker)), None)
    head.name = HEAD if worker is not None or submitter is not None else CONTAINER_NODE
    if worker is not None:
        worker.name = CONTAINER_NODE
        draft.train(worker)
        draft.nodes = worker.pods
    if submitter is not None:
        if worker is not None:
            worker.trains = False
        draft.train(submitter)
    elif worker is None:
        draft.train(head)
    return True


def _mpi(draft: Draft, flags: dict[str, str]) -> bool:
    master, worker = draft.part(flags.get("master", "master")), draft.part(flags.get("worker", "worker"))
    if master is None or worker is None or master.pods != 1:
        return False
    hosts = ",".join(f"{draft.name}-{CONTAINER_NODE}-0-{index}.{draft.name}" for index in range(worker.pods))
    return _launch(draft, master, worker, flags, [literal("MPI_HOST", hosts)])


def _over_ssh(draft: Draft, flags: dict[str, str]) -> bool:
    """Convert two tasks, one of them a single pod, to a launcher with its workers."""
    if len(draft.parts) != 2:
        return False
    launchers = sorted(draft.parts, key=lambda part: part.pods)
    if launchers[0].pods != 1 or (launchers[1].pods == 1 and "master" not in launchers[0].name):
        return False
    return _launch(draft, launchers[0], launchers[1], flags, [])


def _launch(draft: Draft, master: Part, worker: Part, flags: dict[str, str], variables: list[Variable]) -> bool:
    master.name, worker.name = LAUNCHER, CONTAINER_NODE
    policy: Body = {"mpiImplementation": "OpenMPI", "numProcPerNode": 1}
    path = flags.get("ssh-key-file-path")
    if path:
        policy["sshAuthMountPath"] = path
    lead(draft, master, worker, policy, trains=False)
    set_variables(draft.source, master, variables, always=True)
    return True


def _pytorch(draft: Draft, flags: dict[str, str]) -> bool:
    master, worker = draft.part(flags.get("master", "master")), draft.part(flags.get("worker", "worker"))
    if master is None or master.pods != 1:
        return False
    draft.framework = "torch"
    others = [part for part in draft.parts if part not in (master, worker)]
    waits = (worker.waits_for if worker is not None else (), master.waits_for)
    if others and any(name == part.name for part in others for names in waits for name, _ in names):
        return False
    if worker is not None and worker.waits_for:
        path = f"{worker.role}.dependsOn.name"
        draft.source.forget(path)
        draft.source.changed(path, "all start together: the workers wait for the master by themselves")
        worker.waits_for = ()
    node = merge(draft, master, worker)
    if node is not None:
        draft.policy, draft.processes = {"torch": {}}, 1
        set_node_variables(draft, node, 1, always=True)
    elif worker is not None:
        port = flags.get("port", "")
        set_role_variables(draft, master, worker, 1, int(port) if port.isdecimal() else MASTER_PORT)
    return True


def _tensorflow(draft: Draft, flags: dict[str, str]) -> bool:
    roles = {flags.get(role, role): role for role in _TF_ROLES}
    found = [part for part in draft.parts if part.name in roles]
    if not any(roles[part.name] in ("worker", "chief") for part in found):
        return False
    renamed = {part.name: roles[part.name] for part in found}
    for part in draft.parts:
        part.waits_for = tuple((renamed.get(name, name), status) for name, status in part.waits_for)
        part.name = renamed.get(part.name, part.name)
    name_roles(draft)
    return True


_FRAMEWORK_PLUGINS: Final = {"ray": _ray, "mpi": _mpi, "pytorch": _pytorch, "tensorflow": _tensorflow}
"""Plug-ins of Volcano that start a framework, the most specific one first."""


def _hosts(draft: Draft, tasks: list[Part], names: dict[int, str]) -> dict[str, list[str]]:
    """Return the new host names of each task by its legacy name."""
    found = {}
    for part in tasks:
        if part in draft.parts:
            found[names[id(part)]] = part.hosts(draft.name)
    merged = [part for part in tasks if part not in draft.parts]
    for part in merged:
        nodes = draft.trainer
        every = nodes.hosts(draft.name)
        found[names[id(part)]] = every[-part.pods :]
        first = next(name for name, hosts in found.items() if hosts == every)
        found[first] = every[: len(every) - part.pods]
    return found


def _host_variables(hosts: dict[str, list[str]]) -> list[Variable]:
    found = []
    for task, names in hosts.items():
        key = task.replace("-", "_").upper()
        found += [literal(f"VC_{key}_HOSTS", ",".join(names)), literal(f"VC_{key}_NUM", len(names))]
    return found


def _mount_hosts(draft: Draft, hosts: dict[str, list[str]]) -> None:
    """Mount the host files of plug-in svc with the new names."""
    name = f"{draft.name}-volcano-hosts"
    metadata: Body = {"name": name}
    if draft.namespace is not None:
        metadata["namespace"] = draft.namespace
    data = {f"{task.replace('-', '_')}.host": "\n".join(names) for task, names in hosts.items()}
    draft.objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    for part in draft.parts:
        if mentions(part, _HOSTS_FOLDER):
            upsert_volume(part.pod, {"name": _HOSTS_VOLUME, "configMap": {"name": name}})
            for container in part.containers:
                upsert_mount(container, {"name": _HOSTS_VOLUME, "mountPath": _HOSTS_FOLDER})
