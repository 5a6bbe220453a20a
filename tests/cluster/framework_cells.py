"""Every framework with every gang scheduler, with and without initializers: what the table in docs/frameworks claims.

A TrainJob with a dataset and a model proves both. Where no job of `framework_jobs` is such a case already, one is made
here, on a runtime derived from the catalog's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.cluster.framework_jobs import DATA, TUNE
from tests.cluster.frameworks import DURATION, Run, derived
from trainyard.api.constants import ANCESTOR_LABEL
from trainyard.data import data_folder
from trainyard.jobs.runtimes.catalog_loader import load_catalog

FRAMEWORKS = {
    "torch": "torch-distributed",
    "torchtune": "torchtune-llama3.2-1b",
    "deepspeed": "deepspeed-distributed",
    "mlx": "mlx-distributed",
    "mpi": "mpi-openmpi",
    "horovod": "horovod",
    "jax": "jax-distributed",
    "xgboost": "xgboost-distributed",
    "flux": "flux-distributed",
    "tensorflow": "tensorflow",
    "paddle": "paddle",
    "ray": "ray",
    "spark": "spark",
    "plain": "plain",
}
"""The runtime that stands for each framework; docs/frameworks has a guide of each name."""

GANGS: dict[str, dict[str, Any]] = {
    "none": {},
    "volcano": {"volcano": {}},
    "coscheduling": {"coscheduling": {"scheduleTimeoutSeconds": 120}},
    "kai": {"kai": {"queue": "default-queue"}},
}
SCHEDULERS = {
    "none": "default-scheduler",
    "volcano": "volcano",
    "coscheduling": "scheduler-plugins-scheduler",
    "kai": "kai-scheduler",
}
INITIALIZERS = ("none", "dataset", "model")

_NAMED = {
    ("torch", "volcano", "none"): "torch",
    ("torch", "volcano", "dataset"): "dataset",
    ("torch", "volcano", "model"): "model",
    ("torch", "coscheduling", "none"): "coscheduled",
    ("torch", "kai", "none"): "kai",
    ("torchtune", "volcano", "dataset"): "tune",
    ("torchtune", "volcano", "model"): "tune",
    ("deepspeed", "volcano", "none"): "deepspeed",
    ("mlx", "volcano", "none"): "mlx",
    ("mpi", "volcano", "none"): "openmpi",
    ("horovod", "volcano", "none"): "horovod",
    ("jax", "volcano", "none"): "jax",
    ("xgboost", "volcano", "none"): "xgboost",
    ("flux", "volcano", "none"): "flux",
    ("tensorflow", "volcano", "none"): "tensorflow",
    ("paddle", "volcano", "none"): "paddle",
    ("ray", "volcano", "none"): "ray",
    ("spark", "volcano", "none"): "spark",
    ("plain", "volcano", "none"): "plain",
}
"""Cases that a job of `framework_jobs` is."""

_STEPS = ("dataset-initializer", "model-initializer")
_SERVING = ("deepspeed", "mlx", "mpi", "horovod", "ray")
"""Frameworks whose replicatedJob node serves until the job ends."""


@dataclass(frozen=True)
class Cell:
    """One case of the table.

    Parameters
    ----------
    job
        Name of the TrainJob that proves it.
    """

    framework: str
    gang: str
    initializer: str
    job: str

    @property
    def named(self) -> bool:
        """Whether the job is one of `framework_jobs`, which have tests of their own."""
        return (self.framework, self.gang, self.initializer) in _NAMED

    @property
    def runtime(self) -> str:
        """The runtime of a job that is made here."""
        return f"cell-{self.job}"

    def run(self) -> Run:
        """Return the TrainJob."""
        data = self.initializer != "none"
        tunes = self.framework == "torchtune"
        return Run(
            self.job,
            self.runtime,
            nodes=1 if tunes else 2,
            gpus=0,
            namespace="vision",
            trainer=TUNE if tunes else {"command": None, "args": ["app.py"]} if self.framework == "spark" else {},
            spec={"initializer": DATA} if data else {},
        )


def _cells() -> Iterator[Cell]:
    for framework in FRAMEWORKS:
        for gang in GANGS:
            for initializer in INITIALIZERS:
                made = f"{framework}-{gang}" + ("" if initializer == "none" else "-data")
                yield Cell(framework, gang, initializer, _NAMED.get((framework, gang, initializer), made))


CELLS = tuple(_cells())
"""The whole table."""


def made_cells() -> dict[str, Cell]:
    """Return the cases whose jobs are made here and run, by job.

    These are one of each framework, of each gang scheduler with and without data; all with ``TRAINYARD_CELLS=all``.
    """
    made = {cell.job: cell for cell in CELLS if not cell.named}
    return (
        made if os.environ.get("TRAINYARD_CELLS") == "all" else {job: made[job] for job in made if sampled(made[job])}
    )


def sampled(cell: Cell) -> bool:
    """Return whether it is its framework's turn: schedulers and data take turns along the list of frameworks."""
    turn = list(FRAMEWORKS).index(cell.framework)
    data = turn // len(GANGS) % 2 == 0
    return cell.gang == list(GANGS)[turn % len(GANGS)] and (cell.initializer != "none") == data


