"""Differences of MPI jobs."""

from __future__ import annotations

import re

from tests.compatibility.compared_case import Scene, containers, main_container, parallelism, pod
from tests.compatibility.corpus.case import Body
from tests.compatibility.differences.devices import gpus
from tests.compatibility.differences.difference import Difference
from tests.compatibility.differences.rendering import add_claims
from tests.compatibility.object_differences import amounts, canonical

_OPEN_MPI = {
    "OMPI_MCA_orte_default_hostfile": "PRTE_MCA_prte_default_hostfile",
    "OMPI_MCA_orte_keep_fqdn_hostnames": "PRTE_MCA_prte_keep_fqdn_hostnames",
    "OMPI_MCA_orte_set_default_slots": "PRTE_MCA_prte_set_default_slots",
    "OMPI_MCA_plm_rsh_args": "PRTE_MCA_plm_ssh_args",
}
"""Variables of Open MPI 4, and what Open MPI 5 calls them."""

_ONLY_OPEN_MPI_5 = {
    "PRTE_MCA_prte_keep_fqdn_hostnames": "false",
    "PRTE_MCA_plm_ssh_no_tree_spawn": "true",
}
"""Variables whose values differ from those of Open MPI 4."""


def _set_count(job: Body, count: int) -> None:
    job["template"]["spec"]["parallelism"] = job["template"]["spec"]["completions"] = count


def _mpi(scene: Scene) -> tuple[Body, Body | None, Body | None]:
    """Return the policy (empty for other frameworks), the launcher and the nodes."""
    return scene.policy.get("mpi") or {}, scene.job("launcher"), scene.job("node")


def _launcher_count(scene: Scene) -> None:
    policy, launcher, node = _mpi(scene)
    if "mpi" not in scene.policy or launcher is None:
        return
    _set_count(launcher, 1)
    if node is not None and "numNodes" not in scene.trainer:
        nodes = max(scene.policy.get("numNodes", 1), 1)
        workers = max(nodes - 1, 1) if policy.get("runLauncherAsNode") else nodes
        _set_count(node, max(parallelism(node), workers))
    _write_hosts(scene)


def _launcher_alone(scene: Scene) -> None:
    policy, launcher, node = _mpi(scene)
    nodes = scene.trainer.get("numNodes", scene.policy.get("numNodes", 1))
    if launcher is None or node is None or not policy.get("runLauncherAsNode") or nodes != 1:
        return
    if scene.queued or ("numNodes" not in scene.trainer and parallelism(node) > 1):
        return
    scene.job_set["spec"]["replicatedJobs"].remove(node)
    for job in scene.jobs:
        job["dependsOn"] = [entry for entry in job.get("dependsOn", []) if entry["name"] != "node"]
        if not job["dependsOn"]:
            del job["dependsOn"]
    success = scene.job_set["spec"].get("successPolicy", {})
    success["targetReplicatedJobs"] = [name for name in success.get("targetReplicatedJobs", []) if name != "node"]
    if not success["targetReplicatedJobs"]:
        del success["targetReplicatedJobs"]
    _write_hosts(scene)


def _write_hosts(scene: Scene, slots: dict[str, str] | None = None) -> None:
    """Write the host file for the pods as they are now; the slots stay unless they are given for each part."""
    data = scene.objects[f"ConfigMap/{scene.job_name}-mpi-hostfile"]["data"]
    found = re.search(r"slots=(\d+)", data["hostfile"])
    number = found[1] if found else "1"
    parts = ("node", "launcher") if (scene.policy["mpi"] or {}).get("runLauncherAsNode") else ("node",)
    lines = (
        f"{scene.job_name}-{job['name']}-{replica}-{pod_index}.{scene.subdomain} "
        f"slots={(slots or {}).get(job['name'], number)}\n"
        for job in scene.jobs
        if job["name"] in parts
        for replica in range(int(job.get("replicas", 1)))
        for pod_index in range(parallelism(job))
    )
    data["hostfile"] = "".join(lines)


def _worker_program(scene: Scene) -> None:
    _, launcher, node = _mpi(scene)
    entry = main_container(node) if node else None
    if "mpi" not in scene.policy or launcher is None or entry is None:
        return
    if "image" in scene.trainer:
        entry["image"] = scene.trainer["image"]
    variables = entry.get("env", [])
    for variable in canonical({"env": scene.trainer.get("env", [])}).get("env", []):
        place = next((place for place, known in enumerate(variables) if known["name"] == variable["name"]), None)
        if place is None:
            variables.append(variable)
        else:
            variables[place] = variable
    if variables:
        entry["env"] = variables


