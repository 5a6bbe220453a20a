"""The TrainJobs that prove each framework, and runtimes in layouts that the catalog does not have."""

from __future__ import annotations

from typing import Any

import yaml

from tests.cluster.frameworks import Run, derived, replicated_job
from tests.cluster.jobs import node_patch

PATCHED = "example.com/patched"
DATA = {"dataset": {"storageUri": "hf://tatsu-lab/alpaca"}, "model": {"storageUri": "hf://meta-llama/Llama-3.2-1B"}}
TUNE = {"command": ["tune", "run"], "args": ["dataset=torchtune.datasets.alpaca_dataset", "epochs=2"]}
STORED = {
    "storageUri": "s3://datasets/alpaca",
    "env": [{"name": "ENDPOINT", "value": "https://minio.example.com"}, {"name": "REGION", "value": "eu-1"}],
    "secretRef": {"name": "minio"},
}
VOLUME = "alpaca"
CLAIM_PATCH = node_patch(spec={"volumes": [{"name": "dataset", "persistentVolumeClaim": {"claimName": VOLUME}}]})
OLD_PATCH = {
    "targetJobs": [{"name": "node"}],
    "metadata": {"labels": {PATCHED: "old"}},
    "spec": {
        "nodeSelector": {"node.kubernetes.io/instance-type": "simulated-8gpu"},
        "volumes": [{"name": "scratch", "emptyDir": {}}],
        "containers": [{"name": "node", "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}],
    },
}

COMPLETING = (
    Run("torch", "torch-distributed", trainer={"env": [{"name": "ALL", "value": "$(PET_NNODES)"}]}),
    Run("counted", "torch-distributed", gpus=4, trainer={"numProcPerNode": "auto"}),
    Run("overridden", "torch-distributed", spec={"podTemplateOverrides": [OLD_PATCH]}),
    Run("elastic", "torch-elastic", nodes=4, gpus=8, namespace="small"),
    Run("tune", "torchtune-llama3.2-1b", nodes=1, gpus=2, trainer=TUNE, spec={"initializer": DATA}),
    Run("deepspeed", "deepspeed-distributed", serving=("node",)),
    Run("mlx", "mlx-distributed", serving=("node",)),
    Run("openmpi", "mpi-openmpi", nodes=3, trainer={"numProcPerNode": 2}, serving=("node",)),
    Run("openmpi-alone", "mpi-openmpi", nodes=1, gpus=4),
    Run("openmpi-workers", "openmpi-workers", serving=("node",)),
    Run("intel", "mpi-intel", serving=("node",), trainer={"command": None, "args": ["mpirun", "train"]}),
    Run("intel-alone", "mpi-intel", nodes=1),
    Run("intel-workers", "intel-workers", serving=("node",)),
    Run("mpich", "mpi-mpich", serving=("node",)),
    Run("mpich-alone", "mpi-mpich", nodes=1),
    Run("mpich-workers", "mpich-workers", serving=("node",)),
    Run("horovod", "horovod", trainer={"numProcPerNode": 2}, serving=("node",)),
    Run("jax", "jax-distributed"),
    Run("jax-rack", "jax-distributed-gang"),
    Run("xgboost", "xgboost-distributed", gpus=2),
    Run("flux", "flux-distributed", gpus=4, trainer={"numProcPerNode": 4}),
    Run("tensorflow", "tensorflow"),
    Run("tensorflow-ps", "tensorflow-ps", serving=("worker", "ps")),
    Run("paddle", "paddle", gpus=2),
    Run("paddle-ps", "paddle-ps", serving=("ps",)),
    Run("ray", "ray", serving=("node",)),
    Run("ray-together", "ray-together"),
    Run("ray-launcher", "ray-launcher", serving=("node",)),
    Run("ray-submit", "ray-submit", serving=("head", "node")),
    Run("spark", "spark", nodes=3, gpus=0, trainer={"command": None, "args": ["--name=pi", "pi.py", "10"]}),
    Run("plain", "plain"),
    Run("dataset", "torch-with-dataset", spec={"initializer": {"dataset": DATA["dataset"]}}),
    Run("dataset-s3", "torch-with-dataset", spec={"initializer": {"dataset": STORED}}),
    Run("dataset-gs", "torch-with-dataset-gs", spec={"initializer": {"dataset": {"storageUri": "gs://data/alpaca"}}}),
    Run("dataset-pvc", "torch-with-dataset-pvc", spec={"runtimePatches": [CLAIM_PATCH]}),
    Run("model", "torch-with-model", spec={"initializer": {"model": DATA["model"]}}),
    Run("resumed", "mpi-openmpi", serving=("node",), spec={"suspend": True}),
)
ELSEWHERE = (
    Run("coscheduled", "torch-distributed-coscheduling", gpus=0),
    Run("kai", "torch-distributed-kai", gpus=0),
)
"""Gangs that other schedulers than Volcano place."""
REFUSED = tuple(
    Run(f"refused-{gang}", runtime)
    for gang, runtime in (
        ("none", "torch-alone"),
        ("coscheduling", "torch-distributed-coscheduling"),
        ("kai", "torch-distributed-kai"),
    )
)
"""Accelerators under other schedulers than Volcano."""


def own_runtimes() -> list[dict[str, Any]]:
    """Return variants that the catalog does not have."""
    bodies = []
    for implementation in ("openmpi", "intel", "mpich"):
        body = derived(f"mpi-{implementation}", f"{implementation}-workers")
        body["spec"]["mlPolicy"]["mpi"]["runLauncherAsNode"] = False
        bodies.append(body)
    together = derived("ray", "ray-together")
    jobs = together["spec"]["template"]["spec"]["replicatedJobs"]
    jobs[:] = [job for job in jobs if job["name"] == "node"]
    launcher = derived("ray", "ray-launcher")
    become_launcher(launcher)
    submit_runtime = derived("ray", "ray-submit")
    head = yaml.safe_load(yaml.safe_dump(replicated_job(submit_runtime, "head")))
    become_launcher(submit_runtime)
    submit_runtime["spec"]["template"]["spec"]["replicatedJobs"].append(head)
    bodies += [together, launcher, submit_runtime]
    alone = derived("torch-distributed", "torch-alone")
    del alone["spec"]["podGroupPolicy"]
    return [*bodies, alone]


def become_launcher(runtime: dict[str, Any]) -> None:
    """Turn the head of a Ray runtime into the launcher that is labelled as the trainer."""
    head, node = replicated_job(runtime, "head"), replicated_job(runtime, "node")
    head["name"] = "launcher"
    head["template"]["spec"]["template"]["spec"]["containers"][0]["name"] = "node"
    head["template"]["metadata"] = node["template"].pop("metadata")