def cell_runtimes() -> list[dict[str, Any]]:
    """Return the runtimes of the jobs that are made here."""
    return [_runtime(cell) for cell in made_cells().values()]


def _runtime(cell: Cell) -> dict[str, Any]:
    body = derived(FRAMEWORKS[cell.framework], cell.runtime)
    spec = body["spec"]
    spec["podGroupPolicy"] = GANGS[cell.gang]
    if not spec["podGroupPolicy"]:
        del spec["podGroupPolicy"]
    if cell.framework == "torchtune":
        # The model is part of the runtime's name, or said here.
        body["metadata"]["annotations"] = {"trainyard.dev/torchtune-model": "llama3_2/1B"}
        limits = spec["template"]["spec"]["replicatedJobs"][-1]["template"]["spec"]["template"]["spec"]["containers"][0]
        limits["resources"] = {"limits": {"cpu": "1"}}
    if cell.initializer != "none" and cell.framework != "torchtune":
        _add_steps(spec["template"]["spec"])
    if cell.gang == "coscheduling":
        # The policy leaves the scheduler to the cluster; in this one, it is the stand-in.
        for job in spec["template"]["spec"]["replicatedJobs"]:
            job["template"]["spec"]["template"]["spec"]["schedulerName"] = SCHEDULERS["coscheduling"]
    if cell.framework in _SERVING:
        jobs = spec["template"]["spec"]["replicatedJobs"]
        template = next(job for job in jobs if job["name"] == "node")["template"]["spec"]["template"]
        template.setdefault("metadata", {}).setdefault("annotations", {})[DURATION] = "1h"
    return body


def _add_steps(job_set: dict[str, Any]) -> None:
    """Put both initializers of torchtune before everything else, and their volume into every container."""
    (tune,) = load_catalog(data_folder("runtimes"), (FRAMEWORKS["torchtune"],)).runtimes
    assert tune.alias is not None
    source = tune.version(tune.alias).manifest()["spec"]["template"]["spec"]
    steps = [job for job in source["replicatedJobs"] if job["name"] in _STEPS]
    job_set["volumeClaimPolicies"] = source["volumeClaimPolicies"]
    for job in job_set["replicatedJobs"]:
        if not job.get("dependsOn"):
            job["dependsOn"] = [{"name": step, "status": "Complete"} for step in _STEPS]
        for container in job["template"]["spec"]["template"]["spec"]["containers"]:
            container.setdefault("volumeMounts", []).append({"name": "initializer", "mountPath": "/workspace"})
    assert all(ANCESTOR_LABEL in step["template"]["metadata"]["labels"] for step in steps)
    job_set["replicatedJobs"] = [*steps, *job_set["replicatedJobs"]]