def _worker_resources(scene: Scene) -> None:
    policy, launcher, node = _mpi(scene)
    asked = scene.trainer.get("resourcesPerNode")
    if (
        "mpi" not in scene.policy
        or launcher is None
        or node is None
        or asked is None
        or policy.get("runLauncherAsNode")
        or scene.queued
    ):
        return
    for job, extra in ((launcher, {}), (node, asked)):
        entry = main_container(job)
        if entry is not None:
            entry.pop("resources", None)
            own = scene.runtime_container(job["name"], "node").get("resources", {})
            merged = {
                kind: {**amounts(own.get(kind) or {}), **amounts(extra.get(kind) or {})}
                for kind in ("limits", "requests")
            }
            resources = {kind: values for kind, values in merged.items() if values}
            if resources:
                entry["resources"] = resources
            claims = [*(own.get("claims") or ()), *(extra.get("claims") or ())]
            if claims:
                add_claims(entry, claims)


def _slots(scene: Scene) -> None:
    policy, launcher, node = _mpi(scene)
    job = node or launcher
    if "mpi" not in scene.policy or launcher is None or job is None or "numProcPerNode" in scene.trainer:
        return
    if policy.get("numProcPerNode", 1) != 1:
        return
    parts = {each["name"]: str(max(1, gpus(main_container(each) or {}))) for each in (launcher, node) if each}
    slots = parts[job["name"]]
    for entry in containers(launcher):
        for variable in entry.get("env", ()):
            if variable["name"] == "OMPI_MCA_orte_set_default_slots":
                variable["value"] = slots
    _write_hosts(scene, parts)


def _second_variables(scene: Scene) -> None:
    _, launcher, _ = _mpi(scene)
    for entry in containers(launcher) if launcher and "mpi" in scene.policy else ():
        variables = entry.get("env", [])
        values = {variable["name"]: variable.get("value") for variable in variables}
        if "OMPI_MCA_orte_set_default_slots" not in values:
            continue
        place = 1 + max(place for place, variable in enumerate(variables) if variable["name"] in _OPEN_MPI)
        added = {new: values[old] for old, new in _OPEN_MPI.items()} | _ONLY_OPEN_MPI_5
        entry["env"] = [
            *variables[:place],
            *({"name": new, "value": value} for new, value in added.items() if new not in values),
            *variables[place:],
        ]


def _key_mode(scene: Scene) -> None:
    policy, _, _ = _mpi(scene)
    if not f"{policy.get('sshAuthMountPath', '/root/.ssh')}/".startswith("/root/"):
        return
    for job in scene.jobs if "mpi" in scene.policy else ():
        for volume in pod(job)["spec"].get("volumes", ()):
            if volume["name"] == "mpi-ssh-auth":
                next(item for item in volume["secret"]["items"] if item["path"] == "id_rsa")["mode"] = 0o600


MPI: tuple[Difference, ...] = (
    Difference(
        "launcher-count",
        "Pods of an MPI launcher",
        "`mlPolicy.numNodes`, while the nodes stay at one unless the TrainJob sets the number",
        "one launcher; `mlPolicy.numNodes` counts the nodes",
        "one mpirun starts the job, and the number applies to its nodes",
        objects=_launcher_count,
    ),
    Difference(
        "launcher-alone",
        "One node with `mpi.runLauncherAsNode`",
        "a launcher and a node: two pods",
        "the launcher alone; replicatedJob `node` is left out",
        "one node was requested (#3954)",
        objects=_launcher_alone,
    ),
    Difference(
        "mpi-program",
        "`trainer.image` and `trainer.env` of an MPI job",
        "the launcher's; variables also for the nodes if `runLauncherAsNode` is set",
        "the launcher's and the nodes'",
        "the same program runs there",
        objects=_worker_program,
    ),
    Difference(
        "mpi-resources",
        "`resourcesPerNode` of an MPI job whose launcher is not a node",
        "the launcher's",
        "the nodes'",
        "the launcher does not train",
        objects=_worker_resources,
    ),
    Difference(
        "mpi-slots",
        "Slots of an MPI node without `numProcPerNode`",
        "GPUs of the launcher, or of the TrainJob's `resourcesPerNode` alone",
        "GPUs of each rendered host",
        "the processes run there, on the launcher as well if it is a node",
        objects=_slots,
    ),
    Difference(
        "mpi-variables",
        "Variables of Open MPI 5",
        "not set: only the names of Open MPI 4 are",
        "set too (`PRTE_MCA_…`); a TrainJob can override them",
        "Open MPI 5 would start every process on the launcher; with `keep_fqdn_hostnames`, unlike Open MPI 4, it would "
        "not recognize a launcher that is a node, and without it, nodes could not start further ones",
        objects=_second_variables,
    ),
    Difference(
        "mpi-key-mode",
        "Mode of the SSH key in root's home",
        "0640",
        "0600; elsewhere 0640, so that members of the pod's fsGroup can read it",
        "root owns the file, and ssh rejects a key that others can read",
        objects=_key_mode,
    ),
)
