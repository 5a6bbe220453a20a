"""Differences in which replicatedJob of an MPI job gets the TrainJob's command, by the labels of its runtime."""

from __future__ import annotations

import copy

from tests.compatibility.compared_case import Scene, labelled, main_container, parallelism, pod
from tests.compatibility.corpus.case import ANCESTOR, Body
from tests.compatibility.differences.difference import Difference
from tests.compatibility.differences.rendering import add_claims, merge_resources
from tests.compatibility.object_differences import canonical

_INITIALIZERS = ("dataset-initializer", "model-initializer")


def _unlabelled_launcher(scene: Scene) -> None:
    launcher = scene.job("launcher")
    if "mpi" not in scene.policy or launcher is None or any(scene.trainers()) or labelled(launcher) in _INITIALIZERS:
        return
    launcher["template"].setdefault("metadata", {}).setdefault("labels", {})[ANCESTOR] = "trainer"
    entry = main_container(launcher)
    if entry is None:
        return
    for field in ("command", "args", "image"):
        if scene.trainer.get(field) is not None:
            entry[field] = copy.deepcopy(scene.trainer[field])
    _upsert(entry, canonical({"env": scene.trainer.get("env", [])}).get("env", []))
    asked = scene.trainer.get("resourcesPerNode")
    if asked and (scene.policy["mpi"].get("runLauncherAsNode") or scene.job("node") is None):
        merge_resources(entry, asked)
        if asked.get("claims"):
            add_claims(entry, asked["claims"])


def _two_labels(scene: Scene) -> None:
    launcher, node = scene.job("launcher"), scene.job("node")
    if "mpi" not in scene.policy or launcher is None or node is None:
        return
    labels = pod(node).get("metadata", {}).get("labels", {})
    if labelled(launcher) != "trainer" or "trainer" not in (labelled(node), labels.get(ANCESTOR)):
        return
    for template in (node["template"], pod(node)):
        _unlabel(template)
    if "numNodes" not in scene.trainer:
        own = next(job for job in scene.runtime_jobs if job["name"] == "node")
        node["template"]["spec"]["parallelism"] = node["template"]["spec"]["completions"] = parallelism(own)
    entry, own = main_container(node), scene.runtime_container("node", "node")
    for field in ("command", "args"):
        if entry is not None:
            entry.pop(field, None)
            if own.get(field):
                entry[field] = copy.deepcopy(own[field])


def _unlabel(template: Body) -> None:
    labels = template.get("metadata", {}).get("labels", {})
    labels.pop(ANCESTOR, None)
    if not labels:
        template.get("metadata", {}).pop("labels", None)
    if not template.get("metadata", {"": ""}):
        del template["metadata"]


def _upsert(entry: Body, variables: list[Body]) -> None:
    known = {variable["name"]: place for place, variable in enumerate(entry.get("env", []))}
    for variable in variables:
        if variable["name"] in known:
            entry["env"][known[variable["name"]]] = variable
        else:
            entry.setdefault("env", []).append(variable)


LABELS: tuple[Difference, ...] = (
    Difference(
        "unlabelled-launcher",
        "MPI runtime in which no replicatedJob has the trainer's label, and the launcher not that of an initializer",
        "no container gets the TrainJob's program",
        "the launcher is the trainer, with a warning if there is a command or arguments",
        "the job would ignore what the user wrote",
        objects=_unlabelled_launcher,
    ),
    Difference(
        "two-labels",
        "MPI runtime in which launcher and node have the ancestor label",
        "both run the TrainJob's command",
        "the launcher alone, with a warning; the node keeps the runtime's command",
        "one mpirun starts the processes on all nodes",
        objects=_two_labels,
    ),
)
