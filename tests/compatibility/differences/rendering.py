"""Differences in what is rendered, the gang left out."""

from __future__ import annotations

import copy
import re

from tests.compatibility.compared_case import Scene, containers, labelled, main_container, pod
from tests.compatibility.corpus.case import Body
from tests.compatibility.differences.difference import Difference
from tests.compatibility.object_differences import amounts, canonical

INJECTED = {
    "torch": ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
    "jax": ("JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "JAX_COORDINATOR_ADDRESS"),
    "xgboost": ("DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"),
    "mpi": (
        "OMPI_MCA_orte_default_hostfile",
        "OMPI_MCA_orte_keep_fqdn_hostnames",
        "OMPI_MCA_orte_set_default_slots",
        "OMPI_MCA_plm_rsh_args",
    ),
}
"""Variables that upstream injects, by framework; names of another framework are the user's."""
_RENDEZVOUS = {"containerPort": 29500, "protocol": "TCP"}
_CONNECTED = ("torch", "jax", "xgboost")


def _snapshot(scene: Scene) -> None:
    data = scene.objects[f"ConfigMap/{scene.job_name}-runtime-snapshot"]["data"]
    for field in ("resourceVersion", "creationTimestamp", "managedFields"):
        data["runtime"]["metadata"].pop(field, None)
    # Both snapshots have these of a stored runtime; the corpus renders ours from its manifest.
    for field in ("uid", "generation"):
        data["runtime"]["metadata"].pop(field, None)


def _always_injected(scene: Scene) -> None:
    if scene.twin is None or not any(key.startswith("JobSet/") for key in scene.twin.objects):
        return
    for key, body in scene.twin.objects.items():
        if not key.startswith("ConfigMap/"):
            replacement = canonical(body)
            replacement["metadata"]["ownerReferences"] = scene.job_set["metadata"]["ownerReferences"]
            scene.objects[key] = replacement


def _first(scene: Scene) -> None:
    injected = [name for framework in scene.policy for name in INJECTED.get(framework, ())]
    for job in scene.jobs:
        for entry in containers(job):
            variables = entry.get("env")
            if variables and _is_injected(scene, job, entry):
                order = {name: number for number, name in enumerate(injected) if not _is_kept(scene, job, entry, name)}
                variables.sort(key=lambda variable, order=order: order.get(variable["name"], len(injected)))


def _is_kept(scene: Scene, job: Body, entry: Body, name: str) -> bool:
    """Tell whether a variable is still the runtime's own: both sides keep some of those of MPI, with their place."""
    own = canonical({"env": scene.runtime_container(job["name"], entry["name"]).get("env", [])}).get("env", [])
    return "mpi" in scene.policy and any(variable["name"] == name and variable in entry["env"] for variable in own)


def _is_injected(scene: Scene, job: Body, entry: Body) -> bool:
    targets = ((scene.policy.get("torch") or {}).get("envInjection") or {}).get("targets", [])
    if any(target["jobName"] == job["name"] and entry["name"] in target["containerNames"] for target in targets):
        return True
    launches = scene.policy.get("mpi") is not None and job["name"] == "launcher"
    return entry is main_container(job) and (labelled(job) == "trainer" or launches)


def _address(scene: Scene) -> None:
    trainer = next(scene.trainers(), None)
    if trainer is None or not any(framework in scene.policy for framework in _CONNECTED):
        return
    name = re.escape(scene.job_name)
    address = f"{scene.job_name}-{trainer['name']}-0-0.{scene.subdomain}"
    for job in scene.jobs:
        for entry in containers(job):
            for field in ("env", "command"):
                if field in entry:
                    entry[field] = scene.replace_texts(
                        rf"(?<![\w-]){name}-node-0-0\.{name}(?![\w-])", address, entry[field]
                    )


def _port(scene: Scene) -> None:
    if not any(framework in scene.policy for framework in _CONNECTED):
        return
    for job in scene.trainers():
        entry = main_container(job)
        if entry is None or _RENDEZVOUS not in entry.get("ports", []):
            continue
        own = [{"protocol": "TCP", **port} for port in scene.runtime_container(job["name"], "node").get("ports", [])]
        taken = any((port["containerPort"], port["protocol"]) == (29500, "TCP") for port in own)
        entry["ports"] = own if taken else [*own, _RENDEZVOUS]


def _resources_without_policy(scene: Scene) -> None:
    asked = scene.trainer.get("resourcesPerNode")
    if scene.policy or "mlPolicy" in scene.runtime_spec or not asked:
        return
    for job in scene.trainers():
        entry = main_container(job)
        if entry is not None:
            merge_resources(entry, asked)


def _claims(scene: Scene) -> None:
    claims = scene.trainer.get("resourcesPerNode", {}).get("claims")
    nodes = [scene.job("node")] if "mpi" in scene.policy and scene.policy["mpi"].get("runLauncherAsNode") else []
    for job in (*scene.trainers(), *nodes) if claims else ():
        entry = main_container(job) if job else None
        if entry is not None:
            add_claims(entry, claims)


def add_claims(entry: Body, claims: list[Body]) -> None:
    """Merge resource claims into those of a container, by name."""
    resources = entry.setdefault("resources", {})
    resources["claims"] = list({claim["name"]: claim for claim in (*resources.get("claims", ()), *claims)}.values())


def merge_resources(entry: Body, asked: Body) -> None:
    """Merge limits and requests into those of a container."""
    resources = entry.setdefault("resources", {})
    for kind in ("limits", "requests"):
        if asked.get(kind):
            resources[kind] = {**resources.get(kind, {}), **amounts(asked[kind])}
    if not resources:
        del entry["resources"]


def _lost_sources(scene: Scene) -> None:
    wanted = {variable["name"]: variable for variable in scene.trainer.get("env", [])}
    for job in scene.jobs:
        for entry in containers(job):
            for variable in entry.get("env", ()):
                source = wanted.get(variable["name"], {}).get("valueFrom", {})
                kept = source.get("fileKeyRef"), source.get("fieldRef", {}).get("apiVersion")
                if any(kept) and entry["name"] == "node":
                    variable["valueFrom"] = copy.deepcopy(source)
                    if "fileKeyRef" in source:
                        variable["valueFrom"]["fileKeyRef"].setdefault("optional", False)


def _new_source(scene: Scene) -> None:
    for change in scene.spec.get("runtimePatches", []):
        jobs = (change.get("trainingRuntimeSpec") or {}).get("template", {}).get("spec", {}).get("replicatedJobs", [])
        for patched in jobs:
            job = scene.job(patched["name"])
            if job is not None and patched["template"].get("spec"):
                _replace_sources(pod(job), pod(patched))


def _replace_sources(template: Body, patched: Body) -> None:
    spec, changes = template["spec"], patched.get("spec") or {}
    for kind in ("containers", "initContainers"):
        for change in changes.get(kind, ()):
            for variable in change.get("env", ()):
                entry = next((each for each in spec.get(kind, ()) if each["name"] == change["name"]), {})
                _one_source(entry.get("env", []), variable, {"name"})
    for volume in changes.get("volumes", ()):
        _one_source(spec.get("volumes", []), volume, {"name"})


def _one_source(entries: list[Body], change: Body, keys: set[str]) -> None:
    sources = set(change) - keys
    for entry in entries:
        if entry["name"] == change["name"] and sources and set(entry) - keys - sources:
            for field in set(entry) - keys - sources:
                del entry[field]


RENDERING: tuple[Difference, ...] = (
    Difference(
        "snapshot-metadata",
        "Snapshot of the runtime",
        "whole object",
        "without resourceVersion, managed fields, timestamps and `last-applied-configuration`",
        "they are not part of the runtime and change independently",
        objects=_snapshot,
    ),
    Difference(
        "always-injected",
        "Variables and port of torch, JAX and XGBoost without `spec.trainer`",
        "not set",
        "set as with an empty `spec.trainer`",
        "distributed training does not start otherwise (#4076, #4082)",
        objects=_always_injected,
        incomparable=lambda scene: scene.twin is not None and "duplicate entries" in scene.twin.failure,
    ),
    Difference(
        "injected-first",
        "Order of variables",
        "the user's first, then the injected ones; those of XGBoost in random order",
        "the injected ones first, in a fixed order",
        "Kubernetes expands `$(PET_NNODES)` from earlier entries only",
        objects=_first,
    ),
    Difference(
        "address",
        "Address of the first node (torch, torchtune, JAX, XGBoost)",
        "always `<job>-node-0-0.<job>`",
        "the name of the trainer's replicatedJob and the JobSet's subdomain",
        "the fixed name does not resolve with other names in the runtime; for shipped runtimes both are equal",
        objects=_address,
    ),
    Difference(
        "port",
        "Port 29500",
        "overwrites the first unnamed port, or a named or UDP port of that number; two unnamed ports cannot be applied",
        "added unless TCP 29500 is declared; other ports stay",
        "a declared port must not be dropped",
        objects=_port,
        verdict=lambda scene: "duplicate entries for key [containerPort=" in scene.theirs.failure,
    ),
    Difference(
        "resources-without-policy",
        "`resourcesPerNode` without `mlPolicy`",
        "ignored",
        "applied",
        "a request for GPUs must not be dropped",
        objects=_resources_without_policy,
    ),
    Difference(
        "claims",
        "`resourcesPerNode.claims`",
        "dropped",
        "merged by name",
        "user input must not be dropped",
        objects=_claims,
    ),
    Difference(
        "lost-sources",
        "`fileKeyRef` and `fieldRef.apiVersion` in `trainer.env` and initializer `env`",
        "dropped",
        "kept",
        "user input must not be dropped",
        objects=_lost_sources,
    ),
    Difference(
        "new-source",
        "Patch that sets another source of a volume or a variable",
        "both sources stay, which is invalid in a pod",
        "the new source replaces the old one",
        "the only valid result",
        objects=_new_source,
    ),
)
